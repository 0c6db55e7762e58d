"""Record the session of the README, and draw it: `python -m tests.e2e.docs.session [LANG …]`.

It runs real commands in a home of its own, whose assistants have real servers, which uvx and npx start. The
first start of a server downloads it, before the recording. Waits are shortened, and nothing else is changed
but the name of the home.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, TypedDict

from tests.conftest import ROOT
from tests.e2e.docs.session.drawing import picture
from tests.e2e.docs.session.recording import Session, Step
from tests.harness.patience import LONG, wait_until

IMAGES = ROOT / "docs" / "images"
SHOWN_HOME = "/home/aki"
ASSISTANTS = {
    ".claude.json": ["time", "git", "memory", "everything"],
    ".cursor/mcp.json": ["filesystem", "time"],
}


class Language(NamedTuple):
    """What a session is in one language."""

    lang: str
    name: str
    title: str
    about: str
    steps: tuple[Step, ...]


LANGUAGES = {
    "en": Language(
        "en_US.UTF-8",
        "session.svg",
        "tabane",
        "A terminal. Tabane takes over the servers of two assistants with one command, finds a tool by what "
        "it does, and calls it.",
        (
            Step("tabane setup", ((r"\[Y/n\]", "y"),)),
            Step('tabane tools search "what time is it in Tokyo"'),
            Step("tabane tools call time__get_current_time timezone=Asia/Tokyo"),
        ),
    ),
    "ja": Language(
        "ja_JP.UTF-8",
        "session.ja.svg",
        "tabane",
        "ターミナル。1つのコマンドで2つのアシスタントのサーバーをTabaneに移し、ツールを機能で検索して呼び出します。",
        (
            Step("tabane setup", ((r"\[Y/n\]", "y"),)),
            Step("tabane tools search 東京は今何時"),
            Step("tabane tools call time__get_current_time timezone=Asia/Tokyo"),
        ),
    ),
}


class Entry(TypedDict):
    """A server in the file of an assistant."""

    command: str
    args: list[str]


def servers(home: Path) -> dict[str, Entry]:
    """Return the servers of all assistants by name."""
    npx = {
        "memory": ["@modelcontextprotocol/server-memory"],
        "everything": ["@modelcontextprotocol/server-everything"],
        "filesystem": ["@modelcontextprotocol/server-filesystem", str(home / "notes")],
    }
    uvx = {"time": ["mcp-server-time"], "git": ["mcp-server-git"]}
    return {
        **{name: {"command": "npx", "args": ["-y", *rest]} for name, rest in npx.items()},
        **{name: {"command": "uvx", "args": rest} for name, rest in uvx.items()},
    }


def prepare(home: Path) -> None:
    """Write the files of the assistants, and a folder of notes."""
    (home / "notes").mkdir(parents=True)
    (home / "notes" / "today.md").write_text("# Today\n")
    known = servers(home)
    for path, names in ASSISTANTS.items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        entries = {name: known[name] for name in names}
        file.write_text(json.dumps({"mcpServers": entries}, indent=2) + "\n")


def environment(home: Path, cache: Path, lang: str) -> dict[str, str]:
    """Return an empty environment with the programs of this checkout. Caches are outside of the home."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.lower().endswith(("_proxy", "cert_file", "ca_certs"))
        or name.lower().startswith(("uv_", "npm_config_"))
    }
    return {
        **kept,
        "HOME": str(home), "PATH": programs, "LANG": lang, "TERM": "xterm-256color", "TABANE_HTTP": "false",
        "UV_CACHE_DIR": str(cache / "uv"), "npm_config_cache": str(cache / "npm"), "UV_SYSTEM_CERTS": "1",
        "NODE_USE_SYSTEM_CA": "1", "npm_config_update_notifier": "false",
    }  # fmt: skip


def download(home: Path, given: dict[str, str]) -> None:
    """Fetch the servers into the caches. From then on, uvx and npx ask no registry."""
    for entry in servers(home).values():
        command = [entry["command"], *entry["args"]]
        subprocess.run(
            command, env=given, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=3 * LONG
        )
    for path, text in ((".config/uv/uv.toml", "offline = true\n"), (".npmrc", "prefer-offline=true\n")):
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def is_ready(given: dict[str, str]) -> bool:
    """Return whether searches in both languages have nothing to wait for: each has a model of its own."""
    for query in ("read a file", "ファイルを読む"):
        command = ["tabane", "tools", "search", query]
        english = {**given, "LANG": "C.UTF-8"}
        done = subprocess.run(command, env=english, capture_output=True, text=True, timeout=LONG)
        if done.returncode or re.search("Semantic search|意味検索|starting", done.stdout + done.stderr):
            return False
    return True


def record(language: Language, cache: Path) -> str:
    """Run the session in an empty home, and return the picture."""
    home = Path("/tmp", secrets.token_hex(2))  # as long as the name that is shown: lines break as they do
    home.mkdir(mode=0o700)
    assert len(str(home)) == len(SHOWN_HOME)
    given = environment(home, cache, language.lang)
    session = Session(given, home, {str(home): SHOWN_HOME})
    try:
        prepare(home)
        download(home, given)
        for step in language.steps:
            print(f"$ {step.command}\n{session.run(step)}")
            wait_until(lambda: is_ready(given), "search by meaning is ready")
        end = session.end()
    finally:
        subprocess.run(["tabane", "stop"], env=given, cwd=home, capture_output=True, timeout=LONG)
        shutil.rmtree(home, ignore_errors=True)
    return picture(session.screen.finish(), session.typed, end, language.title, language.about)


def main() -> None:
    cache = ROOT / "build" / "session"
    for name in sys.argv[1:] or LANGUAGES:
        language = LANGUAGES[name]
        svg = record(language, cache)
        (IMAGES / language.name).write_text(svg, encoding="utf-8")
        (seconds, *_) = re.findall(r"([\d.]+)s step-end", svg)
        print(f"{language.name}: {len(svg.encode()):,} bytes, {seconds} seconds")


if __name__ == "__main__":
    main()
