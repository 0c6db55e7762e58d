"""Cages: what the process of a server may read, write, connect to and use, enforced by the system."""
