"""How processes of this machine reach the hub: its socket, the hello, whom it lets in, programs' requests."""
