"""Compares compiled code with eager mode: runs both from one state, and says how they differ."""
