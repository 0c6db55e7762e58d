"""The pages of activity over HTTP: rows, filters, figures, and one call without secrets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.harness.http_hub import HttpHub
from tests.harness.patience import until
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, visitor, web_hub


async def signed_in(here: HttpHub) -> WebVisitor:
    page = await visitor(here)
    await page.sign_in()
    assert (await page.content("/activity")).status == 200
    return page


def rows(shown: str) -> list[str]:
    return re.findall(r'<tr data-number="[1-9].*?</tr>', shown, re.DOTALL)


async def test_calls_are_listed_and_filtered(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"a": child(), "b": child()}) as here:
        page = await signed_in(here)
        client = await here.running.connect()
        await client.call("a__echo", text="1")
        await client.call("b__fail", text="<b>no</b>")
        assert len(rows(text(await page.content("/activity")))) == 2
        for query, tool in (("server=a", "a__echo"), ("outcome=failed", "b__fail"), ("tool=ECHO", "a__echo")):
            (row,) = rows(text(await page.content(f"/activity/rows?{query}")))
            assert tool in row, query
        assert len(rows(text(await page.content("/activity/rows?outcome=unheard")))) == 2
        assert rows(text(await page.content("/activity/rows?client=nobody"))) == []


async def test_a_call_is_shown_without_secrets_and_with_its_steps(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"a": child()}) as here:
        page = await signed_in(here)
        client = await here.running.connect()
        await client.call("a__echo", text="<script>", api_key="hunter2", list=[{"x": None}])
        await client.call("a__echo", text="x" * 50_000)
        shown = text(await page.content("/activity/calls/1"))
        for part in ("a__echo", "&lt;script&gt;", "At the server", "In Tabane", "***", "local"):
            assert part in shown
        assert "hunter2" not in shown
        assert "<script>" not in shown
        assert "The beginning of" in text(await page.content("/activity/calls/2"))
        assert (await page.content("/activity/calls/3")).status == 404
        assert (await page.content("/activity/calls/x")).status == 422


async def test_figures_of_the_charts_are_those_of_the_hub(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"a": child()}) as here:
        page = await signed_in(here)
        client = await here.running.connect()
        await client.call("a__echo", text="1")

        async def counted() -> bool:
            answer = await page.content("/activity/seconds?seconds=60", accept="application/json")
            return bool(sum(json.loads(answer.body)["calls"]) == 1)

        await until(counted)
        assert (await page.content("/activity/seconds?seconds=0")).status == 422


async def test_events_reach_a_browser_that_follows_and_one_that_comes_back(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"a": child()}) as here:
        page, other = await signed_in(here), await visitor(here)
        other.cookie, other.page = page.cookie, page.page
        client = await here.running.connect()
        stream = await other.ask("GET", "/events", accept="text/event-stream")
        assert stream.streams
        await client.call("a__echo", text="1")
        event = await other.client.event()
        while event is not None and (event.event != "calls" or json.loads(event.data)["outcome"] != "ok"):
            event = await other.client.event()
        assert event is not None
        other.client.close()
        await client.call("a__echo", text="2")
        again = await visitor(here)
        again.cookie, again.page = page.cookie, page.page
        await again.ask("GET", "/events", accept="text/event-stream", last_event_id=event.id)
        numbers: set[int] = set()
        while 2 not in numbers:
            found = await again.client.event()
            assert found is not None
            assert found.event != "reset"
            if found.event == "calls":
                numbers.add(json.loads(found.data)["number"])
        assert numbers == {2}


TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
MARK = re.compile(r'<span class="badge warn" data-f="credentials"[^>]*>', re.DOTALL)


def mark(row: str) -> str:
    """The mark of a call with credentials."""
    found = MARK.search(row)
    assert found, row
    return found[0]


@pytest.mark.parametrize(
    ("mode", "lang", "sentences"),
    [
        ("warn", "en", ("The arguments contain credentials (github-token).", "The result contains")),
        ("redact", "en", ("The arguments contained credentials (github-token). Tabane replaced them.",)),
        ("warn", "ja", ("引数に認証情報が含まれています(github-token)。", "結果に認証情報が含まれています")),
        ("redact", "ja", ("引数に認証情報が含まれていました(github-token)。Tabane が置き換えました。",)),
    ],
)
async def test_a_call_with_credentials_has_a_mark_and_says_where_they_are(
    tmp_path: Path, mode: str, lang: str, sentences: tuple[str, ...]
) -> None:
    async with web_hub(tmp_path, {"a": child()}, credentials_in_calls=mode) as here:
        page = await signed_in(here)
        client = await here.running.connect()
        await client.call("a__echo", text="harmless")
        await client.call("a__echo", text=f"my {TOKEN}")
        listed = text(await page.content("/activity", accept_language=lang))
        marked, unmarked = map(mark, rows(listed))
        assert "hidden" in unmarked
        assert "hidden" not in marked
        assert "github-token" in marked
        shown = text(await page.content("/activity/calls/2", accept_language=lang))
        for sentence in sentences:
            assert sentence in shown
        assert ("credentials_in_calls" in shown) == (mode == "warn")
        assert "redentials" not in text(await page.content("/activity/calls/1"))
        assert TOKEN not in listed + shown


async def test_credentials_that_are_found_after_the_end_of_a_call_are_an_event(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"a": child()}) as here:
        page, other = await signed_in(here), await visitor(here)
        other.cookie, other.page = page.cookie, page.page
        client = await here.running.connect()
        assert (await other.ask("GET", "/events", accept="text/event-stream")).streams
        await client.call("a__echo", text="a " * 100_000 + TOKEN)  # too long for the event loop
        places: set[str] = set()
        while places != {"arguments", "result"}:
            event = await other.client.event()
            assert event is not None
            assert TOKEN.encode() not in event.data
            if event.event == "calls":
                found = json.loads(event.data)["credentials"]
                assert all(each["kinds"] == ["github-token"] and not each["replaced"] for each in found)
                places = {each["where"] for each in found}


async def test_a_refusal_is_in_the_words_of_a_page(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"a": child(confirm=["cou*"])}, approval_wait=0) as here:
        page = await signed_in(here)
        client = await here.running.connect()
        await client.request("tools/call", {"name": "a__count", "arguments": {}})
        shown = text(await page.content("/activity/calls/1"))
        assert "was not called: a person has to approve this call first." in shown
        assert "tabane approve" not in shown
        assert 'href="/approvals"' in shown
