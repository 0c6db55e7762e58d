"""An MCP server on the official SDK whose tool has a page.

python -m tests.harness.servers.official_apps WORDS
"""

from __future__ import annotations

import sys

from mcp.server.apps import Apps, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer

PAGE = "ui://clock/page.html"


def server(words: str) -> MCPServer:
    """The server. Its page and its tool contain the words."""
    apps = Apps()

    @apps.tool(resource_uri=PAGE, description="Tell the time.")
    def tell(ctx: Context) -> str:
        return f"{words}, shown: {client_supports_apps(ctx)}"

    apps.add_html_resource(PAGE, f"<p>{words}</p>")
    return MCPServer("clock", extensions=[apps])


if __name__ == "__main__":
    server(sys.argv[1]).run("stdio")
