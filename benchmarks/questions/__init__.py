"""Questions of servers to clients: their time within and between the eras, and the memory of parked calls."""
