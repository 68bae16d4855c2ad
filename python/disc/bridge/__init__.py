"""Bridges: what frameworks hand over becomes ops of the compiler. One table per framework; nothing here compiles or runs."""
