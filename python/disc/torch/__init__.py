"""Compiles modules of PyTorch: captures a module, lowers the graph to the compiler's IR,
and calls the compiled code.
"""
