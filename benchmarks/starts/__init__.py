"""Measurements of first starts."""
