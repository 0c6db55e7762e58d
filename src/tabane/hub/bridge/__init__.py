"""The process in front of an assistant: its standard streams to the hub's socket. Standard library only."""
