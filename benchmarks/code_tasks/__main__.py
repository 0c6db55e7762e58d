"""Tasks of several calls, one by one and with scripts: python -m benchmarks.code_tasks [--write]

The servers of the tasks must be installed: those of npm on PATH, such as in build/node/bin; uvx runs that of
SQLite. --o200k counts tokens as benchmarks.disclosure does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.code_tasks.measuring import CodeTaskRunner
from benchmarks.code_tasks.page import page
from benchmarks.code_tasks.tasks import TASKS
from benchmarks.code_tasks.world_hub import SERVERS, world_hub
from benchmarks.report import publish

from tabane.cli.bench.tokens import token_counter

COMMAND = "python -m benchmarks.code_tasks"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--o200k", type=Path, metavar="FILE", help="ranks of the tokenizer o200k_base")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="only these tasks")
    options = parser.parse_args(arguments)
    count = token_counter(options.o200k)
    wanted = [task for task in TASKS if not options.only or task.id in options.only]
    runs = []
    with world_hub(list(SERVERS)) as hub:
        if hub.missing:
            print("missing:", hub.missing, file=sys.stderr)
            return 1
        runner = CodeTaskRunner(hub, count)
        for task in wanted:
            runs.append(runner.run(task))
            if runs[-1].failures:
                print(task.id, runs[-1].failures, file=sys.stderr, flush=True)
    command = f"{COMMAND} --o200k {options.o200k.name}" if options.o200k else COMMAND
    publish("codetasks", page(runs, count.unit, command), write=options.write)
    return 1 if any(run.failures for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
