"""Logins at servers on the page: who has to log in, the link, the code, the result, and the logout."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from tests.harness.login_site import LoginSite, login_site
from tests.harness.patience import until
from tests.web.visitor import WebVisitor, text, visitor, web_hub

CARD = "/servers/up/-/login"
FORM = {"content_type": "application/x-www-form-urlencoded"}
WANTS = {"hx_request": "true", "tabane_part": "1", "accept": "text/html"}


def at(site: LoginSite) -> dict[str, Any]:
    return {"up": {"type": "http", "url": site.url, "oauth": True}}


async def signed_in(page: WebVisitor) -> bool:
    return "Logged in." in text(await page.content(CARD))


def link(shown: str) -> str:
    """Return the link of a card that opens in a new tab."""
    found = re.search(
        r'<a class="btn primary" href="([^"]+)" target="_blank" rel="noopener noreferrer">', shown
    )
    assert found, shown
    return html.unescape(found[1])


async def test_a_login_is_begun_opened_awaited_and_ended(tmp_path: Path) -> None:
    async with login_site() as site, web_hub(tmp_path, at(site)) as here:
        page = await visitor(here)
        await page.sign_in()
        listed = text(await page.content("/servers"))
        assert listed.count("login required") == 1  # said once, with its button
        assert listed.count(">Log in</a>") == 1
        assert ">Start</button>" not in listed
        assert "This server requires a login." in text(await page.content(CARD))
        begun = text(await page.ask("POST", f"{CARD}/start", **WANTS))
        assert "Waiting for the login" in text(await page.content(f"{CARD}/waiting"))
        await site.browse(link(begun))
        await until(lambda: signed_in(page), "the login is done")
        assert "Logged in." in text(await page.content(f"{CARD}/waiting"))
        shown = text(await page.content(CARD))
        assert not any(secret in shown for secret in site.secrets())
        await page.ask("POST", f"{CARD}/out", **WANTS)
        assert "This server requires a login." in text(await page.content(CARD))


async def test_a_login_with_a_code_shows_the_code_and_the_page_to_enter_it(tmp_path: Path) -> None:
    async with login_site(device=True) as site, web_hub(tmp_path, at(site)) as here:
        page = await visitor(here)
        await page.sign_in()
        begun = text(await page.ask("POST", f"{CARD}/start?flow=device", **WANTS))
        code = re.search(r'id="login-code">([^<]+)<', begun)
        assert code, begun
        assert link(begun).startswith(site.origin)
        site.approve(code[1])
        await until(lambda: signed_in(page), "the login is done")


async def test_an_address_that_the_browser_could_not_follow_is_pasted(tmp_path: Path) -> None:
    async with login_site() as site, web_hub(tmp_path, at(site)) as here:
        page = await visitor(here)
        await page.sign_in()
        begun = text(await page.ask("POST", f"{CARD}/start", **WANTS))
        returned = await site.browse(link(begun), stop=True)
        body = f"redirected_url={quote_plus(returned)}".encode()
        await page.ask("POST", f"{CARD}/finish", body, **{**WANTS, **FORM})
        assert await signed_in(page)


@pytest.mark.parametrize("path", ["start", "finish", "out"])
async def test_nobody_without_the_page_begins_or_ends_a_login(tmp_path: Path, path: str) -> None:
    async with login_site() as site, web_hub(tmp_path, at(site)) as here:
        page = await visitor(here)
        assert (await page.ask("POST", f"{CARD}/{path}", **WANTS)).status in (401, 403)
        assert site.forms("/as/authorize") == []
