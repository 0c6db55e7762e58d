"""The pages of tools over HTTP: what a key may see of them, and what untrusted servers write into them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tabane.web.pages.tools import table_of
from tests.harness.http_hub import Answer, HttpHub
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.patience import until
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, visitor, web_hub

HOSTILE = "<img src=x onerror=alert(1)>\"'"


async def post(person: WebVisitor, path: str, **fields: str) -> Answer:
    body = "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()
    kind = "application/x-www-form-urlencoded"
    return await person.ask("POST", path, body or b"x=", content_type=kind, hx_request="true")


async def signed_in(here: HttpHub) -> WebVisitor:
    found = await visitor(here)
    assert (await found.sign_in()).status == 200
    return found


async def test_a_key_sees_calls_and_changes_only_what_it_may(tmp_path: Path) -> None:
    access = GivenAccess("key:k", "one__*")
    known = identities(GivenKeys(k=access), restored=access)
    async with web_hub(tmp_path, {"one": child(), "other": child()}, identities=known) as here:
        person = await visitor(here)
        assert (await person.sign_in(key="tbn_k")).status == 200
        for path in ("/tools", "/tools?q=echo"):
            shown = text(await person.content(path))
            assert "one__echo" in shown
            assert "other__" not in shown
        assert (await person.content("/tools?view=hidden")).status == 403
        assert (await person.content("/tools/other__echo")).status == 404
        assert "/visibility" not in text(await person.content("/tools/one__echo"))
        assert (await post(person, "/tools/one__echo/visibility", hidden="true")).status == 403
        called = text(await post(person, "/tools/one__echo/call", arguments='{"text": "hello"}'))
        assert 'data-outcome="ok"' in called
        refused = text(await post(person, "/tools/other__echo/call", arguments="{}"))
        assert 'data-outcome="failed"' in refused


async def test_nothing_that_a_server_writes_is_read_as_html(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "title": HOSTILE,
        "properties": {
            HOSTILE: {"type": "string", "description": HOSTILE, "title": HOSTILE, "default": HOSTILE},
            "list": {"type": "array", "items": {"enum": [HOSTILE]}},
            "any": {
                "anyOf": [{"type": "string", "title": HOSTILE}, {"type": "integer", "description": HOSTILE}]
            },
        },
        "required": [HOSTILE],
        "additionalProperties": True,
    }
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps({f"evil {HOSTILE}": schema, "evil": schema}))
    async with web_hub(tmp_path, {"up": child("--schemas", str(schemas))}) as here:
        person = await signed_in(here)
        arguments = json.dumps({HOSTILE: HOSTILE, "list": [HOSTILE]})
        values = {"schema": schema, "arguments": arguments}
        pages = [
            await person.content("/tools"),
            await person.content(f"/tools?q={quote(HOSTILE)}"),
            await person.content("/tools/up__evil"),
            await post(person, "/tools/up__evil/call", arguments=arguments),
            await post(person, "/tools/up__evil/call", arguments=HOSTILE),
            await post(person, "/tools/up__raw/call", arguments=json.dumps({"json": _content()})),
            await person.ask("POST", "/tools/-/form", json.dumps(values).encode(), hx_request="true"),
            await person.ask("POST", "/tools/-/markdown", HOSTILE.encode(), hx_request="true"),
        ]
        for page in pages:
            assert page.status in (200, 422), text(page)[:300]
            assert "<img src=x" not in text(page)
            assert '="javascript:' not in text(page)


def _content() -> str:
    blocks = [
        {"type": "text", "text": HOSTILE},
        {"type": "image", "data": HOSTILE, "mimeType": "text/html"},
        {"type": "image", "data": "AAAA", "mimeType": f"image/png{HOSTILE}"},
        {"type": "audio", "data": "AAAA", "mimeType": HOSTILE},
        {"type": "resource_link", "uri": "javascript:alert(1)", "name": HOSTILE},
        {"type": "resource", "resource": {"uri": HOSTILE, "text": HOSTILE}},
        {"type": HOSTILE, "text": [HOSTILE]},
        HOSTILE,
    ]
    return json.dumps({"content": blocks, "structuredContent": {HOSTILE: HOSTILE}, "_meta": {"x": HOSTILE}})


FLAT = [{"id": 1, "name": "a", "lit": True}, {"id": 2, "name": "b"}]


@pytest.mark.parametrize(
    ("value", "columns", "first"),
    [
        (FLAT, ["id", "name", "lit"], ["1", "a", "true"]),
        ({"rows": FLAT, "count": 2}, ["id", "name", "lit"], ["1", "a", "true"]),
        ({"columns": ["x", "y"], "rows": [[1, None]]}, ["x", "y"], ["1", "–"]),
        ({"columns": ["x", "y"], "rows": [[1]]}, None, None),
        ([{"id": 1, "deep": {"x": 1}}], None, None),
        ([{"id": 1, "text": "x" * 3_000}], None, None),
        ([{f"column {number}": 1 for number in range(40)}], None, None),
        ([], None, None),
        ("text", None, None),
    ],
)
def test_json_with_rows_is_a_table(value: object, columns: list[str] | None, first: list[str] | None) -> None:
    table = table_of(value)
    assert (table and [name for name, _ in table.columns]) == columns
    assert (table and [cell for cell, _ in table.rows[0]]) == first


def test_rows_beyond_the_limit_are_counted() -> None:
    table = table_of([{"id": number, "name": "x"} for number in range(250)])
    assert table is not None
    assert (len(table.rows), table.left_out) == (200, 50)


async def test_a_server_that_does_not_run_is_one_quiet_line(tmp_path: Path) -> None:
    broken = child("--exit", "3", "--stderr", "no such database")
    async with web_hub(tmp_path, {"one": child(), "broken": broken}) as here:
        person = await signed_in(here)
        for path in ("/tools", "/tools?q=echo"):
            shown = text(await person.content(path))
            assert "1 server is not running" in shown
            assert "no such database" not in shown
            assert "notice bad" not in shown


async def test_a_list_is_limited_to_a_kind_of_tools(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        await person.content("/tools")
        for path in ("/tools?kind=read_only", "/tools?kind=read_only&q=echo"):
            shown = text(await person.content(path))
            assert "one__echo" in shown
            assert "one__count" not in shown
        assert "No tool is of this kind" in text(await person.content("/tools?kind=destructive&server=one"))
        assert "one__count" in text(await person.content("/tools?kind=unheard"))


async def test_rows_of_a_search_are_in_the_order_of_their_scores(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        client = await here.running.connect()
        for _ in range(5):
            await client.call("one__wait", seconds=0)
        for query in ("its", "waits its client", "echo"):
            shown = text(await person.content(f"/tools?q={quote(query)}"))
            scores = [float(score) for score in re.findall(r"Score (\d\.\d\d)", shown)]
            assert scores
            assert scores == sorted(scores, reverse=True), query


async def test_the_most_used_tools_and_the_usage_of_one_are_shown(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        assert "No tool of a server was called" in text(await person.content("/tools?view=used"))
        client = await here.running.connect()
        for _ in range(2):
            await client.call("one__fail", text="no")
        await client.call("one__echo", text="1")

        async def counted() -> bool:
            return "2 calls" in text(await person.content("/tools?view=used"))

        await until(counted)
        shown = text(await person.content("/tools?view=used"))
        assert shown.index("one__fail") < shown.index("one__echo")
        assert "100% failed" in shown
        assert "/usage?tool=one__fail" in text(await person.content("/tools/one__fail"))
        assert "Nobody called it." in text(await person.content("/tools/one__wait"))
