"""Engines for a team: PostgreSQL, and the indexes beside it."""
