"""The store beside tantivy alone: ``python -m benchmarks.search [--records COUNT] [--only NAME]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import benchmarks.search.generator
from benchmarks.made_data import linked, made_data
from benchmarks.report import publish
from benchmarks.search.engine_runs import EngineProcess, EngineRun
from benchmarks.search.engines import MODULES
from benchmarks.search.generator import Asked, Entry, Generator
from benchmarks.search.measuring import SECONDS, store_corpus
from benchmarks.search.page import page

MAKERS = (Path(__file__), Path(str(benchmarks.search.generator.__file__)))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--only", action="append", choices=list(MODULES))
    parser.add_argument("--prepare", action="store_true", help="make the data, and measure nothing")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    made = made_data(f"store-{options.records}", MAKERS, lambda folder: _prepare(folder, options.records))
    if options.prepare:
        return
    characters = float((made / "characters.txt").read_text())
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as temporary:
        folder = linked(made, Path(temporary) / "store")
        measured = {name: _measured(name, folder) for name in options.only or MODULES}
    publish("search", page(measured, options.records, characters, SECONDS), write=options.write)


def _prepare(folder: Path, records: int) -> None:
    """Write what all engines are given, and how many characters a text has on average."""
    folder.mkdir()
    generator = Generator()
    entries = list(generator.entries(records))
    store_corpus(folder, entries, questions(generator, entries))
    (folder / "characters.txt").write_text(str(sum(len(entry.text) for entry in entries) / records))


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


def _measured(name: str, folder: Path) -> EngineRun:
    return EngineProcess("benchmarks.search.measuring").run(name, MODULES[name], folder)


if __name__ == "__main__":
    main(sys.argv[1:])
