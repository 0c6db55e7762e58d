"""MCP over HTTP, for clients that cannot start a command.

``door`` binds the port and waits. Everything that costs memory is imported with the first connection.
"""
