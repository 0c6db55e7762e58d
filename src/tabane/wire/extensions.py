"""Identifiers of extensions of MCP that Tabane knows. Others pass on as they are."""

from __future__ import annotations

TASKS = "io.modelcontextprotocol/tasks"
UI = "io.modelcontextprotocol/ui"
SKILLS = "io.modelcontextprotocol/skills"
