"""Measures disc on a GPU beside eager, Inductor and JAX, and what the GPU can do at most."""
