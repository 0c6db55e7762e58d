"""Shared parts of the search engines: checked requests, lexical plans, BM25, cursors."""
