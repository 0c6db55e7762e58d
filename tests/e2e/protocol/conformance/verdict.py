"""Whether the outcomes are as they should be: all scored scenarios pass, but those that are named."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.protocol.conformance.servers import TARGETS, Target
from tests.e2e.protocol.conformance.suite import Outcome, Revision

EXPECTED = Path(__file__).parent / "expected.toml"

Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Expected:
    """A scored scenario that does not pass through the hub in front of such a server, and why."""

    revision: Revision
    upstream: str
    scenario: str
    reason: str

    def covers(self, target: Target, scenario: str) -> bool:
        through_hub = target.way != "alone"
        same = (self.revision, self.upstream) == (target.revision, target.era)
        return through_hub and same and self.scenario == scenario


def expected_failures(file: Path = EXPECTED) -> tuple[Expected, ...]:
    """What the written list names."""
    listed = tomllib.loads(file.read_text(encoding="utf-8")).get("expected", [])
    return tuple(Expected(**entry) for entry in listed)


def mark(target: Target, scenario: str, outcomes: Outcomes, expected: Iterable[Expected]) -> str:
    """One cell of the table of what is scored."""
    found = plain_mark(scenario, outcomes)
    if found != "failed":
        return found
    return "expected" if any(entry.covers(target, scenario) for entry in expected) else "FAILED"


def plain_mark(scenario: str, outcomes: Outcomes) -> str:
    """One cell of the table of what is not."""
    found = outcomes.get(scenario)
    if found is None:
        return "not run"
    if found.passed:
        return "warning" if found.warnings else "ok"
    return "failed"


def complaints(
    target: Target, scenarios: Sequence[str], outcomes: Outcomes, expected: Sequence[Expected]
) -> list[str]:
    """What is not as it should be about one target: nothing, where it conforms as the list says."""
    found = []
    for scenario in scenarios:
        excused = any(entry.covers(target, scenario) for entry in expected)
        outcome = outcomes.get(scenario)
        if outcome is None:
            found.append(f"{scenario}: was not run")
        elif outcome.passed and excused:
            found.append(f"{scenario}: passes, so it has to leave {EXPECTED.name}")
        elif not outcome.passed and not excused:
            found.extend(f"{scenario}: {failure}" for failure in outcome.failures)
    return found


def unknown(scenarios: Mapping[Revision, Sequence[str]], expected: Iterable[Expected]) -> list[str]:
    """Entries of the list that name nothing that is run."""
    run = {(target.revision, target.era) for target in TARGETS if target.way != "alone"}
    return [
        f"{EXPECTED.name}: no scored scenario {entry.scenario} of {entry.revision}, server {entry.upstream}"
        for entry in expected
        if entry.scenario not in scenarios.get(entry.revision, ())
        or (entry.revision, entry.upstream) not in run
    ]
