"""The operations: who may see what, times and levels as a person gives them, and pages by cursor."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tabane.audit.entry import decode_entry
from tabane.audit.index_requests import EntryFilter, IndexTask
from tabane.audit.lookups import LOOKUPS
from tabane.audit.queries import AuditQueries, OfferedTool, analyzed
from tabane.audit.rendered_text import analysis, counts, entries, milliseconds, usage
from tabane.audit.table import (
    AnalyzeUsage,
    GetAuditStats,
    GetUsageStats,
    QueryAuditLogs,
    matches,
    moment_of,
)
from tabane.errors import BadArguments
from tabane.hub.process.administration import whole_table
from tabane.operations import Caller, CallTarget, Face, Privilege
from tabane.text.time_zones import zone_of
from tests.audit import test_index
from tests.audit.log_folder import BEGIN, LogFolder, answer, call

TOKYO = "Asia/Tokyo"
NOW = BEGIN.timestamp() + 3 * 86_400
LOCAL = Caller("local", Face.RPC, "s")


class KeyAccess:
    """The access of a key without administration."""

    holder, label, tier, everything, revision = "key:ab12", "alice", "default", False, 1

    def allows(self, target: CallTarget) -> bool:
        return target.source != "admin"

    def sees_server(self, server: str) -> bool:
        return True


class IndexHere:
    """The index, without a process."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder

    async def ask(self, task: IndexTask) -> Any:
        return answer(self._folder, task, TOKYO)


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    folder = LogFolder(tmp_path / "audit")
    day = 86_400
    folder.write(
        call(1, 0 * day, name="time__now", ms=10.0),
        call(2, 1 * day, name="git__log", server="git", outcome="failed", reason="no repository"),
        call(3, 2 * day, name="git__log", server="git", outcome="refused", key="key:ab12", label="alice"),
        call(4, 2.5 * day, name="sign_in", type="access", server="", outcome="failed"),
        call(5, 2.9 * day, key="key:ab12", label="alice", client="cursor", saved=7, bytes=400),
    )
    return folder


@pytest.fixture
def queries(folder: LogFolder) -> AuditQueries:
    offered = [OfferedTool("time__now", "time", 30), OfferedTool("slack__post", "slack", 200)]

    async def people(holders: Iterable[str]) -> Mapping[str, str]:
        return {"key:ab12": "Alice Example"} if "key:ab12" in set(holders) else {}

    return AuditQueries(IndexHere(folder), lambda: TOKYO, lambda: offered, people, lambda: NOW)


def found(queries: AuditQueries, **given: Any) -> list[int]:
    answered = asyncio.run(queries.query_audit_logs(LOCAL, QueryAuditLogs(**given)))
    return [entry["seq"] for entry in answered["results"]]


def test_entries_and_usage_have_the_name_of_the_person(queries: AuditQueries) -> None:
    """The name is looked up: it is not in the log, which is as it was."""
    answered = asyncio.run(queries.query_audit_logs(LOCAL, QueryAuditLogs()))
    assert [entry.get("person") for entry in answered["results"]] == [
        "Alice Example", None, "Alice Example", None, None
    ]  # fmt: skip
    usage = asyncio.run(queries.get_usage_stats(LOCAL, GetUsageStats(start="2026-11-01", by="key")))
    assert {row["key"]: row.get("person") for row in usage["results"]}["key:ab12"] == "Alice Example"


def test_lookups_are_left_out_and_counted_on_request(folder: LogFolder, queries: AuditQueries) -> None:
    day = 2.95 * 86_400
    folder.write(
        call(6, day, name="hub_status", server="", kind="operation"),
        call(7, day, name="hub_status", server="", kind="operation", outcome="refused"),
        call(8, day, name="keys_create", server="", kind="operation"),
        call(9, day, name="hub_status", server="other"),
    )
    assert found(queries, limit=5) == [9, 8, 7, 6, 5]
    answered = asyncio.run(queries.query_audit_logs(LOCAL, QueryAuditLogs(lookups=False)))
    assert [entry["seq"] for entry in answered["results"]] == [9, 8, 7, 5, 4, 3, 2, 1]
    assert (answered["total"], answered["hidden"]) == (8, 1)
    given = GetUsageStats(start="2026-11-01", lookups=False)
    usage = asyncio.run(queries.get_usage_stats(LOCAL, given))
    assert sum(row["calls"] for row in usage["results"]) + usage["hidden"] == 8


