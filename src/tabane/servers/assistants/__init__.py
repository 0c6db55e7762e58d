"""Programs that use MCP servers: one table of their files, and Tabane's entry in them."""
