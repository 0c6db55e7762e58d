"""The store beside other engines: ``python -m benchmarks.search [--records 200000] [--write]``.

The engines compared need packages that nothing else here does; ``make bench`` puts them into an environment
of their own. Where one is not there, its column says so. ``--only NAME`` leaves the others out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import publish
from benchmarks.search.engine_runs import EngineProcess, EngineRun
from benchmarks.search.engines import MODULES
from benchmarks.search.generator import Asked, Entry, Generator
from benchmarks.search.measuring import SECONDS, store_corpus
from benchmarks.search.page import page

OWN = ("tabane", "tantivy alone", "SQLite FTS5 trigram")  # need no others than the project's own


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--only", action="append", choices=list(MODULES))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as folder:
        characters = _prepare(Path(folder), options.records)
        measured = {name: _measured(name, Path(folder)) for name in options.only or MODULES}
    publish("search", page(measured, options.records, characters, SECONDS), write=options.write)


def _prepare(folder: Path, records: int) -> float:
    """Write what all engines are given; the answer is how long a text is on average."""
    generator = Generator()
    entries = list(generator.entries(records))
    store_corpus(folder, entries, questions(generator, entries))
    return sum(len(entry.text) for entry in entries) / records


def questions(generator: Generator, entries: Sequence[Entry]) -> dict[str, list[Asked]]:
    """What is asked of every engine, by kind."""
    found: dict[str, list[Asked]] = {}
    for language in ("ja", "en"):
        several = generator.queries(entries, language, 810)
        found[language], dated, users = several[:410], several[410:610], several[610:]
        found[f"{language} dates"] = [_limited(asked, generator.days(0.1)) for asked in dated]
        found[f"{language} user"] = [Asked(asked.words, user=generator.user()) for asked in users]
        found[f"substring {language} 2"] = generator.needles(entries, language, range(2, 3), 110)
        found[f"substring {language} 3"] = generator.needles(entries, language, range(3, 9), 110)
    return found


def _limited(asked: Asked, days: tuple[int, int]) -> Asked:
    return Asked(asked.words, since=days[0], until=days[1])


def _measured(name: str, folder: Path) -> EngineRun | None:
    """Return an engine's figures; None if it is not installed."""
    process = EngineProcess("benchmarks.search.measuring", name in OWN)
    return process.run(name, f"benchmarks.search.{MODULES[name]}", folder)


if __name__ == "__main__":
    main(sys.argv[1:])
