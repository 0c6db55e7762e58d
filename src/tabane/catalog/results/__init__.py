"""Kept results: where they are kept, what they contain, and queries on them."""
