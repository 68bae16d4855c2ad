"""Divides a captured graph into clusters that disc compiles and ops that torch runs."""
