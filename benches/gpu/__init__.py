"""Measures disc on a GPU beside eager, Inductor and JAX, and records what the GPU can do at most."""
