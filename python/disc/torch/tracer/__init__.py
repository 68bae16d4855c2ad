"""Traces a module into an FX graph of whole ATen ops with symbolic sizes."""
