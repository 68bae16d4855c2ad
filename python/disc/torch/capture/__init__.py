"""Captures a module for all sizes: chooses example sizes, traces, and reads the guards."""
