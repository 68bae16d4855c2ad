"""The compiled module: its forms of call, and what runs each of them."""
