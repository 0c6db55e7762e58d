"""Checks of `tabane doctor`: they take facts and return findings with their fixes."""
