"""Writes packages, and reads models of torch from files, for Python and the command line."""
