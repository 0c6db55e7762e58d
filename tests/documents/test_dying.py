"""A process killed while it stores a document leaves a complete document, either the old or the new one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.documents.document import CHUNKS
from tests.documents.library import VERSIONS, opened

_ROUNDS = 6


@pytest.mark.heavy("many files")
async def test_a_document_and_its_chunks_come_and_go_together_whenever_the_process_dies(
    tmp_path: Path,
) -> None:
    chance = random.Random(8)
    for _ in range(_ROUNDS):
        _killed(tmp_path, chance.randint(1, 4))
        await _whole(tmp_path)


def _killed(home: Path, said: int) -> None:
    """Let a child put documents, and kill it in the middle of a put."""
    command = [sys.executable, "-m", "tests.documents.library", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as child:
        assert child.stdout is not None
        for _ in range(said):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)


async def _whole(home: Path) -> None:
    async with opened(folder=str(home)) as asked:
        found = await (await asked.documents.reading()).text("notes/dying.md")
        assert found is not None
        document, text = found
        assert text in VERSIONS
        records = (await asked.collection.select(CHUNKS, limit=1000)).records
        assert {each.record.key for each in records} == set(document.keys)
        assert len(records) > 20
        word, other = ("first", "second") if text == VERSIONS[0] else ("second", "first")
        assert await asked.found(word, mode="lexical") == ["notes/dying.md"]
        assert await asked.found(other, mode="lexical") == []
