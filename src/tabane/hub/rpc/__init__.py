"""JSON-RPC for programs: one dispatcher for lines on a socket, WebSocket and HTTP, and permissions."""
