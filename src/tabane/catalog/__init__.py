"""The catalog of all servers: tools, prompts and resources, their names, search, disclosure and results."""
