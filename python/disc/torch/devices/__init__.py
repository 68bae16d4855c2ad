"""Devices of tensors, and the states of torch that each type of device has of its own."""
