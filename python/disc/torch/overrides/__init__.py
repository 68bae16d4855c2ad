"""Replaces functions of torch and Python, while a module is traced,
by ones that keep sizes symbolic.
"""
