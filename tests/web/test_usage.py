"""The page of usage over HTTP: what is counted, groups, filters, words and files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness.http_hub import HttpHub
from tests.harness.patience import until
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, visitor, web_hub


async def used(here: HttpHub) -> WebVisitor:
    """Return a person whose hub has calls of two servers, of which one fails, and of its own tools."""
    person = await visitor(here)
    await person.sign_in()
    client = await here.running.connect()
    for _ in range(3):
        await client.call("one__echo", text="1")
    await client.call("other__fail", text="no")
    await client.call("search_tools", query="echo")

    async def counted() -> bool:
        return "other__fail" in text(await person.content("/usage"))

    await until(counted)
    return person


async def test_calls_of_servers_are_counted_and_own_tools_on_request(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"one": child(), "other": child()}) as here:
        person = await used(here)
        shown = text(await person.content("/usage"))
        assert '<span class="stat-value num">4</span>' in shown
        assert "25% of the calls" in shown
        assert "Search tools" not in shown
        assert "search_tools" not in shown
        assert "are not counted" in shown or "is not counted" in shown
        everything = text(await person.content("/usage?all=1"))
        assert "Search tools" in everything


async def test_usage_is_grouped_and_filtered(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"one": child(), "other": child()}) as here:
        person = await used(here)
        for by, name in (("server", ">one</a>"), ("client", ">test</a>"), ("day", "/audit?start=20")):
            assert name in text(await person.content(f"/usage?by={by}")), by
        shown = text(await person.content("/usage?server=other"))
        assert "other__fail" in shown
        assert "one__echo" not in shown
        assert 'title="remove this filter"' in shown
        assert "No call fits these filters" in text(await person.content("/usage?server=nothing"))
        assert (await person.content("/usage?by=unheard&start=nonsense")).status == 200


async def test_the_table_is_a_file_with_the_same_rows(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"one": child(), "other": child()}) as here:
        person = await used(here)
        rows = json.loads((await person.content("/usage?export=json")).body)
        assert [(row["tool"], row["calls"], row["errors"]) for row in rows] == [
            *(("one__echo", 3, 0), ("other__fail", 1, 1)),
        ]


async def test_an_empty_period_says_what_will_be_there(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        person = await visitor(here)
        await person.sign_in()
        shown = text(await person.content("/usage?start=today"))
        assert "No tool was called in this period" in shown
        assert "Connect an assistant" in shown
