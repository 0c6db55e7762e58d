"""Measurements of the post archive in a running hub, as its clients see it."""
