"""Questions of servers to clients: those that are open, and calls that wait for an answer."""
