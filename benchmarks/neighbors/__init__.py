"""Latency of assistants next to a server that misbehaves for another assistant."""
