"""A hundred short sessions as people and assistants have them, with default settings: sessions/*.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ordinary.world import load_sessions, ordinary_day

SESSIONS = load_sessions()
PAGES = pytest.mark.heavy("opens every page")
CASES = [
    pytest.param(session, id=name, marks=PAGES if name.startswith("pages:") else ())
    for name, session in SESSIONS.items()
]


@pytest.mark.core
@pytest.mark.parametrize("session", CASES)
def test_a_session_gives_what_it_must(session: dict[str, Any], tmp_path: Path) -> None:
    with ordinary_day(tmp_path, session) as day:
        for step in session["step"]:
            day.do(step)


@pytest.mark.core
def test_a_step_that_is_not_as_it_says_fails(tmp_path: Path) -> None:
    session = {"name": "wrong", "step": []}
    with ordinary_day(tmp_path, session) as day:
        for step in (
            {"run": ["status"], "shows": ["no such words"], "fails": True},
            {"run": ["--version"], "fails": True},
            {"run": ["--version"], "hides": ["tabane"]},
            {"run": ["--version"], "within": 0.0},
        ):
            with pytest.raises(AssertionError):
                day.do(step)


def test_there_are_a_hundred_sessions_over_all_faces_in_both_languages() -> None:
    assert len(SESSIONS) >= 100
    assert {session.get("over", "bridge") for session in SESSIONS.values()} >= {"bridge", "http"}
    assert sum(session.get("language") == "ja" for session in SESSIONS.values()) >= 20
