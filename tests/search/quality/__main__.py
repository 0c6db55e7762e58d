"""Quality against its floor: ``python -m tests.search.quality [--raise | --lower REASON]``."""

from __future__ import annotations

import argparse
import sys

from benchmarks.search.quality import Corpus, measured

from tabane.engine.query_plans import japanese
from tests.search.quality import floor


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.search.quality", description=__doc__)
    parser.add_argument("--raise", dest="up", action="store_true", help="make what is reached now the floor")
    parser.add_argument("--lower", metavar="REASON", help="the same where it is less, and write down why")
    options = parser.parse_args(arguments)
    steps = floor.read() if floor.FILE.exists() else []
    step = _reached(steps)
    print(f"lexical alone {step.lexical:.3f}, with [ja] {step.words:.3f}")
    try:
        if options.lower is not None:
            floor.write(floor.lowered(steps, step, options.lower))
        elif options.up:
            floor.write(floor.raised(steps, step))
    except ValueError as error:
        parser.error(str(error))


def _reached(steps: list[floor.Step]) -> floor.Step:
    """What is reached now; the old value of what cannot be measured here."""
    corpus = Corpus.read(floor.CORPUS)
    words = steps[-1].words if steps else 0.0
    if japanese() is not None:
        words = floor.floored(measured(corpus, words=True)[0].ndcg)
    return floor.Step(floor.digest(), floor.floored(measured(corpus, words=False)[0].ndcg), words)


if __name__ == "__main__":
    main(sys.argv[1:])
