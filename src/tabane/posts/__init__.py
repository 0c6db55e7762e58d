"""The post archive: posts, likes and bookmarks of a person, found by meaning and by word."""

DOMAIN = "posts"
"""The name of its store. Whoever only asks whether anything is stored imports nothing else."""

COLLECTION = "posts"
"""The name of the collection in it."""
