"""Notices that a module was changed since it was compiled: ``ModuleWatch``."""
