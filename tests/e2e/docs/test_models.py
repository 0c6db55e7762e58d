"""docs/models.md is true: its settings are valid, and its commands do what the page says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.settings import load_settings
from tests.e2e.docs.pages import Block, blocks
from tests.harness.home import Home
from tests.harness.patience import LONG
from tests.search.embedding.servers import FakeHub, FakeService

SETTINGS = [block for mark in ("models", "models:ollama") for block in blocks(mark) if block.kind == "toml"]


@pytest.mark.parametrize("block", SETTINGS, ids=lambda block: block.text.split('"')[1])
def test_every_settings_file_shown_is_read_without_a_complaint(block: Block, tmp_path: Path) -> None:
    settings = load_settings(
        {}, {"TABANE_HOME": str(tmp_path), "TABANE_CONFIG": written(tmp_path, block.text)}
    )
    assert [str(warning) for warning in settings.warnings] == []
    assert {name for name, source in settings.sources.items() if source.kind == "file"}


def test_a_server_is_used_as_the_page_says(tmp_path: Path) -> None:
    service = FakeService()
    (settings, commands) = blocks("models:ollama")

    async def run() -> str:
        async with service.serving() as url:
            text = settings.text.replace("http://127.0.0.1:11434/v1", f"{url}/v1")
            assert url in text
            return await asyncio.to_thread(typed, tmp_path, text, commands.text)

    assert "bge-m3#" in asyncio.run(run())
    assert service.asked[-1]["model"] == "bge-m3"


async def test_the_first_commands_try_the_default_model_and_download_nothing(tmp_path: Path) -> None:
    fake = FakeHub()
    (commands,) = blocks("models:begin")
    async with fake.serving() as url:
        out = await asyncio.to_thread(typed, tmp_path, "", commands.text, HF_ENDPOINT=url)
    assert f"{JOINED} is in " in out
    assert f"{JOINED}#" in out
    assert fake.asked == []


def written(folder: Path, text: str) -> str:
    file = folder / "tabane.toml"
    file.write_text(text)
    file.chmod(0o600)
    return str(file)


def typed(folder: Path, settings: str, commands: str, **variables: str) -> str:
    """What the commands print in a home of their own with these settings; each has to succeed."""
    home = Home(folder)
    home.write_servers({})
    programs = folder / "programs"
    programs.mkdir()
    (programs / "tabane").symlink_to(Path(sys.executable).parent / "tabane")
    environment = {
        **home.environment,
        "PATH": f"{programs}:{home.environment['PATH']}",
        "TABANE_CONFIG": written(folder, settings),
        "HF_HUB_OFFLINE": "0",
        **variables,
    }
    del environment["TABANE_MODEL"]  # the settings say it
    try:
        done = subprocess.run(
            ["sh", "-ec", commands],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
    finally:
        subprocess.run(["tabane", "stop"], env=environment, capture_output=True, timeout=LONG, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout
