"""MCP over HTTP: the hub's second way in, for clients that cannot start a command.

``door`` binds and waits; everything that costs memory is imported with the first connection.
"""
