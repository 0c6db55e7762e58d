"""Sessions of MCP clients: their requests, lists, subscriptions, and servers' questions to them."""
