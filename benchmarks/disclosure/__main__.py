"""Measure disclosure as `tabane bench disclosure` does; ``--write`` puts it into the performance page.

The servers of the tasks must be on PATH, such as those in build/node/bin.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.disclosure.page import DisclosureRun, page
from benchmarks.report import publish

from tabane.cli.bench.disclosure import TaskOptions, TaskRun, recall_of
from tabane.cli.bench.temporary_hub import BenchModel
from tabane.cli.bench.tokens import token_counter
from tabane.messages import Message

MODELS: tuple[BenchModel, ...] = ("words", "auto")


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    count = token_counter(options.o200k)
    runs = [
        DisclosureRun(
            model,
            recall_of(options.sets, model, count, _say),
            TaskRun(TaskOptions(), model, count, _say).scripted(),
        )
        for model in options.models
    ]
    publish("disclosure", page(runs, count.unit, _command(options)), write=options.write)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disclosure", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument(
        "--set", dest="sets", type=Path, action="append", default=[], metavar="FILE", help="a set for recall"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="words, auto (both)")
    parser.add_argument("--o200k", type=Path, metavar="FILE", help="ranks of the tokenizer o200k_base")
    return parser.parse_args(arguments)


def _command(options: argparse.Namespace) -> str:
    # The places of the files say nothing to others.
    given = [part for file in options.sets for part in ("--set", file.name)]
    given += ["--o200k", options.o200k.name] if options.o200k else []
    return shlex.join(["python", "-m", "benchmarks.disclosure", *given])


def _say(what: Message) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
