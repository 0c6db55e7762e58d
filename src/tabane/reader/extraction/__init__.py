"""Content extraction: the parts of a page that a person would read."""
