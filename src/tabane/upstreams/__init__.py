"""Running upstream servers: their connections, calls, deaths and instances."""
