"""Servers that the files of a project define, and the trust of a person in these files."""
