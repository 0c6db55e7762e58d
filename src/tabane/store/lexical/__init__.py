"""The lexical index of a collection: tantivy for what is committed, a tail in memory for what is newer."""
