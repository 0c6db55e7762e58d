"""Vectors: one append-only file for each space, binary codes derived from it, exact search over both."""
