"""The embedded engine: SQLite keeps the truth, everything else is derived from it."""
