"""Who gets at the page: two secrets, the hub's own origin, no other name, no frame."""

from __future__ import annotations

import asyncio
import gzip
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tabane.web.app import PAGE_HEADER
from tests.harness.http_hub import Answer
from tests.web.visitor import WebVisitor, text, title, visitor, web_hub

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src data: blob:; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
PAGE = "/preferences"


async def signed_in(here: Any) -> WebVisitor:
    found = await visitor(here)
    assert (await found.sign_in()).status == 200
    return found


async def test_the_page_without_its_secrets_has_no_data(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        someone = await visitor(here)
        shell = await someone.open(PAGE)
        assert (shell.status, shell.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "<main" not in text(shell)
        assert shell.headers["cache-control"] == "no-store"
        assert (await someone.content(PAGE)).status == 401
        assert (await someone.content("/events")).status == 401


@pytest.mark.parametrize("missing", ["cookie", "page", "both", "page of another session"])
async def test_one_of_the_two_secrets_gives_nothing(tmp_path: Path, missing: str) -> None:
    async with web_hub(tmp_path) as here:
        mine, other = await signed_in(here), await signed_in(here)
        assert (await mine.content(PAGE)).status == 200
        if missing in ("cookie", "both"):
            mine.cookie = ""
        if missing in ("page", "both"):
            mine.page = ""
        if missing == "page of another session":
            mine.page = other.page
        assert (await mine.content(PAGE)).status == 401
        assert (await mine.content("/events")).status == 401
        signed_out = await mine.ask("POST", "/sign-out")
        assert signed_out.status in (200, 401)
        assert (await other.content(PAGE)).status == 200  # and ends nobody's session


async def test_the_token_of_the_hub_is_no_session(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        someone = await visitor(here)
        assert (await someone.content(PAGE, authorization=here.bearer)).status == 401


async def test_a_cookie_is_for_this_port_and_not_for_scripts(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        answer = await (await visitor(here)).sign_in()
    name, *attributes = re.split(r"; ?", answer.headers["set-cookie"])
    assert name.startswith(f"tabane-{here.door.port}=")
    given = {attribute.lower() for attribute in attributes}
    assert {"httponly", "samesite=strict", "path=/"} <= given
    assert not any(attribute.startswith("domain") for attribute in given)


def test_every_answer_has_the_policy_and_refuses_frames(tmp_path: Path) -> None:
    async def scenario() -> list[Answer]:
        async with web_hub(tmp_path) as here:
            mine, someone = await signed_in(here), await visitor(here)
            style = re.search(r'href="(/static/[^"]+app\.css)"', text(await mine.open(PAGE)))
            assert style
            return [
                await mine.open(PAGE),
                await mine.content(PAGE),
                await mine.content(f"{PAGE}/nowhere"),
                await mine.ask("GET", style[1]),
                await someone.content(PAGE),
                await someone.content("/sign-in"),
                await someone.sign_in(key="tbn_wrong"),
            ]

    for answer in asyncio.run(scenario()):
        assert answer.headers["content-security-policy"] == POLICY, answer
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


class Inline(HTMLParser):
    """Finds what the policy would refuse: inline scripts, styles and handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(f"<{tag}>")
        self.found += [
            f"{tag} {name}"
            for name, value in attrs
            if name == "style"
            or name.startswith(("on", "hx-on"))
            or (value or "").startswith(("js:", "javascript:"))
        ]


async def test_the_shell_has_nothing_inline_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        shell = text(await (await visitor(here)).open(PAGE))
    parser = Inline()
    parser.feed(shell)
    assert parser.found == []
    assert re.findall(r'(?:src|href)="(?!/)[^"]*"', shell) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
        {"origin": "http://localhost:3000", "sec_fetch_site": "same-site"},
        {"origin": None, "sec_fetch_site": "cross-site"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "http://127.0.0.1:1", "sec_fetch_site": None},
    ],
    ids=lambda headers: str(headers["origin"]),
)
async def test_another_origin_changes_nothing_even_with_both_secrets(
    tmp_path: Path, headers: dict[str, str | None]
) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        assert (await mine.ask("POST", "/sign-out", **headers)).status == 403
        assert (await mine.ask("POST", "/sign-in", b"{}", **headers)).status == 403
        assert (await mine.content(PAGE, **headers)).status == 403
        assert (await mine.content(PAGE)).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}"])
async def test_a_rebound_name_is_refused(tmp_path: Path, host: str) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        name = host.format(port=here.door.port)
        answers = [
            await mine.open(PAGE, host=name),
            await mine.content(PAGE, host=name, origin=f"http://{name}"),
            await mine.ask("POST", "/sign-in", b"{}", host=name, origin=f"http://{name}"),
        ]
        assert [answer.status for answer in answers] == [421, 421, 421]


@pytest.mark.parametrize("kind", ["iframe", "image", "script", "embed", "object"])
async def test_another_page_can_only_link_here(tmp_path: Path, kind: str) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        assert (await mine.open(PAGE, sec_fetch_site="cross-site")).status == 200
        embedded = await mine.open(PAGE, sec_fetch_site="cross-site", sec_fetch_dest=kind)
        assert embedded.status == 403


async def test_turned_off_the_paths_are_unknown(tmp_path: Path) -> None:
    async with web_hub(tmp_path, web=False) as here:
        someone = await visitor(here)
        for path in ("/", PAGE, "/sign-in", "/events", "/static/x/app.css"):
            assert (await someone.open(path)).status == 404, path


async def test_a_link_works_once_and_not_with_a_guessed_code(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        code = here.door.sign_in_link().partition("#")[2]
        first, second = await visitor(here), await visitor(here)
        assert (await first.sign_in(code=code)).status == 200
        assert (await second.sign_in(code=code)).status == 401
        assert (await second.sign_in(code="guessed")).status == 401
        assert (await second.sign_in(code="")).status == 401


async def test_no_secret_is_in_the_file_of_sessions_which_only_the_user_reads(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        file = here.door.settings.home / "web-sessions.json"
        kept = file.read_text()
        assert mine.page not in kept
        assert mine.cookie.partition("=")[2] not in kept
        assert file.stat().st_mode & 0o077 == 0


async def test_a_static_file_outside_of_the_folder_is_not_served(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        someone = await visitor(here)
        for name in (
            "../app.py",
            "%2e%2e/app.py",
            "..%2fapp.py",
            "vendor/vendor.toml",
            "/etc/passwd",
            "js",
            "",
        ):
            answer = await someone.ask("GET", f"/static/x/{name}")
            assert answer.status in (403, 404), name
            assert b"import" not in answer.body


async def test_the_title_of_a_page_is_in_the_language_of_the_browser(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        assert PAGE_HEADER == "tabane-page"
        assert title(await mine.content(PAGE, accept_language="en-US,en")) == "Preferences · Tabane"
        assert "lang" not in (await mine.content(PAGE, accept_language="ja")).headers


async def test_an_unknown_path_is_a_page_for_a_browser_and_json_for_a_program(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        shell = await mine.open("/nothing/here", accept="text/html,*/*;q=0.8")
        assert (shell.status, shell.headers["content-type"]) == (200, "text/html; charset=utf-8")
        missing = await mine.content("/nothing/here")
        assert (missing.status, title(missing)) == (404, "Not found · Tabane")
        assert 'action="/search"' in text(missing)
        program = await mine.ask("GET", "/nothing/here", accept="application/json")
        assert program.status == 404
        assert program.json["jsonrpc"] == "2.0"
        someone = await visitor(here)
        assert (await someone.content("/nothing/here")).status == 401


async def test_content_is_compressed_for_those_who_take_that(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        mine = await signed_in(here)
        plain = await mine.content("/settings")
        packed = await mine.content("/settings", accept_encoding="gzip, br")
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in packed.headers["vary"]
        assert len(packed.body) < len(plain.body) / 3
        assert gzip.decompress(packed.body) == plain.body
        small = await mine.content("/questions/-/count", accept_encoding="gzip")
        assert "content-encoding" not in small.headers  # it is short
        stream = await mine.ask("GET", "/events", accept="text/event-stream", accept_encoding="gzip")
        assert "content-encoding" not in stream.headers  # events are not to wait for each other


async def test_no_compressed_answer_has_a_secret_of_the_browser(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        someone = await visitor(here)
        signed = await someone.sign_in(accept_encoding="gzip")
        assert "content-encoding" not in signed.headers
        body = gzip.decompress((await someone.content("/", tabane_whole="1", accept_encoding="gzip")).body)
        assert someone.page.encode() not in body
        assert someone.cookie.partition("=")[2].encode() not in body
