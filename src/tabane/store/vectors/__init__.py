"""Vectors: their truth in a database of its own, mapped files derived from it, exact search over these."""
