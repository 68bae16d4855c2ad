"""Defines what capture hands to the lowering: a graph of ATen ops, and what belongs to it."""
