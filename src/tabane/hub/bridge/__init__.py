"""Bridge from an assistant's standard streams to the hub's socket. Uses only the standard library."""
