"""The catalog of all servers: tools, prompts and resources, with their names, search, disclosure and results."""
