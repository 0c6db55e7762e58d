"""Sessions of MCP clients: their requests, lists, subscriptions, and the questions that they are asked."""
