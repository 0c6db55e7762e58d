"""Servers as their user configures them: the servers file, secrets, the registry, assistants and projects."""
