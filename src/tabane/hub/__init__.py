"""The hub: its process, its listeners and its parts, put together."""
