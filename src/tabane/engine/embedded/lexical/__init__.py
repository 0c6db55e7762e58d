"""The lexical index of a collection: a tantivy index, and memory segments for what is newer."""
