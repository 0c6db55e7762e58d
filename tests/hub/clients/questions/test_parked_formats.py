"""The format of files of parked calls: named in each, older ones are read, and later ones are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import StoreNewer
from tabane.hub.clients.questions.parked_files import FORMAT, ParkedFiles
from tests.harness.running_hub import connected_hub, running_hub
from tests.hub.clients.questions.asking import ACCEPTED, FORM_STEP, answered, answers_to, asked_once, call_of
from tests.hub.clients.questions.test_restarts import MODERN, site

WRITTEN: dict[str, Any] = {
    "id": "0123456789abcdef",
    "round": 1,
    "count": 1,
    "expires": 1.5,
    "server": "up",
    "fingerprint": "f",
    "position": {"session": "s", "version": "2025-11-25", "last_event": "e", "number": 3},
    "method": "tools/call",
    "progress": False,
    "features": ["form"],
    "questions": [{"key": "ask", "request": '"ask"', "method": "elicitation/create", "params": {}}],
}
"""A file as hubs before 0.16 wrote it."""


def kept(home: Path, **changes: object) -> ParkedFiles:
    """The files of a home in which one call is parked."""
    home.chmod(0o700)
    folder = home / "parked-calls"
    folder.mkdir(mode=0o700)
    file = folder / f"{WRITTEN['id']}.json"
    file.write_text(json.dumps(WRITTEN | changes))
    file.chmod(0o600)
    return ParkedFiles(home)


def test_a_file_without_a_format_is_read_and_written_with_one(tmp_path: Path) -> None:
    files = kept(tmp_path)
    call = files.read(WRITTEN["id"])
    assert call is not None
    assert (call.server, call.position.number, call.questions[0].key) == ("up", 3, "ask")
    files.write(call)
    (file,) = (tmp_path / "parked-calls").iterdir()
    assert json.loads(file.read_text()) == WRITTEN | {"format": FORMAT}


@pytest.mark.parametrize("changes", [{}, {"position": "elsewhere"}, {"questions": 3}])
def test_a_file_of_a_later_format_is_refused_and_left_alone(tmp_path: Path, changes: dict[str, Any]) -> None:
    files = kept(tmp_path, format=FORMAT + 1, **changes)
    (file,) = (tmp_path / "parked-calls").iterdir()
    before = file.read_bytes()
    with pytest.raises(StoreNewer, match=rf"newer Tabane \(version {FORMAT + 1}"):
        files.read(WRITTEN["id"])
    assert file.read_bytes() == before


async def test_a_client_is_told_that_its_call_is_of_a_later_version(tmp_path: Path) -> None:
    """With an update, it goes on."""
    async with site() as (server, servers):
        request = call_of(FORM_STEP)
        async with running_hub(tmp_path, servers) as here:
            asked = await asked_once(await here.connect(MODERN), request)
        (file,) = (tmp_path / "parked-calls").iterdir()
        written = file.read_bytes()
        file.write_bytes(json.dumps(json.loads(written) | {"format": FORMAT + 1}).encode())
        async with connected_hub(tmp_path, servers, MODERN) as (_, line):
            answer = await line.request("tools/call", request | answers_to(asked, ACCEPTED))
            assert "newer Tabane" in answer["error"]["message"]
            assert server.resumed == []
            file.write_bytes(written)
            done = await line.result("tools/call", request | answers_to(asked, ACCEPTED))
            assert answered(done) == [[ACCEPTED]]
