"""Vectors: a database of their own, mapped files derived from it, exact search over these files."""
