"""Runs PyTorch's own tests of ``torch.compile`` with the backend "disc"."""
