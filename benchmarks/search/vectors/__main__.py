"""Search by vectors: ``python -m benchmarks.search.vectors [--write]``.

Three corpora: 200,000 × 768 in three spaces, clustered; real texts with MiniLM's vectors; a million × 384,
clustered. ``--leave-out million`` and so on for less; ``--only NAME`` for some of the engines. Engines that
nothing else here needs are installed by ``make bench`` into an environment of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.performance import publish
from benchmarks.search.sizes import sizes
from benchmarks.search.vectors.corpus import Corpus, Matrix, clustered, entries_of, write
from benchmarks.search.vectors.engines import MODULES, MOST_OF_A_MILLION, MOST_RECORDS, NO_TEXTS
from benchmarks.search.vectors.page import Measurement, Part, page
from benchmarks.search.vectors.texts import embedded

ROOT = Path(__file__).parents[3]
PEERS = ROOT / "build" / "bench" / "bin" / "python"  # has the packages that are measured beside ours
OURS = ("tabane", NO_TEXTS, "numpy, float32")  # need no others than the project's own


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.vectors")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--million", type=int, default=1_000_000, help="how many those are")
    parser.add_argument("--only", action="append", choices=list(MODULES))
    parser.add_argument(
        "--leave-out", action="append", choices=["clustered", "minilm", "million"], default=[]
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    corpora: dict[str, tuple[int, Callable[[Path], Corpus | None]]] = {
        "clustered": (options.records, lambda folder: _clustered(folder, options.records, 768, 3)),
        "minilm": (0, _real),
        "million": (options.million, lambda folder: _clustered(folder, options.million, 384, 1)),
    }
    parts = []
    for name, (records, making) in corpora.items():
        if name not in options.leave_out:
            engines = [
                engine
                for engine in options.only or MODULES
                if records <= MOST_RECORDS.get(engine, records)
                and (name != "million" or engine in MOST_OF_A_MILLION)
            ]
            parts += _part(name, making, engines)
    publish("vectors", page(parts, time.monotonic() - began), write=options.write)


def _part(name: str, making: Callable[[Path], Corpus | None], engines: Sequence[str]) -> Iterator[Part]:
    """What was measured over one corpus; nothing where it cannot be made."""
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as temporary:
        folder = Path(temporary) / "corpus"
        print(f"{name}: making the corpus", file=sys.stderr)
        corpus = making(folder)
        if corpus is None:
            return
        bare = _step(NO_TEXTS, "fill", folder) if name == "clustered" else None
        measured = {engine: _measured(engine, folder) for engine in engines}
        yield Part(name, len(corpus), corpus.dimension, len(corpus.spaces), measured, bare)


def _clustered(folder: Path, records: int, dimension: int, spaces: int) -> Corpus:
    made: list[Matrix] = [clustered(records, dimension, seed) for seed in range(spaces)]
    return write(folder, made, *entries_of(records))


def _real(folder: Path) -> Corpus | None:
    """Real texts and vectors; the words that are asked for stand in the generator's texts beside them."""
    found = embedded()
    if found is None:
        print("minilm: not installed", file=sys.stderr)
        return None
    texts, vectors = found
    return write(folder, [vectors], *entries_of(len(texts)))


def _measured(name: str, folder: Path) -> Measurement | None:
    """An engine's figures; None where it is not installed."""
    python = _python(name)
    probe = [python, "-c", f"import benchmarks.search.vectors.{MODULES[name]}"]
    if not Path(python).exists() or subprocess.run(probe, cwd=ROOT, capture_output=True).returncode:
        return None
    filled = _step(name, "fill", folder)
    return Measurement(filled, _step(name, "ask", folder), sizes(folder / MODULES[name]))


def _python(name: str) -> str:
    return sys.executable if name in OURS else str(PEERS)


def _step(name: str, step: str, folder: Path) -> dict[str, object]:
    print(f"{name}: {step}", file=sys.stderr)
    command = [_python(name), "-m", "benchmarks.search.vectors.measuring", name, step, str(folder)]
    environment = os.environ | {"ANONYMIZED_TELEMETRY": "False"}
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment, check=True)
    figures: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
