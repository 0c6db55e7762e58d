"""Backups: an archive of a home, its settings and its servers, and the way back from it."""
