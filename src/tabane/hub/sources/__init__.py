"""The sources of a hub: posts, documents, pages and the manual, with their search and embedding."""
