"""Measures of a hub that is reached over HTTP."""
