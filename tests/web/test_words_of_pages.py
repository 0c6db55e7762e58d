"""No page says a command of a shell, apart from those whose purpose is to copy one."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from tabane.web.app import ENTRIES
from tests.harness.login_site import login_site
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, visitor, web_hub

NOT_HERE = frozenset({"/health"})
"""Needs a whole hub: a browser looks at it."""

RECORDS = frozenset({"/audit"})
"""Shows what was answered at the time, in the words that were recorded."""

PAGES = (*(entry.path for entry in ENTRIES if entry.path not in NOT_HERE | RECORDS), "/preferences")

COMMAND = re.compile(r"(?<![\w./-])tabane [a-z]")
COPIED = re.compile(r"<(pre|code|textarea)\b.*?</\1>", re.DOTALL)
"""What is there to be copied: a command with its button, a configuration, a definition."""

LOADED = re.compile(r'hx-get="([^"]+)"[^>]*hx-trigger="load\b')


def words(shown: str) -> str:
    """Return the text of a page, with what its elements are labeled with, without what is to be copied."""
    shown = COPIED.sub("", shown)
    labels = re.findall(r'(?:aria-label|title|placeholder|hx-confirm|data-[a-z]+)="([^"]*)"', shown)
    return html.unescape("\n".join([re.sub(r"<[^>]+>", " ", shown), *labels]))


async def commands(page: WebVisitor, path: str, lang: str) -> list[str]:
    """Return the commands in the words of a page and of what it loads by itself."""
    shown = text(await page.content(path, tabane_lang=lang))
    urls = map(html.unescape, LOADED.findall(shown))
    parts = [shown, *[text(await page.content(url, tabane_lang=lang, tabane_part="1")) for url in urls]]
    found = [(part, each) for part in map(words, parts) for each in COMMAND.finditer(part)]
    return [
        f"{path} {lang}: … {' '.join(part[max(0, each.start() - 60) : each.end() + 20].split())} …"
        for part, each in found
    ]


@pytest.mark.heavy("every page, with servers that fail")
@pytest.mark.parametrize("lang", ["en", "ja"])
async def test_pages_of_a_hub_with_trouble_say_no_command(tmp_path: Path, lang: str) -> None:
    async with login_site() as site:
        servers: dict[str, Any] = {
            "broken": child("--stderr", "FATAL: no such database", "--exit", "1"),
            "linear": {"type": "http", "url": site.url, "oauth": True},
            "gone": {"command": "no-such-program-anywhere"},
            "off": child(enabled=False),
        }
        async with web_hub(tmp_path, servers) as here:
            page = await visitor(here)
            await page.sign_in()
            for name in ("broken", "gone", "linear"):
                await page.ask("POST", f"/servers/{name}/-/start", hx_request="true", tabane_part="1")
            paths = [*PAGES, "/search/results?q=database", "/tools/-/list?q=database"]
            paths += [
                f"/servers/{name}{view}" for name in servers for view in ("", "?view=tools", "?view=log")
            ]
            found = [each for path in paths for each in await commands(page, path, lang)]
    assert found == []


async def test_pages_of_an_empty_home_say_no_command(tmp_path: Path) -> None:
    async with web_hub(tmp_path) as here:
        page = await visitor(here)
        await page.sign_in()
        found = [each for lang in ("en", "ja") for path in PAGES for each in await commands(page, path, lang)]
    assert found == []


async def test_an_error_that_advises_a_command_says_only_what_happened(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"gone": {"command": "no-such-program-anywhere"}}) as here:
        page = await visitor(here)
        await page.sign_in()
        answer = await page.ask("POST", "/servers/gone/-/start", hx_request="true", tabane_part="1")
        assert "no-such-program-anywhere" in text(answer)
        assert not COMMAND.search(text(answer))
