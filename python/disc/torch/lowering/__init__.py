"""Lowers a captured FX graph to the compiler's IR: one table of ATen overloads,
one file per family of ops.
"""
