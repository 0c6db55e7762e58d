"""The quality of reading pages, and the floor under it."""
