"""The pages of tools over HTTP: what a key may see of them, and what untrusted servers write into them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from tests.harness.http_hub import Answer, HttpHub
from tests.harness.identities import GivenAccess, GivenKeys, identities
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
