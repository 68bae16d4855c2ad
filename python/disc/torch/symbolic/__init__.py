"""Reasons about expressions of sizes, written in sympy as torch's shape environment writes them."""
