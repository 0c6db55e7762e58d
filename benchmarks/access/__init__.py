"""Measures of access: what limits cost, and how fair they are."""
