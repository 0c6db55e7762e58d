"""Search by vectors: ``python -m benchmarks.search.vectors [--write]``.

Three corpora: 200,000 × 768 in three spaces, clustered; real texts with MiniLM's vectors; a million × 384,
clustered. ``--leave-out million`` and so on for less; ``--only NAME`` for some of the engines. Engines that
nothing else here needs are installed by ``make bench`` into an environment of their own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.report import publish
from benchmarks.search.engine_runs import EngineProcess
from benchmarks.search.vectors.corpus import Corpus, Matrix, clustered, entries_of, write
from benchmarks.search.vectors.engines import MODULES, MOST_OF_A_MILLION, MOST_RECORDS, NO_TEXTS
from benchmarks.search.vectors.page import Part, page
from benchmarks.search.vectors.texts import embedded

OWN = ("tabane", NO_TEXTS, "numpy, float32")  # need no others than the project's own


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
        bare = _process(NO_TEXTS).step(NO_TEXTS, "fill", folder) if name == "clustered" else None
        runs = {
            engine: _process(engine).run(engine, f"benchmarks.search.vectors.{MODULES[engine]}", folder)
            for engine in engines
        }
        yield Part(name, len(corpus), corpus.dimension, len(corpus.spaces), runs, bare)


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


def _process(name: str) -> EngineProcess:
    return EngineProcess("benchmarks.search.vectors.measuring", name in OWN)


if __name__ == "__main__":
    main(sys.argv[1:])
