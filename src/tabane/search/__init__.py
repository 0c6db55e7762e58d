"""Text analysis for search, shared by tools, posts, documents and pages."""
