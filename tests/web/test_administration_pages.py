"""The pages of administration over HTTP: for whom they are, in which language, and with hostile data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.http_hub import HttpHub
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, title, visitor, web_hub

PAGES = (
    "/keys", "/keys?revoked=1", "/keys/new", "/keys/explain", "/profiles", "/profiles/new", "/audit",
    "/audit?type=call&start=7d", "/audit/1", "/audit/integrity", "/usage", "/usage?by=server",
    "/usage?by=key", "/usage?by=client", "/settings", "/jobs",
)  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)>"


async def signed_in(here: HttpHub) -> WebVisitor:
    found = await visitor(here)
    assert (await found.sign_in()).status == 200
    return found


async def form(person: WebVisitor, path: str, **fields: str) -> Any:
    body = "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()
    return await person.ask(
        "POST", path, body or b"x=", content_type="application/x-www-form-urlencoded", hx_request="true"
    )


@pytest.mark.parametrize("lang", ["en", "ja"])
async def test_each_page_is_shown_in_both_languages(tmp_path: Path, lang: str) -> None:
    async with web_hub(tmp_path, {"one": child()}) as here:
        person = await signed_in(here)
        made = await form(person, "/keys", name="laptop", allow="one__*", expires="90d")
        assert made.status == 200
        for path in PAGES:
            answer = await person.content(path, tabane_lang=lang)
            assert answer.status == 200, (path, text(answer)[:500])
            assert "undefined" not in text(answer).lower(), path
            assert "<bound method" not in text(answer), path
            assert "Message(" not in text(answer), path


async def test_the_secret_of_a_key_is_shown_once(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        person = await signed_in(here)
        made = await form(person, "/keys", name="laptop", allow="@docs", expires="never")
        secret = text(made).partition('id="secret">')[2].partition("<")[0]
        assert secret.startswith("tbn_")
        for path in ("/keys", "/keys/laptop", "/audit?text=tbn_"):
            assert secret not in text(await person.content(path))
        assert (await form(person, "/keys/laptop/revoke")).headers["tabane-location"] == "/keys"
        assert "laptop" not in text(await person.content("/keys"))
        assert "laptop" in text(await person.content("/keys?revoked=1"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "a b", "allow": "*"}, "no spaces"),
        ({"name": "x", "allow": ""}, "say what the key may use"),
        ({"name": "x", "allow": "@nothing"}, "@nothing"),
        ({"name": "x", "allow": "*", "expires": "soon"}, "expires"),
        ({"name": "x", "allow": "*", "tier": "none-such"}, "none-such"),
    ],
)
async def test_a_wrong_form_comes_back_with_what_was_typed(
    tmp_path: Path, fields: dict[str, str], words: str
) -> None:
    async with web_hub(tmp_path) as here:
        person = await signed_in(here)
        answer = await form(person, "/keys", **fields)
        assert answer.status == 422
        assert words in text(answer)
        assert f'value="{fields["name"]}"' in text(answer)


async def test_hostile_names_are_text(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        person = await signed_in(here)
        assert (await form(person, "/profiles", new="1", name="work", description=HOSTILE)).status == 204
        await form(person, "/keys", name="<b>", allow="@docs")
        await person.content(f"/keys/explain?key={quote(HOSTILE)}&tool=x")
        for path in ("/profiles", "/profiles/work", "/keys", "/audit", f"/audit?text={quote(HOSTILE)}"):
            shown = text(await person.content(path))
            assert HOSTILE not in shown, path
            assert "<b>" not in shown, path


async def test_unknown_things_are_not_found(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        person = await signed_in(here)
        paths = ("/keys/none", "/profiles/none", "/audit/999999", "/audit/x", "/jobs/none")
        for path in paths:
            answer = await person.content(path)
            assert (answer.status, title(answer)) == (404, "Not found · Tabane"), path
            assert f'class="btn primary" href="/{path.split("/")[1]}"' in text(answer), path


@pytest.mark.parametrize(
    ("lang", "words", "sentence"),
    [
        ("en", "Create an API key", "Unknown: Sign in, without success."),
        ("ja", "API キーを作成", "不明: サインイン (失敗)"),
    ],
)
async def test_the_audit_log_names_operations_in_words_and_nobody_at_a_refused_sign_in(
    tmp_path: Path, lang: str, words: str, sentence: str
) -> None:
    async with web_hub(tmp_path) as here:
        person = await signed_in(here)
        await form(person, "/keys", name="laptop", allow="@docs", expires="never")
        here.hub.audit.event("access", "sign_in", "refused", "key", holder="", source="127.0.0.1")
        listed = text(await person.content("/audit", tabane_lang=lang))
        assert words in listed
        assert "keys_create" not in listed
        refused = text(await person.content("/audit?action=sign_in&result=refused", tabane_lang=lang))
        entry = re.search(r'href="(/audit/\d+)"', refused)
        assert entry
        assert sentence in text(await person.content(entry[1], tabane_lang=lang))
