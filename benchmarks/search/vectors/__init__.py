"""Search by vectors: the store beside numpy, every answer compared with the exact one."""
