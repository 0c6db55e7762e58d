"""Keys in the form of a server are kept as secrets: said before saving, and only if the box stays checked."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.harness.http_hub import Answer, HttpHub, request
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, visitor, web_hub

KEY = "sk-0123456789abcdef"
NEW = "sk-fedcba9876543210"


async def signed_in(here: HttpHub) -> WebVisitor:
    person = await visitor(here)
    assert (await person.sign_in()).status == 200
    return person


async def post(person: WebVisitor, path: str, **fields: str) -> Answer:
    body = urlencode(fields).encode()
    return await person.ask(
        "POST", path, body, content_type="application/x-www-form-urlencoded", hx_request="true"
    )


def form(name: str, definition: dict[str, Any], **more: str) -> dict[str, str]:
    return {"view": "json", "name": name, "json": json.dumps(definition), **more}


async def environment(here: HttpHub, server: str) -> dict[str, str]:
    """Return the environment in which the hub runs a server."""
    peer = await here.peer()
    wanted = {"requests": [{"name": f"{server}__environment", "arguments": {}}]}
    answer = await peer.post(request("execute_parallel", wanted), "/rpc")
    (found,) = answer.json["result"]["results"]
    got: dict[str, str] = json.loads(found["result"]["content"][0]["text"])
    return got


def written(folder: Path) -> Any:
    return json.loads((folder / "mcp-servers.json").read_text())["mcpServers"]


def kept(folder: Path) -> str:
    file = folder / "secrets.env"
    return file.read_text() if file.exists() else ""


async def test_a_new_key_is_kept_and_the_server_gets_it(tmp_path: Path) -> None:
    definition = {**child(), "env": {"API_KEY": KEY, "LEVEL": "debug"}}
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        asked = text(await post(person, "/servers/-/confirm", **form("new", definition)))
        assert "env.API_KEY" in asked
        assert 'name="keep_secrets" value="true" checked' in asked
        assert KEY not in asked
        saved = await post(person, "/servers/-/save", **form("new", definition, keep_secrets="true"))
        assert saved.status == 204, text(saved)
        assert KEY not in text(saved)
        assert written(tmp_path)["new"]["env"] == {"API_KEY": "${API_KEY}", "LEVEL": "debug"}
        assert kept(tmp_path) == f"API_KEY={KEY}\n"
        assert (await environment(here, "new"))["API_KEY"] == KEY
        shown = html.unescape(text(await person.content("/servers/new/-/edit")))
        assert "API_KEY=${API_KEY}" in shown
        assert KEY not in shown


async def test_without_the_check_mark_it_is_written_as_it_is(tmp_path: Path) -> None:
    definition = {"url": "https://example.com/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        assert (await post(person, "/servers/-/save", **form("new", definition))).status == 204
        assert written(tmp_path)["new"] == definition
        assert kept(tmp_path) == ""
        assert KEY not in text(await person.content("/servers/new/-/edit"))


async def test_a_key_that_was_in_plain_text_stays_and_a_changed_one_is_kept(tmp_path: Path) -> None:
    old = {**child(), "env": {"API_KEY": KEY}}
    async with web_hub(tmp_path, {"one": old}) as here:
        person = await signed_in(here)
        masked = {**old, "env": {"API_KEY": "***", "TOKEN": NEW}}
        edited = form("one", masked, replaces="one")
        asked = text(await post(person, "/servers/-/confirm", **edited))
        assert "env.TOKEN" in asked
        assert "env.API_KEY" not in asked
        assert (await post(person, "/servers/-/save", **edited, keep_secrets="true")).status == 204
        assert written(tmp_path)["one"]["env"] == {"API_KEY": KEY, "TOKEN": "${TOKEN}"}
        got = await environment(here, "one")
        assert (got["API_KEY"], got["TOKEN"]) == (KEY, NEW)
        shown = {**masked, "env": {"API_KEY": "***", "TOKEN": "${TOKEN}"}, "description": "Mine"}
        described = form("one", shown, replaces="one")
        # nothing else is started: it is saved without a question
        assert (await post(person, "/servers/-/confirm", **described)).status == 204
        assert written(tmp_path)["one"]["env"]["API_KEY"] == KEY
        assert written(tmp_path)["one"]["description"] == "Mine"


@pytest.mark.parametrize("replaces", [None, "one"])
async def test_nothing_is_kept_for_an_entry_that_is_refused(tmp_path: Path, replaces: str | None) -> None:
    definition = {"command": "x", "url": "https://example.com", "env": {"API_KEY": KEY}}
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        more = {"replaces": replaces} if replaces else {}
        name = replaces or "new"
        refused = await post(person, "/servers/-/save", **form(name, definition, keep_secrets="true", **more))
        assert refused.status == 422
        if replaces:
            stale = form(name, {**child(), "env": {"API_KEY": KEY}}, **more, version="0" * 16)
            assert (await post(person, "/servers/-/save", **stale, keep_secrets="true")).status == 422
        assert kept(tmp_path) == ""


async def test_a_home_that_holds_the_servers_file_too_is_no_obstacle(tmp_path: Path) -> None:
    """Both files are changed under the lock of their folder, which is the same here."""
    async with web_hub(tmp_path, {"one": child()}) as here:
        peer = await here.peer()
        changed = {"name": "one", "definition": {**child(), "env": {"API_KEY": KEY}}, "keep_secrets": True}
        answer = await peer.post(request("change_server", changed), "/rpc")
        assert answer.json["result"]["secrets"] == ["API_KEY"]
        assert answer.json["result"]["warnings"] == []
