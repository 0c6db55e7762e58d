"""The MCP registry: servers that can be added, as its API lists them."""
