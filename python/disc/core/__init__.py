"""Holds what every front end shares: errors, options, dims, the extension module,
reports and packages. Imports no framework.
"""
