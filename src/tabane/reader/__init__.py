"""The reader: any URL as clean, whole, safe Markdown."""
