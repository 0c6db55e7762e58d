"""Apps on the official SDK, in a host on the official SDK, in a real browser, with the hub between them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import ROOT, absent
from tests.web.browser.hub import PATIENCE, WebHome

SERVERS = Path(__file__).parents[2] / "harness" / "servers"
MODULES = ROOT / "build" / "node" / "node_modules"
FIELDS = '<h1></h1><p id="input"></p><p id="result"></p><p id="refreshed"></p><p id="resource"></p>'


def bundled(folder: Path, name: str) -> str:
    """Return a module with all that it imports, as one script."""
    program, node = MODULES / ".bin" / "rolldown", MODULES.parent / "bin" / "node"
    if not program.exists() or not (MODULES / "@modelcontextprotocol" / "ext-apps").exists():
        absent("rolldown and ext-apps (make node)")
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES)
    (folder / name).write_text((SERVERS / name).read_text())
    made = folder / f"{name}.js"
    command = [str(node), str(program), name, "--format", "esm", "--platform", "browser", "--file", str(made)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return made.read_text().replace("</script", "<\\/script")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def host_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the host's page."""
    folder = tmp_path_factory.mktemp("host")
    script = bundled(folder, "app_host.mjs")
    head = "<!doctype html><link rel=icon href=data:,>"
    (folder / "index.html").write_text(f"{head}<script type=module>{script}</script>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def apps_home(tmp_path_factory: pytest.TempPathFactory, host_page: str) -> Iterator[WebHome]:
    """A hub with two servers whose pages have the same address: one pins its tools with pages."""
    folder = tmp_path_factory.mktemp("apps")
    script = bundled(folder, "app_view.mjs")
    home = WebHome(folder, origins=host_page)
    servers: dict[str, Any] = {}
    for name, keys in {"one": {"pin": "ui"}, "two": {}}.items():
        page = FIELDS.replace("<h1>", f"<h1>{name}")
        (folder / f"{name}.html").write_text(f"<!doctype html>{page}<script type=module>{script}</script>")
        arguments = [str(SERVERS / "apps.py"), name, "--html", str(folder / f"{name}.html")]
        servers[name] = {"command": sys.executable, "args": arguments, **keys}
    home.write_servers(servers)
    home.start()
    for name in servers:
        home.must("servers", "start", name)
    yield home
    home.run("stop")


@pytest.fixture
def host(browser: Browser, host_page: str) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(host_page)
    page.wait_for_function("() => globalThis.connect")
    yield page
    context.close()


def connect(host: Page, home: WebHome, path: str) -> Any:
    token = (home.tabane / "token").read_text().strip()
    return host.evaluate("([url, token]) => connect(url, token)", [f"{home.url}{path}", token])


def show(host: Page, name: str) -> str:
    shown: str = host.evaluate("(name) => show(name, {city: 'Kyoto'})", name)
    return shown


def test_a_host_shows_each_of_two_apps_whose_pages_have_the_same_address(
    host: Page, apps_home: WebHome
) -> None:
    found = connect(host, apps_home, "/mcp/full")
    assert {"one__show", "two__show"} <= set(found["model"])
    assert not [name for name in found["model"] if name.endswith("refresh")]
    for name in ("one", "two"):
        assert found["pages"][f"{name}__show"] == f"ui://tabane/{name}/shared/page.html"
        assert show(host, f"{name}__show") == f"ui://tabane/{name}/shared/page.html"
        app = host.frame_locator(f'iframe[data-app="{name}__show"]')
        expect(app.locator("h1")).to_have_text(name)
        expect(app.locator("#input")).to_have_text('{"city":"Kyoto"}')
        expect(app.locator("#result")).to_contain_text(f'"server":"{name}"')
        # The host passes on what the app asks for, and nothing says which of the two it is.
        expect(app.locator("#refreshed")).to_contain_text("Several servers have a tool refresh")
        expect(app.locator("#resource")).to_contain_text("Several servers have ui://shared/page.html")


def test_a_host_shows_a_pinned_app_in_mode_search(host: Page, apps_home: WebHome) -> None:
    found = connect(host, apps_home, "/mcp")
    assert "one__show" in found["model"]
    assert "search_tools" in found["model"]
    assert not [name for name in found["model"] if name.startswith("two__")]
    show(host, "one__show")
    expect(host.frame_locator("iframe").locator("h1")).to_have_text("one")
    expect(host.frame_locator("iframe").locator("#result")).to_contain_text('"server":"one"')
    # The page of the other server cannot be shown there, so it is clear whose tool is meant.
    expect(host.frame_locator("iframe").locator("#refreshed")).to_have_text("refresh of one")


def test_an_app_reaches_its_server_on_a_connection_to_that_server(host: Page, apps_home: WebHome) -> None:
    connect(host, apps_home, "/mcp/s/two")
    show(host, "show")
    app = host.frame_locator("iframe")
    expect(app.locator("h1")).to_have_text("two")
    expect(app.locator("#refreshed")).to_have_text("refresh of two")
    expect(app.locator("#resource")).to_have_text("ui://shared/page.html")
