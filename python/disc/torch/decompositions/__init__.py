"""Expresses ATen ops without a lowering by others that have one."""
