"""Connections to the hub on this machine: its socket, the handshake, access, and a client for programs."""
