"""docs/web.md is true: its commands give a link, and its table has every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabane.messages import Lang
from tabane.web.app import ENTRIES
from tests.e2e.docs.pages import ROOT, blocks
from tests.harness.home import Home, hub
from tests.harness.ports import reserved_port


def test_the_commands_print_links_of_their_pages(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.environment |= {
        "TABANE_HTTP": "true",
        "TABANE_PORT": str(reserved_port(home)),
        "TABANE_MODEL": "none",
    }
    home.write_servers({})
    for block in blocks("web"):
        commands = [line.partition("#")[0].split()[1:] for line in block.text.splitlines()]
        assert [command[0] for command in commands] == ["open"] * 3
        with hub(home):
            for command in commands:  # without a screen, each prints its link
                link = home.run(*command).succeeded.out.strip()
                assert re.fullmatch(r"http://127\.0\.0\.1:\d+/sign-in(\?to=/servers)?#[\w-]+", link)


@pytest.mark.parametrize(("name", "lang"), [("web.md", "en"), ("web.ja.md", "ja")])
def test_the_table_has_every_page_of_the_navigation(name: str, lang: Lang) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    rows = " ".join(re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE))
    assert [entry.path for entry in ENTRIES if entry.label.render(lang) not in rows] == []


def test_every_picture_is_small_enough_and_there() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("*.png"))
    assert pictures
    assert [picture.name for picture in pictures if picture.stat().st_size > 150_000] == []
