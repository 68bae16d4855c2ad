"""Checks the arguments of calls, keeps the state that calls change, counts what was refused."""
