"""What the user configured: the servers file read, checked, edited; variables and secrets."""
