"""Writes docs/coverage-torch.md: which overloads of torch are compiled."""
