"""Mutants: small changes of the source, each of which a test of its room should notice."""
