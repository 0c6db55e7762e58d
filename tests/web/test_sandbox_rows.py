"""The sandbox of a server on its page: what enforces it, what it leaves open, or why it cannot be had."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tabane.guard.cages.cage import find_mechanisms
from tests.harness.running_hub import child
from tests.web.visitor import text, visitor, web_hub


async def rows(folder: Path, sandbox: Any, lang: str) -> str:
    """The content of the page of a server with that sandbox."""
    async with web_hub(folder, {"one": {**child(), "sandbox": sandbox}}) as here:
        person = await visitor(here)
        await person.sign_in()
        answer = await person.content("/servers/one", tabane_lang=lang)
        assert answer.status == 200
        return text(answer)


@pytest.mark.parametrize(
    ("lang", "label", "open_label", "left_open"),
    [
        ("en", "Sandbox", "Left open by the sandbox", "Memory is not limited."),
        ("ja", "サンドボックス", "サンドボックスで防げないこと", "メモリーの上限はありません。"),
    ],
)
async def test_a_server_says_what_enforces_its_sandbox_and_what_stays_open(
    tmp_path: Path, lang: str, label: str, open_label: str, left_open: str
) -> None:
    if not find_mechanisms(os.environ).suffice:
        pytest.skip("needs bubblewrap, or Landlock of Linux 6.2")
    shown = await rows(tmp_path, "files", lang)
    assert f'<dt>{label}</dt><dd class="break">files: ' in shown
    assert f"<dt>{open_label}</dt>" in shown
    assert left_open in shown


async def test_a_sandbox_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    shown = await rows(tmp_path, {"write": ["/nonexistent/<b>"]}, "en")
    assert '<dt>Sandbox</dt><dd class="break">files: ' in shown
    assert "/nonexistent/&lt;b&gt;" in shown


async def test_a_server_without_a_sandbox_has_no_such_row(tmp_path: Path) -> None:
    assert "<dt>Sandbox</dt>" not in await rows(tmp_path, False, "en")
