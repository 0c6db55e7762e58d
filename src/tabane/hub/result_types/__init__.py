"""Learned types of results in a hub: the results that are looked at, and their file."""
