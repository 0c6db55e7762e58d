"""A colleague's access: what `keys create --print-client` prints, and `tabane install --url` with it."""

from __future__ import annotations

import json
import re
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tabane.hub.local.known_hubs import known_hub
from tests.harness.home import Home, hub
from tests.harness.patience import LONG

KEY = re.compile(r"tbn_[0-9a-z]{8}_[0-9A-Za-z]{49}")


@pytest.fixture(scope="module")
def lead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose hub listens with a certificate that Tabane made."""
    home = Home(tmp_path_factory.mktemp("lead"))
    home.write_servers({"c": home.child()})
    home.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    home.run("tls", "create", "localhost").succeeded  # noqa: B018
    with hub(home):
        yield home


@pytest.fixture
def colleague(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    (tmp_path / ".cursor").mkdir()
    return home


def address(lead: Home) -> str:
    found = urlsplit(lead.json("status")["http"])
    assert found.scheme == "https"
    return f"https://localhost:{found.port}"


def key_of(lead: Home, name: str) -> str:
    return str(lead.json("keys", "create", name, "--allow", "*", "--for", "Alice")["secret"])


def ca(lead: Home) -> str:
    return str(lead.tabane / "tls" / "ca.pem")


# -- what is printed -----------------------------------------------------------------------------------


def test_a_letter_has_everything_and_nothing_else_has_the_key(lead: Home) -> None:
    made = lead.run("keys", "create", "letter", "--allow", "*", "--for", "Alice", "--print-client").succeeded
    assert made.out.startswith("Hello Alice,\n")
    (key,) = set(KEY.findall(made.out))
    assert (lead.tabane / "tls" / "ca.pem").read_text().strip() in made.out
    for part in (
        "claude mcp add",
        "mcpServers",
        "[mcp_servers.tabane]",
        "NODE_EXTRA_CA_CERTS",
        "tabane install",
    ):
        assert part in made.out
    assert "PRIVATE KEY" not in made.out
    assert key not in made.err
    assert "tabane settings set host 0.0.0.0" in made.err  # it listens on this machine only
    for file in (lead.tabane / "logs").rglob("*.log*"):
        assert key[13:] not in file.read_text()
    assert key[13:] not in lead.run("audit", "--all", "--json").succeeded.out


@pytest.mark.parametrize(
    ("host", "out", "err"),
    [
        ("cursor", '"url": "https://127.0.0.1:', "~/.cursor/mcp.json"),
        ("codex", "[mcp_servers.tabane.http_headers]", "CODEX_CA_CERTIFICATE"),
        ("vscode", '"type": "http"', "trusts what the system trusts"),
        ("claude-code", "claude mcp add --scope user --transport http", "NODE_EXTRA_CA_CERTS"),
        ("claude-desktop", "tabane install claude-desktop --url https://127.0.0.1:", "who has Tabane"),
    ],
)
def test_a_block_is_all_of_the_output(lead: Home, host: str, out: str, err: str) -> None:
    made = lead.run("keys", "create", f"for-{host}", "--allow", "*", "--print-client", host).succeeded
    assert out in made.out
    assert len(KEY.findall(made.out)) == 1
    assert err in made.err
    assert ca(lead) in made.err
    assert not KEY.search(made.err)


def test_json_has_the_block_too(lead: Home) -> None:
    made = lead.json("keys", "create", "in-json", "--allow", "*", "--print-client", "cursor")
    block = json.loads(made["client"]["text"])
    headers = block["mcpServers"]["tabane"]["headers"]
    assert headers == {"Authorization": f"Bearer {made['secret']}"}
    assert made["client"]["authority"] == ca(lead)


def test_an_unknown_assistant_makes_no_key(lead: Home) -> None:
    wrong = lead.run("keys", "create", "nobody", "--allow", "*", "--print-client", "curser")
    assert (wrong.status, wrong.out) == (2, "")
    assert "nobody" not in lead.run("keys", "list").out


def test_no_key_is_made_for_a_colleague_if_the_hub_serves_no_http(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with hub(home):
        wrong = home.run("keys", "create", "ci", "--allow", "*", "--print-client")
        assert (wrong.status, wrong.out) == (1, "")
        assert "serves no HTTP" in wrong.err
        assert "ci" not in home.run("keys", "list").out


# -- tabane install --url --------------------------------------------------------------------------------


def entry(colleague: Home) -> Any:
    return json.loads((colleague.folder / ".cursor" / "mcp.json").read_text())["mcpServers"]["tabane"]


def test_a_colleague_connects_and_keeps_the_key_to_himself(lead: Home, colleague: Home) -> None:
    url, key = address(lead), key_of(lead, "connects")
    done = colleague.run(
        "install", "cursor", "--url", url, "--ca", ca(lead), "--key-from-stdin", stdin=f"{key}\n"
    )
    assert done.status == 0, done.err
    assert key not in done.out + done.err + (colleague.folder / ".cursor" / "mcp.json").read_text()
    assert entry(colleague)["args"][:5] == ["mcp", "--mode", "full", "--url", url]
    kept = colleague.tabane / "hubs" / f"localhost_{urlsplit(url).port}"
    assert (kept / "key").read_text() == f"{key}\n"
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept.iterdir()} == {0o600}
    assert {stat.S_IMODE(each.stat().st_mode) for each in (kept, kept.parent)} == {0o700}
    assert "c__echo" in colleague.run("tools", "list", "--url", url).succeeded.out
    colleague.run("tools", "call", "c__echo", "--url", url).succeeded  # noqa: B018
    again = colleague.run("install", "claude-code", "--url", url, "--force")  # needs no key any more
    assert again.status == 0, again.err
    row = next(row for row in lead.json("limits")["results"] if row["label"] == "connects")
    assert row["person"] == "Alice"
    lead.run("keys", "revoke", "connects").succeeded  # noqa: B018
    assert "Alice (connects)" in lead.run("audit", "--key", "connects").succeeded.out
    assert "Alice (connects, key:" in lead.run("usage", "--by", "key").succeeded.out
    refused = colleague.run("tools", "list", "--url", url)
    assert (refused.status, "refused" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("--url", "{url}", "--ca", "{ca}", "--key-from-stdin"), "tbn_wrong\n", "not complete"),
        (("--url", "{url}", "--ca", "{ca}", "--key-from-stdin"), "", "needs your API key"),
        (("--url", "{url}", "--ca", "{ca}"), "", "needs your API key"),
        (("--url", "{url}", "--key-from-stdin"), "other\n", "--ca ca.pem"),
        (("--url", "{url}", "--ca", "{ca}", "--key-from-stdin"), "other\n", "refused the connection"),
        (("--url", "{url}", "--ca", "none.pem", "--key-from-stdin"), "other\n", "none.pem"),
        (("--url", "{url}", "--ca", "/dev/null", "--key-from-stdin"), "other\n", "not a PEM file"),
        (("--url", "http://hub.local:8765", "--key-from-stdin"), "other\n", "others could read the key"),
        (("--url", "hub.local:8765"), "", "https://host:port"),
        (("--ca", "{ca}"), "", "Name it with --url"),
    ],
)
def test_a_mistake_changes_nothing(
    lead: Home, colleague: Home, arguments: tuple[str, ...], stdin: str, said: str
) -> None:
    given = [word.format(url=address(lead), ca=ca(lead)) for word in arguments]
    wrong = colleague.run("install", "cursor", *given, stdin=stdin)
    assert wrong.status in (1, 2)
    assert said in wrong.err
    assert not (colleague.folder / ".cursor" / "mcp.json").exists()
    assert not (colleague.tabane / "hubs").exists()


def test_a_kept_key_is_not_sent_without_tls(lead: Home, colleague: Home) -> None:
    folder = colleague.tabane / "hubs" / "192.0.2.1_8765"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "key").write_text("tbn_key\n")
    (folder / "key").chmod(0o600)
    assert known_hub(str(colleague.tabane), "192.0.2.1", 8765, tls=True).key == "tbn_key"
    assert known_hub(str(colleague.tabane), "192.0.2.1", 8765, tls=False).key is None
    (folder / "key").chmod(0o644)
    assert known_hub(str(colleague.tabane), "192.0.2.1", 8765, tls=True).key is None


# -- clients that nobody here wrote ------------------------------------------------------------------------


async def test_the_official_client_trusts_the_authority_and_calls_a_tool(lead: Home) -> None:
    url, key = address(lead), key_of(lead, "official")
    trusted = ssl.create_default_context(cafile=ca(lead))
    async with httpx2.AsyncClient(
        verify=trusted, headers={"Authorization": f"Bearer {key}"}, timeout=LONG
    ) as http:
        transport = streamable_http_client(f"{url}/mcp/full", http_client=http)
        async with Client(transport) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert "c__echo" in names
