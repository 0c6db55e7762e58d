"""Learned types of results in a hub: the results that are looked at, and their file."""

TYPE_FILE = "learned-types.jsonl"
"""Name of the file in the home. Whoever only looks whether it is there imports nothing else."""
