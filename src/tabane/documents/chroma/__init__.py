"""A collection of Chroma's, as semche kept its documents in, taken over."""
