"""Tasks of clients: calls that go on after their requests were answered, here or at a server."""
