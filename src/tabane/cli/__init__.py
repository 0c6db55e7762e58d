"""Commands: thin clients of the hub."""
