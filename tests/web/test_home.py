"""The home page: search of everything, what waits, what happens now, and who sees what of it."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.operations import Caller, Face
from tabane.web.pages.home import minutes_of
from tests.harness.http_hub import HttpHub
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.patience import until
from tests.harness.running_hub import child
from tests.web.visitor import text, visitor, web_hub

LOCAL = Caller("local", Face.RPC, "test")


async def ask(here: HttpHub, operation: str, **params: Any) -> Any:
    given = json.dumps(params).encode()
    return msgspec.json.decode(await here.door.rpc.respond(LOCAL, operation, given, msgspec.json.encode))


async def test_somebody_new_can_begin_in_place(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        shown = text(await page.content("/"))
        for step in ("/home/assistants", "data-post-drop", "data-home-read", 'href="/servers/-/new"'):
            assert step in shown
        assert "<code>" not in shown  # nothing has to be typed elsewhere
        assert "Nothing waits for you." in shown


async def test_a_first_step_goes_when_it_is_done(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        assert "Connect an assistant" in text(await page.content("/home/step?name=assistant"))
        here.process.stored = {"sessions": 1}
        assert text(await page.content("/home/step?name=assistant")).strip() == ""
        assert "Add a server" in text(await page.content("/home/step?name=server"))


async def test_a_look_at_an_empty_archive_is_no_first_step(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        for path in ("/posts", "/reader"):
            assert (await page.content(path)).status == 200
        assert here.running.hub.stores.is_open("posts")
        shown = text(await page.content("/"))
        assert "data-post-drop" in shown
        assert "data-home-read" in shown


async def test_assistants_that_are_found_can_be_connected_from_home(tmp_path: Path) -> None:
    folder = tmp_path / ".cursor"
    folder.mkdir()
    (folder / "mcp.json").write_text("{}")
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        shown = text(await page.content("/home/assistants"))
        assert "/assistants/-/preview?names=cursor" in shown


async def test_a_server_that_does_not_run_waits_with_a_button_that_starts_it(tmp_path: Path) -> None:
    broken = {"command": str(tmp_path / "nothing")}
    async with web_hub(tmp_path, {"works": child(), "broken": broken}) as here:
        page = await visitor(here)
        await page.sign_in()
        await ask(here, "start_upstream", name="works")
        here.process.stored = {"tools": 5}
        shown = text(await page.content("/home/inbox"))
        assert "broken does not run." in shown
        assert 'hx-post="/servers/broken/-/start"' in shown
        assert "works" not in shown
        assert "tabane servers" not in shown
        counts = text(await page.content("/home/servers"))
        assert "2 servers" in counts
        assert "running" in counts
        assert "First steps" not in text(await page.content("/"))


async def test_a_project_is_trusted_after_a_look_at_what_it_would_run(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    file = project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"stock": {"command": "node", "args": ["<b>stock.js"]}}}))
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        answer = await page.ask("GET", f"/home/project?folder={project}", hx_request="true")
        assert "stock.js" not in text(answer)  # no assistant works there: the folder is nobody's to look at
        await here.running.connect("2025-11-25", mode="full", client="claude", cwd=str(project))

        async def is_offered() -> bool:
            return bool(await here.hub.sessions.offers.now())

        await until(is_offered, "the project waits for trust")
        shown = text(await page.content(f"/home/project?folder={project}"))
        assert "&lt;b&gt;stock.js" in shown
        url = html.unescape(shown.partition('hx-post="')[2].partition('"')[0])
        file.write_text(json.dumps({"mcpServers": {"stock": {"command": "rm"}}}))
        refused = await page.ask("POST", url, hx_request="true")
        assert refused.status == 422
        assert "The files have changed since you looked at them." in text(refused)
        assert (await ask(here, "list_servers"))["results"] == []
        shown = text(await page.content(f"/home/project?folder={project}"))
        url = html.unescape(shown.partition('hx-post="')[2].partition('"')[0])
        assert (await page.ask("POST", url, hx_request="true")).status == 200
        (row,) = (await ask(here, "list_servers"))["results"]
        assert row["name"].startswith("stock")


async def test_a_key_that_expires_soon_is_renewed(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        here.process.stored = {"keys": 1}
        key = (await ask(here, "keys_create", name="phone", allow=["*"], expires="3d"))["id"]
        assert "The key phone expires in 3 days." in text(await page.content("/home/inbox"))
        done = await page.ask("POST", f"/home/renew?key={key}", hx_request="true")
        assert done.status == 200, text(done)
        assert "expires" not in text(await page.content("/home/inbox"))


STATUS = {
    "version": "1.2.3", "uptime": 5.0, "memory_mb": 50.0, "sessions": 0, "in_flight": 0, "home": "/home",
    "log": "/log", "flags": [], "problem": None, "model_problem": None, "audit_problem": None,
    "restartable": False,
}  # fmt: skip


async def test_a_database_that_does_not_answer_and_a_copy_that_fails_need_attention(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        here.process.stored = dict(STATUS)
        assert "Database" not in text(await page.content("/health"))
        failing = {"state": "failed", "error": "no room for it"}
        here.process.stored["engine"] = {"state": "unreadable", "error": "no route", "replicas": [failing]}
        shown = text(await page.content("/home/inbox"))
        for words in ("The database cannot be reached.", "no route", "The local copy", "no room for it"):
            assert words in shown
        shown = text(await page.content("/health"))
        assert "no answer" in shown
        assert "no route" in shown
        here.process.stored["engine"] = {
            "state": "ok",
            "path": "postgresql://db/x",
            "server": "PostgreSQL 18",
        }
        assert "postgresql://db/x" in text(await page.content("/health"))
        assert "cannot be reached" not in text(await page.content("/home/inbox"))


@pytest.mark.heavy("real pages of a hub")
async def test_the_search_finds_tools_by_a_part_of_their_name_and_documents_by_words(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"works": child()}) as here:
        page = await visitor(here)
        await page.sign_in()
        await ask(here, "start_upstream", name="works")
        await ask(
            here, "put_document", filepath="notes/sea & land.md", text="The lighthouse <b>of</b> Eddystone"
        )
        assert 'href="/tools/works__echo"' in text(await page.content("/home/search?q=ech"))
        found = text(await page.content("/home/search?q=lighthouse"))
        assert 'href="/documents/notes/sea%20%26%20land.md"' in found
        assert "<mark>lighthouse</mark>" in found
        assert "<b>of</b>" not in found
        assert "Nothing was found" in text(await page.content("/home/search?q=xylophone"))
        assert "results" not in text(await page.content("/home/search?q="))


async def test_calls_of_now_and_of_today_are_shown(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"works": child()}) as here:
        page = await visitor(here)
        await page.sign_in()
        assert "No calls yet." in text(await page.content("/home/calls"))
        assert text(await page.content("/home/today")).strip() == ""
        client = await here.running.connect()
        for _ in range(4):
            await client.call("works__fail", text="no")
        today = text(await page.content("/home/today"))
        assert "4 calls to servers" in today, today
        assert "4 failed" in today
        assert "works__fail" in today
        calls = text(await page.content("/home/calls"))
        assert calls.count("works__fail</span>") == 4
        assert "failed" in calls


@pytest.mark.parametrize(
    ("since", "calls"),
    [(0.0, [0, 0, 3]), (1_000_150.0, [None, 0, 3])],
    ids=["recorded all the time", "recorded later"],
)
def test_minutes_before_calls_were_recorded_are_gaps(since: float, calls: list[int | None]) -> None:
    start, end = 1_000_200 - 15 * 60 + 10, 1_000_210
    seconds = [0] * (end - start)
    seconds[-1] = 3
    found = minutes_of(
        {"from": start, "since": since, "calls": seconds, "failed": seconds, "refused": [0] * len(seconds)}
    )
    assert len(found) == 15
    assert [minute.calls for minute in found[-3:]] == calls
    assert found[-1].failed == 3


async def test_nothing_of_the_archive_is_opened_by_the_page(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        await ask(here, "put_document", filepath="notes/sea.md", text="The lighthouse of Eddystone")
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        for path in ("/", "/home/archive", "/home/running", "/home/inbox", "/home/calls", "/home/today"):
            assert (await page.content(path)).status == 200
        assert not here.running.hub.stores.is_open("documents")
        assert "not opened since the hub started" in text(await page.content("/home/archive"))
        opened = text(await page.content("/home/archive?open=all"))
        assert 'href="/documents/notes/sea.md"' in opened


async def test_a_key_sees_only_what_it_may(tmp_path: Path) -> None:
    access = GivenAccess("key:k", "*document*")
    known = identities(GivenKeys(k=access), restored=access)
    async with web_hub(tmp_path, {"secretive": child()}, identities=known) as here:
        page = await visitor(here)
        assert (await page.sign_in(key="tbn_k")).status == 200
        shown = text(await page.content("/"))
        assert "secretive" not in shown
        assert "First steps" not in shown
        assert (await page.content("/activity")).status == 403
        assert (await page.content("/activity/seconds")).status == 403
