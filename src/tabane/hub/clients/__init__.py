"""MCP clients, whatever carries them: what they are shown, ask for, are asked, and are told."""
