"""Running servers: their processes, connections, messages and logins."""
