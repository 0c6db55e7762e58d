"""The post archive: posts, likes and bookmarks of a person, found by meaning and by word."""
