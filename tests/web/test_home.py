"""The home page: search of everything, what runs, what needs attention, and who sees what of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.operations import Caller, Face
from tests.harness.http_hub import HttpHub
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.running_hub import child
from tests.web.visitor import text, visitor, web_hub

LOCAL = Caller("local", Face.RPC, "test")


async def ask(here: HttpHub, operation: str, **params: Any) -> Any:
    given = json.dumps(params).encode()
    return msgspec.json.decode(await here.door.rpc.respond(LOCAL, operation, given, msgspec.json.encode))


async def test_somebody_new_is_told_what_to_do_first(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        page = await visitor(here)
        await page.sign_in()
        shown = text(await page.content("/"))
        for step in ('href="/assistants"', 'href="/servers"', "tabane posts import"):
            assert step in shown


async def test_what_runs_and_what_needs_attention_is_shown(tmp_path: Path) -> None:
    broken = {"command": str(tmp_path / "nothing")}
    async with web_hub(tmp_path, {"works": child(), "broken": broken}) as here:
        page = await visitor(here)
        await page.sign_in()
        await ask(here, "start_upstream", name="works")
        shown = text(await page.content("/home/state"))
        assert "broken does not run." in shown
        assert "cannot start" in shown
        assert "running" in shown
        assert "First steps" not in shown


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
        shown = text(await page.content("/home/state"))
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
        assert "cannot be reached" not in text(await page.content("/home/state"))


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


async def test_calls_and_failures_of_today_are_counted(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"works": child()}) as here:
        page = await visitor(here)
        await page.sign_in()
        client = await here.running.connect()
        for _ in range(4):
            await client.call("works__fail", text="no")
        today = text(await page.content("/home/today"))
        assert "Calls to servers today" in today, today
        assert ">4<" in today
        assert "works__fail" in text(await page.content("/home/failing"))


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
