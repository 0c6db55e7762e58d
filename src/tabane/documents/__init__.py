"""Documents: texts that were put, or found in files, kept in chunks and found again."""
