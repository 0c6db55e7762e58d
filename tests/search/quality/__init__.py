"""A floor under the quality of search, over a small corpus of the project's own."""
