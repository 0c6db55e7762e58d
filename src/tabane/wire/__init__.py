"""JSON-RPC 2.0 and MCP as pure rules, with thin shells for the transports."""
