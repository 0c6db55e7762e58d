"""Configuration of servers: the servers file (read, checked, edited), variables and secrets."""
