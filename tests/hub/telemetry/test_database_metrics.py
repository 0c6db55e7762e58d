"""Metrics of a database, of the local copies of it, and of an index outside."""

from __future__ import annotations

from typing import Any

from tabane.hub.telemetry.prometheus import database_families, exposition

NOW = 1000.0
REPLICAS = [
    {"collection": "posts", "state": "current", "behind": 0, "as_of": 999.0},
    {"collection": "documents", "state": "behind", "behind": 12, "as_of": 940.0},
    {"collection": "pages", "state": "copying", "behind": 3, "as_of": None},
]
INDEX = {"state": "away", "followed": [{"collection": "posts", "row": 5, "rows": 9}]}


def lines(engine: dict[str, Any]) -> list[str]:
    page = exposition(database_families(engine, NOW))
    return [line for line in page.splitlines() if not line.startswith("#")]


def test_a_database_that_answers_shows_its_size_and_how_far_its_copies_are() -> None:
    found = lines(
        {"state": "ok", "latency_ms": 2.5, "size": 7000, "replicas": REPLICAS, "vector_index": INDEX}
    )
    assert [line for line in found if not line.startswith("tabane_replica_state")] == [
        "tabane_database_up 1",
        "tabane_database_latency_seconds 0.0025",
        "tabane_database_size_bytes 7000",
        'tabane_replica_changes_behind{collection="posts"} 0',
        'tabane_replica_changes_behind{collection="documents"} 12',
        'tabane_replica_changes_behind{collection="pages"} 3',
        'tabane_replica_age_seconds{collection="posts"} 0',
        'tabane_replica_age_seconds{collection="documents"} 60',
        "tabane_vector_index_up 0",
        'tabane_vector_index_rows_behind{collection="posts"} 4',
    ]
    assert [line for line in found if line.startswith("tabane_replica_state") and line.endswith(" 1")] == [
        'tabane_replica_state{collection="posts",state="current"} 1',
        'tabane_replica_state{collection="documents",state="behind"} 1',
        'tabane_replica_state{collection="pages",state="copying"} 1',
    ]


def test_a_database_that_does_not_answer_is_down() -> None:
    assert lines({"state": "unreadable", "error": "gone", "replicas": []}) == ["tabane_database_up 0"]
