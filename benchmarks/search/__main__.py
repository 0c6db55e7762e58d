"""The store beside other engines: ``python -m benchmarks.search [--records 200000] [--write]``.

The engines compared need packages that nothing else here does; ``make bench`` puts them into an environment
of their own. Where one is not there, its column says so. ``--only NAME`` leaves the others out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.performance import publish
from benchmarks.search.engines import MODULES
from benchmarks.search.generator import Asked, Entry, Generator
from benchmarks.search.measuring import SECONDS, store_corpus
from benchmarks.search.page import Measurement, page
from benchmarks.search.sizes import sizes

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "build" / "bench" / "bin" / "python"  # has the packages of the group "bench"
OURS = ("tabane", "tantivy alone", "SQLite FTS5 trigram")  # need no others than the project's own


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


def _measured(name: str, folder: Path) -> Measurement | None:
    """An engine's figures; None where it is not installed."""
    python = sys.executable if name in OURS else str(PEERS)
    probe = [python, "-c", f"import benchmarks.search.{MODULES[name]}"]
    if not Path(python).exists() or subprocess.run(probe, cwd=ROOT, capture_output=True).returncode:
        return None
    print(f"{name}: filling", file=sys.stderr)
    filled = _step(python, name, "fill", folder)
    size = sizes(folder / MODULES[name])
    print(f"{name}: asking", file=sys.stderr)
    return Measurement(filled, _step(python, name, "ask", folder), size)


def _step(python: str, name: str, step: str, folder: Path) -> dict[str, object]:
    command = [python, "-m", "benchmarks.search.measuring", name, step, str(folder)]
    environment = os.environ | {"ANONYMIZED_TELEMETRY": "False"}
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment, check=True)
    figures: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
