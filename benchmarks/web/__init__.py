"""Measurements of the web page, as a browser meets it."""
