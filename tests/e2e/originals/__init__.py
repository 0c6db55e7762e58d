"""Behavior that the clients and commands of the four original systems expect, checked against Tabane."""
