"""JSON-RPC for programs: one dispatcher for lines on a socket, WebSocket and HTTP, and who may call what."""
