"""The index of the audit log answers as a reader of all lines would."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.audit.entry import AuditEntry
from tabane.audit.index import EntrySearch
from tabane.audit.index_requests import EntryCounts, EntryFilter, EntryQuery, NewestEntry, UsageQuery
from tabane.audit.index_worker import IndexWorker
from tests.audit.log_folder import LogFolder, answer, call, caught_up, milliseconds

ALWAYS = ("2000-01-01", "2100-01-01")

servers = st.sampled_from(["time", "git", "[x]"])
outcomes = st.sampled_from(["ok", "ok", "failed", "refused", "limited", "cancelled"])
texts = st.sampled_from(["", "Tokyo", "検索", 'a "quoted" \\ word', "line\nbreak"])
moments = st.integers(0, 200_000)


@st.composite
def entries(draw: st.DrawFn, most: int = 60) -> list[AuditEntry]:
    """Entries with gaps between their numbers, so that a few of them are in several blocks."""
    found, seq = [], 0
    for _ in range(draw(st.integers(0, most))):
        seq += draw(st.sampled_from([1, 1, 2, 900, 3000]))
        server = draw(servers)
        found.append(
            call(
                seq,
                draw(moments),
                type=draw(st.sampled_from(["call", "call", "call", "access"])),
                key=draw(st.sampled_from(["local", "key:ab12", "key:?b"])),
                label=draw(st.sampled_from(["", "alice"])),
                client=draw(st.sampled_from(["claude", "cursor", ""])),
                server=server,
                name=f"{server}__{draw(st.sampled_from(['now', 'log', 'l*g']))}",
                outcome=draw(outcomes),
                ms=draw(st.floats(0, 1e6)),
                bytes=draw(st.integers(0, 10**6)),
                saved=draw(st.integers(0, 500)),
                count=draw(st.sampled_from([0, 0, 0, 3])),
                reason=draw(texts),
            )
        )
    return found


patterns = st.sampled_from(
    ["", "", "time*", "*", "*l*g", "[x]__*", "key:*", "key:?b", "alice", "git", "none"]
)
filters = st.builds(
    EntryFilter,
    start=st.none() | moments.map(milliseconds),
    end=st.none() | moments.map(milliseconds),
    type=st.sampled_from(["", "", "call", "access", "admin"]),
    outcomes=st.lists(st.sampled_from(["ok", "failed", "refused", ""]), max_size=2).map(tuple),
    key=patterns,
    actor=patterns,
    client=st.sampled_from(["", "", "c*", "claude"]),
    server=patterns,
    tool=patterns,
    action=patterns,
    text=st.sampled_from(["", "", "tokyo", "検索", '"quoted" \\', "break", "outcome", "alice", "__l"]),
)


@pytest.mark.heavy("a large log")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(entries(), filters, st.integers(1, 20), st.integers(0, 30))
def test_pages_are_those_of_a_scan(
    written: list[AuditEntry], wanted: EntryFilter, limit: int, offset: int
) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = LogFolder(Path(path))
        folder.write(*written)
        expected = folder.scan(wanted)
        page = answer(folder, EntryQuery(wanted, offset=offset, limit=limit))
        assert page["results"] == expected[offset : offset + limit]
        assert (page["total"], page["exact"]) == (len(expected), True)
        assert walked(folder, wanted, limit) == expected


def walked(folder: LogFolder, wanted: EntryFilter, limit: int) -> list[dict[str, object]]:
    """All pages, one after the other."""
    found: list[dict[str, object]] = []
    before = 0
    while True:
        page = answer(folder, EntryQuery(wanted, before=before, limit=limit))
        assert len(page["results"]) <= limit
        found += page["results"]
        if not page["before"]:
            return found
        before = page["before"]


@pytest.mark.heavy("a large log")
@settings(max_examples=60, deadline=None)
@given(entries(), filters, st.integers(0, 60_000), st.integers(1, 9))
def test_newer_entries_come_oldest_first(
    written: list[AuditEntry], wanted: EntryFilter, after: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = LogFolder(Path(path))
        folder.write(*written)
        page = answer(folder, EntryQuery(wanted, after=after, limit=limit))
        expected = [entry for entry in folder.scan(wanted)[::-1] if entry["seq"] > after]
        assert page["results"] == expected[:limit]


@pytest.mark.heavy("a large log")
@settings(max_examples=60, deadline=None)
@given(entries(), filters)
def test_counts_are_those_of_a_scan(written: list[AuditEntry], wanted: EntryFilter) -> None:
    wanted = EntryFilter(start=wanted.start, end=wanted.end, server=wanted.server, outcomes=wanted.outcomes)
    with tempfile.TemporaryDirectory() as path:
        folder = LogFolder(Path(path))
        folder.write(*written)
        found = answer(folder, EntryCounts(wanted))
        expected = folder.scan(wanted)
        assert found["total"] == len(expected)
        by_outcome = Counter(entry["outcome"] for entry in expected)
        assert {row["name"]: row["count"] for row in found["by_outcome"]} == dict(by_outcome)
        times = [entry["seq"] for entry in expected]
        assert (found["earliest"] is None) == (not times)


@pytest.mark.heavy("a large log")
@settings(max_examples=40, deadline=None)
@given(entries(), st.sampled_from(["tool", "server", "key", "client"]), st.sampled_from(["", "git", "*"]))
def test_usage_is_that_of_a_scan(written: list[AuditEntry], by: str, server: str) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = LogFolder(Path(path))
        folder.write(*written)
        found = answer(folder, UsageQuery(*ALWAYS, by=by, server=server, limit=100))  # type: ignore[arg-type]
        calls = folder.scan(EntryFilter(type="call", server=server))
        expected: Counter[str] = Counter()
        saved: Counter[str] = Counter()
        for entry in calls:
            name = entry.get({"tool": "name"}.get(by, by), "")
            expected[name] += entry.get("count", 1)
            saved[name] += entry.get("saved", 0)
        assert {row[by]: row["calls"] for row in found["results"]} == dict(expected)
        assert {row[by]: row["saved"] for row in found["results"]} == {name: saved[name] for name in expected}
        assert found["sum"]["calls"] == sum(expected.values())
        failures = ("failed", "refused", "limited")
        assert found["sum"]["errors"] == sum(e.get("count", 1) for e in calls if e["outcome"] in failures)
        assert found["total"] == len(expected)


class Story:
    """What happens to a log and its index, one step after the other."""

    def __init__(self, path: str) -> None:
        self.folder = LogFolder(Path(path))
        self.folder.seq = 1
        self.index = caught_up(self.folder)
        self.calls = 0
        self.torn = False

    def take(self, step: str) -> None:
        getattr(self, step)()

    def call(self) -> None:
        if self.torn:
            self.folder.write_raw(b"\n")
            self.torn = False
        self.calls += 1
        self.folder.seq = self.calls
        self.folder.write(call(self.calls, self.calls))

    def rotate(self) -> None:
        self.folder.rotate()
        self.folder.seq = self.calls + 1
        self.torn = False

    def remove(self) -> None:
        self.read()  # as in a hub, long before a file is old enough
        self.folder.remove_oldest()

    def junk(self) -> None:
        if self.folder.begun and not self.torn:
            self.folder.write(b'{"seq":', b"\xff\x00", b'{"seq":"x"}', b"[]", b"")

    def tear(self) -> None:
        if self.folder.begun and not self.torn:
            self.folder.write_raw(b'{"seq":%d,"time":' % (self.calls + 1))
            self.torn = True

    def read(self) -> None:
        assert self.index.catch_up(60)

    def lose_index(self) -> None:
        self.index.close()
        os.unlink(self.folder.path / "index.db")
        self.index = caught_up(self.folder)

    def begin_again(self) -> None:
        self.index.close()
        self.index = caught_up(self.folder)


STEPS = ("call", "call", "call", "rotate", "remove", "junk", "tear", "read", "lose_index", "begin_again")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_whatever_happens_to_the_log_nothing_is_lost_or_doubled(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as path:
        story = Story(path)
        for step in steps:
            story.take(step)
        story.read()
        story.index.close()
        expected = story.folder.scan(EntryFilter())
        page = answer(story.folder, EntryQuery(limit=1000))
        assert page["results"] == expected
        assert page["total"] == len(expected)
        assert answer(story.folder, UsageQuery(*ALWAYS))["sum"]["calls"] == story.calls


def test_a_torn_line_is_found_once_it_is_whole(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1))
    folder.write_raw(b'{"seq":2,"time":"2026-11-01T00:00:01.000Z",')
    assert answer(folder, NewestEntry()) == 1
    folder.write_raw(b'"type":"call","name":"git__log"}\n')
    assert [entry["seq"] for entry in answer(folder, EntryQuery())["results"]] == [2, 1]


def test_usage_outlives_the_log(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1), call(2))
    folder.rotate()
    folder.write(call(3))
    assert answer(folder, UsageQuery(*ALWAYS))["sum"]["calls"] == 3
    folder.remove_oldest()
    assert answer(folder, EntryQuery())["total"] == 1
    assert answer(folder, UsageQuery(*ALWAYS))["sum"]["calls"] == 3


def test_usage_outlives_a_clock_that_is_years_ahead(tmp_path: Path) -> None:
    """What was counted is as old as the clock says, and only days that were counted push out others."""
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1, -2_000 * 86_400), call(2, -1_999 * 86_400))
    folder.rotate()
    folder.write(call(3))
    assert answer(folder, UsageQuery("1990-01-01", "2099-12-31"))["sum"]["calls"] == 3
    folder.remove_oldest()
    assert answer(folder, EntryQuery())["total"] == 1
    assert answer(folder, UsageQuery("1990-01-01", "2099-12-31"))["sum"]["calls"] == 3


def test_the_day_of_a_call_is_that_of_the_zone(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1, 20 * 3600))  # 2026-11-01 20:00 UTC
    days = answer(folder, UsageQuery(*ALWAYS, by="day"), "Asia/Tokyo")["results"]
    assert [row["day"] for row in days] == ["2026-11-02"]


def test_resources_of_a_server_are_counted_together(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(*(call(n, kind="resource", name=f"git__file:///{n}", server="git") for n in range(1, 9)))
    (row,) = answer(folder, UsageQuery(*ALWAYS))["results"]
    assert (row["tool"], row["server"], row["calls"]) == ("(resources)", "git", 8)


def test_latencies_are_of_calls_that_were_answered(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1, ms=100.0), call(2, ms=200.0, outcome="failed"), call(3, ms=0.01, outcome="refused"))
    (row,) = answer(folder, UsageQuery(*ALWAYS))["results"]
    assert (row["calls"], row["ok"], row["failed"], row["refused"], row["errors"]) == (3, 1, 1, 1, 2)
    assert row["p50_ms"] == pytest.approx(100, rel=0.05)
    assert row["p99_ms"] == pytest.approx(200, rel=0.05)
    assert row["mean_ms"] == 150


def test_groups_of_usage_come_in_pages(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(*(call(n, name=f"time__{n % 7}") for n in range(1, 50)))
    names = [
        row["tool"]
        for offset in range(0, 7, 2)
        for row in answer(folder, UsageQuery(*ALWAYS, offset=offset, limit=2))["results"]
    ]
    assert sorted(names) == [f"time__{n}" for n in range(7)]


def test_the_usage_of_one_holder_is_theirs_alone(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1), call(2, key="key:ab12", label="*"), call(3, key="key:ab1"))
    assert answer(folder, UsageQuery(*ALWAYS, holder="key:ab1"))["sum"]["calls"] == 1
    assert answer(folder, UsageQuery(*ALWAYS, holder="key:*"))["sum"]["calls"] == 0


def test_a_damaged_index_is_built_again_and_usage_is_kept(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(*(call(n, n) for n in range(1, 100)))
    assert answer(folder, UsageQuery(*ALWAYS))["sum"]["calls"] == 99
    (folder.path / "index.db").write_bytes(b"no database" * 100)
    assert answer(folder, EntryQuery())["total"] == 99
    assert answer(folder, UsageQuery(*ALWAYS))["sum"]["calls"] == 99


def test_a_log_that_begins_again_is_indexed_again(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1), call(2), call(3))
    assert answer(folder, NewestEntry()) == 3
    for file in folder.path.glob("*.jsonl"):
        file.unlink()
    again = LogFolder(folder.path)
    again.write(call(1, 5, name="git__log"))
    assert [entry["name"] for entry in answer(again, EntryQuery())["results"]] == ["git__log"]
    assert answer(again, UsageQuery(*ALWAYS))["sum"]["calls"] == 4


def test_its_files_are_private(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1))
    index = caught_up(folder)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir() if ".db" in path.name}
    index.close()
    assert modes.pop("index.db") == 0o600
    assert set(modes.values()) == {0o600}


def test_no_log_is_an_empty_answer(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    assert answer(folder, EntryQuery()) == {"results": [], "total": 0, "exact": True, "before": None}
    assert answer(folder, UsageQuery(*ALWAYS))["results"] == []


def test_a_search_for_a_text_stops_after_its_bytes_and_continues_there(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(*(call(n * 2000, reason="needle" if n < 3 else "hay" * 100) for n in range(1, 40)))
    index = caught_up(folder)
    wanted, before, found, pages = EntryFilter(text="needle"), 0, 0, 0
    while True:
        with EntrySearch(index, wanted, most_scanned=2000) as search:
            page = search.page(EntryQuery(wanted, before=before))
        found, pages = found + len(page["results"]), pages + 1
        if not page["before"]:
            break
        assert not page["exact"]
        before = page["before"]
    index.close()
    assert (found, pages > 2) == (2, True)


def test_texts_that_a_client_escaped_are_found(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(
        call(1, arguments=rb'{"query":"\u691C\u7d22"}'), call(2, arguments='{"query":"検索"}'.encode())
    )
    assert answer(folder, EntryQuery(EntryFilter(text="検索")))["total"] == 2


@pytest.mark.heavy("a large log")
def test_too_many_combinations_of_a_day_are_counted_together(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(*(call(n, name=f"git__{n}") for n in range(1, 20_040)))
    found = answer(folder, UsageQuery(*ALWAYS, tool="(other)"))
    assert found["sum"]["calls"] == 39
    assert answer(folder, UsageQuery(*ALWAYS))["sum"]["calls"] == 20_039


def test_a_worker_whose_index_is_deleted_builds_it_again(tmp_path: Path) -> None:
    from tabane.audit.index_requests import IndexRequest, decode_index_answer, encode_index

    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1), call(2))
    worker = IndexWorker()
    request = encode_index(IndexRequest(str(folder.path), "UTC", NewestEntry()))
    assert bytes(decode_index_answer(worker.respond(request)).result) == b"2"
    for path in folder.path.glob("index.db*"):
        path.unlink()
    folder.write(call(3))
    assert bytes(decode_index_answer(worker.respond(request)).result) == b"3"


def test_a_worker_says_why_it_cannot_answer(tmp_path: Path) -> None:
    from tabane.audit.index_requests import IndexRequest, decode_index_answer, encode_index

    request = encode_index(IndexRequest(str(tmp_path / "none" / "audit"), "UTC", NewestEntry()))
    found = decode_index_answer(IndexWorker().respond(request))
    assert not found.ready
    assert "No such file" in found.error


def test_a_newer_usage_database_is_set_aside(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "audit")
    folder.write(call(1))
    with sqlite3.connect(folder.path / "usage.db") as database:
        database.execute("PRAGMA user_version = 99")
    assert answer(folder, UsageQuery(*ALWAYS))["sum"]["calls"] == 1
    assert list(folder.path.glob("usage.db.unusable-*"))
