"""Search by vectors: the store beside numpy, faiss and others, every answer held against the exact one."""
