"""The flow policy: what calls of one conversation may do together, by labels of what they read and change."""