async def test_lookups_are_the_operations_that_only_read() -> None:
    reading = {
        operation.name
        for operation in await whole_table()
        if operation.privilege is Privilege.READ
        and (operation.source == "" or (operation.source == "hub" and Face.MCP not in operation.faces))
    }
    assert reading - set(LOOKUPS) == CONTENT
    assert set(LOOKUPS) - reading == {*("check_stores", "list_pages", "list_watched", "run_doctor")}


CONTENT = {"read_app_resource"}
"""What reads a server's content for a page."""


def test_levels_and_results_choose_outcomes(queries: AuditQueries) -> None:
    assert found(queries, level="error") == [4, 2]
    assert found(queries, level="warning") == [3]
    assert found(queries, result="failure") == [4, 3, 2]
    assert found(queries, result="success") == [5, 1]
    assert found(queries, result="ok", level="error") == []


def test_one_entry_is_found_by_its_number(queries: AuditQueries) -> None:
    assert found(queries, seq=3) == [3]
    assert found(queries, seq=3, result="ok") == []
    assert found(queries, seq=99) == []


def test_actors_are_holders_and_labels(queries: AuditQueries) -> None:
    assert found(queries, actor="alice") == found(queries, actor="key:ab12") == [5, 3]
    assert found(queries, key="local", action="time__*") == [1]


def test_times_are_those_of_the_zone(queries: AuditQueries) -> None:
    assert found(queries, start="24h") == [5, 4, 3]
    assert found(queries, start="today") == [5]
    assert found(queries, start="yesterday", end="yesterday") == [4, 3]
    assert found(queries, start="2026-11-02", end="2026-11-02") == [2]
    assert found(queries, start="2026-11-02T08:59:59", end="2026-11-02T09:00:00+09:00") == [2]


def test_a_period_that_ends_before_it_starts_is_refused(queries: AuditQueries) -> None:
    with pytest.raises(BadArguments, match="must not be later than end"):
        found(queries, start="1h", end="2h")


def test_a_cursor_of_something_else_is_refused(queries: AuditQueries) -> None:
    for cursor in ("", "x", "AZEHkPX2Mg"):
        if cursor:
            with pytest.raises(BadArguments, match="next_cursor"):
                asyncio.run(queries.get_usage_stats(LOCAL, GetUsageStats(cursor=cursor)))


def test_groups_follow_each_other_by_cursor(queries: AuditQueries) -> None:
    first = asyncio.run(queries.get_usage_stats(LOCAL, GetUsageStats(limit=1)))
    second = asyncio.run(queries.get_usage_stats(LOCAL, GetUsageStats(limit=1, cursor=first["next_cursor"])))
    assert {first["results"][0]["tool"], second["results"][0]["tool"]} == {"time__now", "git__log"}
    assert second["next_cursor"] is None


def test_a_key_without_administration_sees_its_own_usage(queries: AuditQueries) -> None:
    own = structs.replace(LOCAL, identity="key", access=KeyAccess())
    mine = asyncio.run(queries.get_usage_stats(own, GetUsageStats(by="key")))
    assert [row["key"] for row in mine["results"]] == ["key:ab12"]
    others = asyncio.run(queries.get_usage_stats(own, GetUsageStats(key="local")))
    assert others["results"] == []
    everyone = asyncio.run(queries.get_usage_stats(LOCAL, GetUsageStats(by="key")))
    assert {row["key"]: row["label"] for row in everyone["results"]} == {"key:ab12": "alice", "local": ""}


