"""Audit: the chained log of every call, sign-in and change, and what is derived from it."""
