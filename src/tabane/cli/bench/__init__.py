"""Benchmarks of tool disclosure: a hub in a temporary home, and agents that see only what it returns."""
