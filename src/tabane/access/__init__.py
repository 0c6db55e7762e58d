"""Access: keys, permissions and profiles; who may call what."""
