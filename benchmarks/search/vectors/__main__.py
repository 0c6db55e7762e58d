"""Search by vectors: ``python -m benchmarks.search.vectors [--corpus NAME] [--write]``.

Three corpora: ``clustered``, 200,000 × 768 in three spaces; ``minilm``, real texts with MiniLM's vectors;
and ``million``, a million × 384, clustered, with a section of its own. Without ``--corpus`` it is the first
two; ``--only NAME`` chooses engines.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import benchmarks.search.generator
import benchmarks.search.vectors.corpus
import benchmarks.search.vectors.texts
from benchmarks.made_data import linked, made_data
from benchmarks.report import publish
from benchmarks.search.engine_runs import EngineProcess
from benchmarks.search.vectors.corpus import Corpus, clustered, entries_of, write
from benchmarks.search.vectors.engines import MODULES, NO_TEXTS
from benchmarks.search.vectors.page import Part, page
from benchmarks.search.vectors.texts import embedded

MAKERS = tuple(
    Path(str(module.__file__))
    for module in (
        benchmarks.search.generator,
        benchmarks.search.vectors.corpus,
        benchmarks.search.vectors.texts,
    )
)
MILLION = "million"
_PROCESS = EngineProcess("benchmarks.search.vectors.measuring")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.vectors")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--million", type=int, default=1_000_000, help="how many those are")
    parser.add_argument("--only", action="append", choices=list(MODULES))
    parser.add_argument("--corpus", action="append", choices=["clustered", "minilm", MILLION])
    parser.add_argument("--prepare", action="store_true", help="make the corpora, and measure nothing")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    corpora: dict[str, tuple[int, Callable[[Path], object]]] = {
        "clustered": (options.records, lambda folder: _clustered(folder, options.records, 768, 3)),
        "minilm": (0, _real),
        MILLION: (options.million, lambda folder: _clustered(folder, options.million, 384, 1)),
    }
    names = options.corpus or ["clustered", "minilm"]
    made = {name: made_data(f"{name}-{corpora[name][0]}", MAKERS, corpora[name][1]) for name in names}
    if options.prepare:
        return
    parts = [_part(name, folder, options.only) for name, folder in made.items()]
    section, title = (
        (MILLION, "Search by vectors, a million") if names == [MILLION] else ("vectors", "Search by vectors")
    )
    given = [word for word in arguments if word != "--write"]
    command = shlex.join(["python", "-m", "benchmarks.search.vectors", *given])
    publish(section, page(parts, title, command, time.monotonic() - began), write=options.write)


def _part(name: str, made: Path, only: Sequence[str] | None) -> Part:
    """Measure the engines over one corpus."""
    with tempfile.TemporaryDirectory(prefix="tabane-bench-") as temporary:
        folder = linked(made, Path(temporary) / "corpus")
        corpus = Corpus.open(folder)
        bare = None
        if name == "clustered" and not only:
            bare = _PROCESS.step(NO_TEXTS, "fill", folder)
        runs = {engine: _PROCESS.run(engine, MODULES[engine], folder) for engine in only or MODULES}
        return Part(name, len(corpus), corpus.dimension, len(corpus.spaces), runs, bare)


def _clustered(folder: Path, records: int, dimension: int, spaces: int) -> None:
    write(folder, [clustered(records, dimension, seed) for seed in range(spaces)], *entries_of(records))


def _real(folder: Path) -> None:
    """Real texts and vectors; the words that are asked for stand in the generator's texts beside them."""
    found = embedded()
    if found is None:
        raise SystemExit("minilm: the package of the model is not installed. Run: make env")
    texts, vectors = found
    write(folder, [vectors], *entries_of(len(texts)))


if __name__ == "__main__":
    main(sys.argv[1:])
