"""Fifty tasks of several calls, done once with calls one by one and once with scripts."""
