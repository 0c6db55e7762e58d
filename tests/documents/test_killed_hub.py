"""A hub that is killed while clients put documents loses nothing that it acknowledged, and tears nothing."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.hub_process import approach
from tabane.errors import HubError
from tabane.hub.local.client import HubClient, connect
from tabane.hub.local.endpoint import Endpoint
from tests.harness.home import Home
from tests.harness.patience import LONG

WRITERS = 4
ROUNDS = 5
SECTIONS = 40


def client(home: Home) -> HubClient:
    return connect(approach(Endpoint(str(home.tabane), home.environment), flags=None, named=False), "en")


def version(name: str, number: int) -> str:
    """A text of many chunks, each of which says which version it is of; half of them change with each."""
    word = f"{name}v{number}"
    sections = (
        f"## Section {part}\n\n" + f"{word if part % 2 else name} and what stands in {part}. " * 40
        for part in range(SECTIONS)
    )
    return f"# {word}\n\n" + "\n\n".join(sections)


@dataclass
class Writer:
    """Puts versions of one document, and deletes each fifth, until the hub is gone."""

    name: str
    begins: int
    acknowledged: list[int | None] = field(default_factory=list)
    asked: int | None = None

    def write(self, hub: HubClient, going: threading.Barrier) -> None:
        going.wait()
        try:
            for number in range(self.begins, self.begins + 100_000):
                self.asked = None if number % 5 == 4 else number
                if self.asked is None:
                    answer = hub.call("delete_document", {"filepath": self.name})
                else:
                    answer = hub.call(
                        "put_document", {"filepath": self.name, "text": version(self.name, number)}
                    )
                assert answer["status"] == "success", answer
                self.acknowledged.append(self.asked)
        except HubError:
            return

    @property
    def last(self) -> int | None:
        return self.acknowledged[-1]


@pytest.mark.heavy("kills real processes, many times")
def test_each_document_is_whole_after_the_hub_was_killed_and_what_was_acknowledged_is_there(
    tmp_path: Path,
) -> None:
    chance = random.Random(8)
    home = Home(tmp_path)
    home.environment["TABANE_MODEL"] = "none"
    try:
        for turn in range(ROUNDS):
            assert home.run("start").status == 0
            writers = [Writer(f"writer{number}", turn * 100_000) for number in range(WRITERS)]
            _killed_while_writing(home, writers, chance.uniform(0.0, 0.3))
            assert home.run("start").status == 0
            with client(home) as hub:
                _check(hub, writers)
            assert home.run("stop").status == 0
    finally:
        home.run("stop")


def _killed_while_writing(home: Home, writers: list[Writer], later: float) -> None:
    """Kill the hub ``later`` seconds after each writer was answered at least twice."""
    going = threading.Barrier(len(writers) + 1)
    with ExitStack() as stack:
        pid = home.run("status", "--json").json["pid"]
        threads = []
        for writer in writers:
            hub = stack.enter_context(client(home))
            threads.append(threading.Thread(target=writer.write, args=(hub, going), daemon=True))
            threads[-1].start()
        going.wait()
        while not all(len(writer.acknowledged) >= 2 for writer in writers):
            threads[0].join(0.01)
            assert all(thread.is_alive() for thread in threads)
        threads[0].join(later)
        os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()


def _check(hub: HubClient, writers: list[Writer]) -> None:
    chunks = 0
    for writer in writers:
        there = _there(hub, writer.name)
        assert there in (writer.last, writer.asked), (writer.name, there, writer.last, writer.asked)
        for number in {writer.last, writer.asked, *writer.acknowledged[-3:]} - {None}:
            found = hub.call("search_documents", {"query": f"{writer.name}v{number}", "mode": "lexical"})[
                "results"
            ]
            expected = [writer.name] if number == there else []
            assert [hit["filepath"] for hit in found] == expected
        if there is not None:
            chunks += hub.call("get_document", {"filepath": writer.name})["chunks"]
    stats = hub.call("get_document_stats")
    assert stats["chunks"] == chunks  # none is left of what was, or was to be
    assert stats["documents"] == len(hub.call("list_documents")["documents"])
    rows: list[dict[str, Any]] = hub.call("check_stores")["results"]
    assert [row["state"] for row in rows if row["domain"] == "documents"] == ["ok"]


def _there(hub: HubClient, name: str) -> int | None:
    """Which version of a document there is, all of it; None where there is none."""
    parts: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = hub.call("get_document", {"filepath": name, "length": 200_000, **cursor})
        if answer["status"] == "error":
            assert answer["error_type"] == "NotFoundError"
            return None
        parts.append(answer["document"])
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    text = "".join(parts)
    number = int(text.split("\n", 1)[0].rpartition("v")[2])
    assert text == version(name, number)
    assert answer["chunks"] > 10
    return number
