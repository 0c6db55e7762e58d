"""Access: who may call what, and how much."""
