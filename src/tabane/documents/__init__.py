"""Documents: texts that were put, or found in files, kept in chunks and found again."""

DOMAIN = "documents"
"""The name of its store. Whoever only asks whether anything is stored imports nothing else."""
