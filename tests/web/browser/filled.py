"""A home with something in every place: servers, posts, documents, a page, calls, a key, a profile.

The same each time, so that pictures of it differ only if the page does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tabane.web.app import ENTRIES
from tests.conftest import ROOT
from tests.harness.user import Assistant, assistant
from tests.reader.site import Site
from tests.web.browser.hub import WebHome

PATHS = (*(entry.path for entry in ENTRIES), "/preferences")
"""The pages that the navigation leads to."""

UPSTREAM = ROOT / "benchmarks" / "gateway" / "upstream.py"
"""A server that lists many tools and echoes every call."""

SERVERS = {"chat": "chat", "files": "files", "database": "sql", "browser": "web"}
"""Names of servers, and the kind of each."""

QUERIES = ("send a message", "read a file", "rows of a table", "the address of a place")
CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("chat__list_channels", {"limit": 20}),
    ("chat__read_channel", {"channel": "release", "limit": 5}),
    ("files__read_text", {"path": "notes/release.md"}),
    ("chat__search_messages", {"words": "lighthouse"}),
    ("chat__post_message", {"channel": "release", "message": "0.5.0 is out"}),
    ("chat__read_channel", {}),  # without what it needs: refused before the server gets it
)
"""What an assistant asks and calls."""

ARTICLE = """<!doctype html><html lang="en"><title>How a lighthouse works</title><main><article>
<h1>How a lighthouse works</h1>
<p>A lighthouse tells ships where the land begins. Its lamp stands in the focus of a lens, which bends the
light into a narrow beam. The beam turns, so that a ship sees a flash every few seconds.</p>
<h2>The lens</h2><p>Augustin-Jean Fresnel divided a thick lens into rings. Each ring bends the light as the
thick lens would, and the glass weighs a tenth. His first lens was lit in 1823.</p>
<table><tr><th>Order</th><th>Focal length</th></tr><tr><td>1</td><td>920 mm</td></tr>
<tr><td>2</td><td>700 mm</td></tr><tr><td>3</td><td>500 mm</td></tr></table>
</article></main></html>"""

PROFILE = """
[profiles.writing]
allow = ["files__*", "@documents"]
"""


def upstream(kind: str) -> dict[str, object]:
    return {"command": sys.executable, "args": ["-S", str(UPSTREAM), *kind.split()]}


def prepare(home: WebHome, *, broken: bool = True) -> None:
    """Write what has to be there before the hub starts. ``broken``: one of the servers does not start."""
    servers = {name: upstream(kind) for name, kind in SERVERS.items()}
    servers["mail"] = {**upstream("chat"), "disabled": True}
    if broken:
        servers["broken"] = {
            "command": sys.executable,
            "args": ["-c", "raise SystemExit('no such database')"],
        }
    home.write_servers(servers)
    settings = home.servers.with_name("tabane.toml")
    settings.write_text(PROFILE)
    settings.chmod(0o600)
    home.environment["TABANE_POSTS_ZONE"] = "Asia/Tokyo"
    home.environment["TABANE_APPROVAL_WAIT"] = "0"  # for the one call that a person has to approve


def allow(home: WebHome, site: Site) -> None:
    """Let the hub read that site, although its address is private. Before the hub starts."""
    home.environment["TABANE_READER_ALLOW"] = ",".join(site.allowed)


def fill(home: WebHome, site: Site) -> None:
    """Use the hub: import, save, read, call."""
    documents = home.folder / "notes"
    documents.mkdir()
    for page in ("access", "audit", "modes", "servers", "tutorial"):
        (documents / f"{page}.md").write_text(Path(ROOT, "docs", f"{page}.md").read_text(encoding="utf-8"))
    site.put("/lighthouse", ARTICLE, "text/html; charset=utf-8")
    home.must("posts", "import", "--sample")
    home.must("docs", "add", str(documents), "--relative")
    home.must("read", site.url("/lighthouse"))
    home.must("tools", "list")
    with assistant(home) as someone:
        someone.tools()
        work(someone)
    home.must("keys", "create", "ci", "--allow", "chat__*", "--read-only", "--expires", "90d")


def work(someone: Assistant) -> None:
    """Search for tools and call some, as an assistant does."""
    for query in QUERIES:
        someone.call("search_tools", query=query)
    for name, arguments in CALLS:
        someone.ask("tools/call", name=name, arguments=arguments)
