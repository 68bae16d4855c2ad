"""Builds the compiler's IR on behalf of a front end: ops, sizes and element types."""