def test_unused_servers_are_found_with_their_cost(queries: AuditQueries) -> None:
    analyzed = asyncio.run(queries.analyze_usage(LOCAL, AnalyzeUsage()))
    assert analyzed["unused_servers"] == [{"server": "slack", "tools": 1, "tokens": 200}]
    assert analyzed["unused"] == {"tools": 1, "tokens": 200}
    assert analyzed["clients"][0]["client"] == "test"
    assert {row["client"]: row["saved"] for row in analyzed["clients"]}["cursor"] == 7


def test_statistics_have_the_times_of_the_first_and_last_entry(queries: AuditQueries) -> None:
    stats = asyncio.run(queries.get_audit_stats(LOCAL, GetAuditStats()))
    assert (stats["total"], stats["earliest"]) == (5, "2026-11-01T09:00:00.000+09:00")


@pytest.mark.parametrize(
    "given", [{"result": "failed"}, {"server": "git"}, {"key": "alice"}, {"lookups": False}]
)
def test_statistics_count_the_entries_that_are_listed(queries: AuditQueries, given: dict[str, Any]) -> None:
    listed = asyncio.run(queries.query_audit_logs(LOCAL, QueryAuditLogs(**given)))
    counted = asyncio.run(queries.get_audit_stats(LOCAL, GetAuditStats(**given)))
    assert counted["total"] == listed["total"]
    names = Counter(row["name"] for row in listed["results"])
    assert {row["name"]: row["count"] for row in counted["by_name"]} == names


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_answers_are_text_too(queries: AuditQueries, lang: Any) -> None:
    listed = entries(asyncio.run(queries.query_audit_logs(LOCAL, QueryAuditLogs())), lang)
    assert "no repository" in listed
    assert "git__log" in usage(asyncio.run(queries.get_usage_stats(LOCAL, GetUsageStats())), lang)
    assert "slack" in analysis(asyncio.run(queries.analyze_usage(LOCAL, AnalyzeUsage())), lang)
    assert "call: 4" in counts(asyncio.run(queries.get_audit_stats(LOCAL, GetAuditStats())), lang)


def test_slow_and_failing_tools_come_first() -> None:
    def group(tool: str, calls: int, errors: int, p95: float) -> dict[str, Any]:
        return {"tool": tool, "calls": calls, "errors": errors, "p50_ms": 1.0, "p95_ms": p95}

    groups = [group("a", 100, 1, 5.0), group("b", 10, 5, 500.0), group("rare", 2, 2, 9_000.0)]
    found = analyzed([], set(), groups, [], 10)
    assert [row["tool"] for row in found["slowest"]] == ["b", "a"]
    assert [(row["tool"], row["share"]) for row in found["failing"]] == [("b", 0.5), ("a", 0.01)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("now", 0), ("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_a_time_ago_is_counted_from_now(text: str, seconds: int) -> None:
    assert moment_of(text, zone_of(TOKYO), NOW, "start", end=False) == NOW - seconds


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_bad_arguments(text: str) -> None:
    with contextlib.suppress(BadArguments):
        assert isinstance(moment_of(text, zone_of(TOKYO), NOW, "start", end=True), float)


@given(test_index.entries(20), test_index.filters)
def test_a_follower_chooses_the_entries_that_a_query_chooses(written: list[Any], wanted: EntryFilter) -> None:
    from tests.audit.log_folder import matches as plainly

    for entry in written:
        line = msgspec.json.encode(entry)
        assert matches(wanted, decode_entry(line), line) == plainly(wanted, line)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0.05, "0.05 ms"),
        (0.0663, "0.07 ms"),
        (0.002, "0.002 ms"),
        (12.345, "12.3 ms"),
        (1500.0, "1.5 s"),
        (3_600_000.0, "3,600 s"),
    ],
)
def test_durations_have_three_digits(value: float | None, shown: str) -> None:
    assert milliseconds(value) == shown
