"""Recall and false positives of the scanner on collections of attacks and of honest definitions."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from tabane.guard.scanner.findings import Finding, Kind
from tabane.guard.scanner.scanner import DefinitionScanner

FOLDER = Path(__file__).parent.parent.parent / "tests" / "guard" / "scanner"
HELD_OUT, ATTACKS = FOLDER / "held_out.jsonl", FOLDER / "attacks.jsonl"
REAL, HONEST = FOLDER / "definitions.jsonl", FOLDER / "honest.jsonl"
COLLECTIONS = (HELD_OUT, ATTACKS, REAL, HONEST)


@dataclass(frozen=True)
class Case:
    """A definition of a collection, and the names of tools of other servers beside it."""

    server: str
    kind: Kind
    name: str
    definition: bytes
    others: tuple[str, ...]
    label: str = ""

    @staticmethod
    def of(row: dict[str, Any]) -> Case:
        given = row["definition"]
        kind: Kind = next(kind for kind in get_args(Kind) if kind == row["kind"])
        name = row.get("name") or (given.get("name") if isinstance(given, dict) else "") or ""
        written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return Case(
            row.get("server", "server"),
            kind,
            name,
            written.encode("utf-8", "surrogatepass"),
            tuple(row.get("others", ())),
            row.get("cls", ""),
        )

    def findings(self, scanner: DefinitionScanner) -> tuple[Finding, ...]:
        return scanner.scan(self.server, self.kind, self.name, self.definition, self.others)


def cases(path: Path) -> list[Case]:
    """Return the definitions of a collection."""
    return [Case.of(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def found(collection: Sequence[Case]) -> Iterator[tuple[Case, tuple[Finding, ...]]]:
    """Yield the definitions in which anything is found, of whatever severity."""
    scanner = DefinitionScanner()
    for case in collection:
        findings = case.findings(scanner)
        if findings:
            yield case, findings


class Found(NamedTuple):
    """How many definitions there are, in how many anything is found, and in how many something severe."""

    total: int
    found: int
    severe: int


def by_kind(path: Path) -> dict[str, Found]:
    """Return what is found in a collection, by kind of attack; all of it is at ``""``."""
    total, any_found, severe = Counter[str](), Counter[str](), Counter[str]()
    scanner = DefinitionScanner()
    for case in cases(path):
        findings = case.findings(scanner)
        for label in {"", case.label}:
            total[label] += 1
            any_found[label] += bool(findings)
            severe[label] += any(one.severity == "high" for one in findings)
    return {label: Found(total[label], any_found[label], severe[label]) for label in sorted(total)}


def interval(count: int, total: int) -> tuple[float, float]:
    """Return the bounds of a share by Wilson, with 95 % confidence."""
    z, share = 1.96, count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def share(path: Path) -> float:
    """Return the share of a collection in which anything is found."""
    collection = cases(path)
    return sum(1 for _ in found(collection)) / len(collection)


def milliseconds(collection: Sequence[Case]) -> list[float]:
    """Return the CPU time that each definition takes, after a first pass over all of them."""
    scanner = DefinitionScanner()
    for case in collection:
        case.findings(scanner)
    times = []
    for case in collection:
        begun = time.process_time()
        case.findings(scanner)
        times.append((time.process_time() - begun) * 1000)
    return times
