"""Tokens of the commands as a skill, beside mode search over MCP: the same task with the same three tools.

Command lines, which the model writes, and their output, which it reads, are counted, and the skill with them.
``--o200k`` counts exactly. ``--write`` puts the table into the performance page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from benchmarks.gateway.client import Json
from benchmarks.gateway.counting import TASK, Sizes, sizes
from benchmarks.gateway.home import GatewayHub, all_kinds
from benchmarks.gateway.tokens import NOTHING, Counter, Tokens, o200k
from benchmarks.report import machine, publish, table


def skill() -> tuple[str, str]:
    """Return the skill's name and description, which each conversation holds, and the whole file."""
    text = files("tabane.cli.skill").joinpath("SKILL.md").read_text(encoding="utf-8")
    _, head, _ = text.split("---\n", 2)
    return head, text


def task_by_commands(folder: Path, count: Counter) -> Tokens:
    """Count the command lines and outputs until three tools have been found, shown and called."""
    home = GatewayHub(folder, all_kinds())
    home.start()
    try:
        total = NOTHING
        for query, name, arguments in TASK:
            total += _command(home, count, "search", query, "--limit", "3")
            total += _command(home, count, "show", name)
            total += _call(home, count, name, arguments)
        return total
    finally:
        home.stop()


def _call(home: GatewayHub, count: Counter, name: str, arguments: Json) -> Tokens:
    """Call as the skill says: ``key=value``, or one JSON object on standard input if a value is nested."""
    if not any(isinstance(value, dict | list) for value in arguments.values()):
        return _command(home, count, "call", name, *(f"{key}={value}" for key, value in arguments.items()))
    text = json.dumps(arguments, ensure_ascii=False)
    line = f"tabane tools call {name} - <<'JSON'\n{text}\nJSON"
    return _counted(count, line, _run(home, "call", name, "-", given=text))


def _command(home: GatewayHub, count: Counter, *words: str) -> Tokens:
    return _counted(count, shlex.join(("tabane", "tools", *words)), _run(home, *words))


def _counted(count: Counter, line: str, output: str) -> Tokens:
    return count({"command": line}) + count(output)


def _run(home: GatewayHub, *words: str, given: str = "") -> str:
    command = [sys.executable, "-m", "tabane", "tools", *words]
    done = subprocess.run(
        command, env=home.environment, input=given, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def rows(found: Sizes, by_commands: Tokens, count: Counter) -> list[tuple[str, str, str]]:
    head, whole = skill()
    listed = found.lists["search"] + found.instructions["search"]
    read = count(whole)

    def row(name: str, search: Tokens, commands: Tokens) -> tuple[str, str, str]:
        return name, f"{search.best:,.0f}", f"{commands.best:,.0f}"

    return [
        row("a conversation that uses no tool", listed, count(head)),
        row("a task with three tools", found.task, count(head) + read + by_commands),
        row("of it, read once with the first tool", NOTHING, read),
        row(
            "of it, what is searched for, described and called",
            Tokens(found.task.estimate - listed.estimate, _exact(found.task, listed)),
            by_commands,
        ),
    ]


def _exact(all_of_it: Tokens, part: Tokens) -> float | None:
    return None if all_of_it.exact is None or part.exact is None else all_of_it.exact - part.exact


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gateway.skill", description=__doc__)
    parser.add_argument(
        "--o200k", type=Path, help="o200k_base.js of js-tiktoken (npm); needs tiktoken (PyPI)"
    )
    parser.add_argument("--write", action="store_true", help="put the table into the performance page")
    options = parser.parse_args(arguments)
    count = Counter(o200k(options.o200k) if options.o200k else None)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(sizes(Path(folder), count))
        by_commands = task_by_commands(Path(folder) / "commands", count)
    named = " --o200k o200k_base.js" if options.o200k else ""
    unit = "o200k_base" if options.o200k else "bytes/4"
    publish(
        "skill",
        (
            "## The commands as a skill",
            machine(f"python -m benchmarks.gateway.skill{named}"),
            table((f"tokens ({unit})", "mode search, over MCP", "skill"), rows(found, by_commands, count)),
        ),
        write=options.write,
    )


if __name__ == "__main__":
    main()
