"""A home whose temporary files lie in its own folder, and a small set of tasks over one real server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.home import Home

DESK = Path(__file__).with_name("desk.py")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    (tmp_path / "tmp").mkdir()
    home.environment["TMPDIR"] = str(tmp_path / "tmp")
    return home


def task(
    id: str,
    steps: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    prompt: str = "Do it.",
    lang: str = "en",
) -> dict[str, Any]:
    return {"id": id, "lang": lang, "prompt": prompt, "steps": steps, "checks": checks}


def step(search: str, *tools: str, **facts: Any) -> dict[str, Any]:
    return {"search": search, "tools": list(tools), "facts": facts}


WRITE = task(
    "write",
    [step("write a note to a file", "desk/write_note", path="{notes}/a.txt", content="tea at four")],
    [{"file": "notes/a.txt", "equals": "tea at four"}],
    'Write "tea at four" to {notes}/a.txt.',
)
SUM = task(
    "sum-and-write",
    [
        step("2 つの数を足す add two numbers", "desk/add_numbers", a=40, b=2),
        step("write a note", "desk/write_note", path="{notes}/sum.txt", text="42"),
    ],
    [{"file": "notes/sum.txt", "contains": "42"}, {"answer": ["42"]}],
    "Add 40 and 2, write the sum to {notes}/sum.txt, and tell me what it is.",
    lang="ja",
)


def write_tasks(folder: Path, *tasks: dict[str, Any], **servers: Any) -> Path:
    """Write a folder of tasks over the server ``desk`` and ``servers``, and return it."""
    folder.mkdir()
    desk = {"command": sys.executable, "args": [str(DESK), "{notes}"]}
    setting = {"servers": {"desk": desk, **servers}, "workplace": {"notes": {"old.txt": "old\n"}}}
    (folder / "servers.json").write_text(json.dumps(setting))
    (folder / "tasks.json").write_text(json.dumps({"tasks": tasks}, ensure_ascii=False))
    distractor = {"server": "chat", "name": "post_message", "description": "Say something in a channel."}
    (folder / "distractors.json").write_text(json.dumps({"tools": [distractor]}))
    return folder


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return write_tasks(tmp_path / "tasks", WRITE, SUM)
