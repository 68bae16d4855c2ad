"""Keeps captures on disk, under a fingerprint of the module and of all code that it reaches."""
