"""Upstream MCP servers: their configuration, their processes, their tools, and how tools are disclosed."""
