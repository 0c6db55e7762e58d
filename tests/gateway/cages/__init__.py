"""Cages of servers."""
