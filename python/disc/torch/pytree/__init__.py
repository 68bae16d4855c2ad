"""Flattens the arguments and results of a module."""
