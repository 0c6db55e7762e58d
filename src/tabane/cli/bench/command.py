"""`tabane bench`: measurements of disclosure and of the guard, on sets of the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tabane.cli.bench.guard import run_guard
from tabane.cli.bench.measurement import run_disclosure
from tabane.cli.options import combined, option, with_json
from tabane.cli.output import Group, Terminal, examples
from tabane.guard.flows.flow_rule import FlowPolicy
from tabane.messages import say

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(
    "bench",
    cls=Group,
    help=say("Measure on this machine how well tools are found and how well attacks are detected."),
    epilog=examples("tabane bench disclosure", "tabane bench guard --set attacks.jsonl"),
)
def bench() -> None:
    pass


@bench.command(
    "disclosure",
    help=say(
        "Measure tool disclosure: recall of search on your own sets (--set), and tasks on real servers. A "
        "scripted agent without a model measures “right tool found, arguments valid”. With --endpoint a real "
        "model does the tasks, and only then task success is reported. A hub runs in a temporary home, which "
        "is deleted at the end. The network is used only with --endpoint."
    ),
    epilog=examples(
        "tabane bench disclosure",
        "tabane bench disclosure --set tools.json --model auto",
        "tabane bench disclosure --tasks my-tasks --only en-",
        "tabane bench disclosure --endpoint http://localhost:11434/v1 --model-name qwen3 --record run.jsonl",
        "tabane bench disclosure --replay run.jsonl --json",
    ),
)
@combined((
    option("--set", "sets", metavar="FILE", multiple=True, type=_FILE,
           help=say("Measure recall on this set of tools and queries (JSON). Can be given several times.")),
    option("--tasks", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path),
           help=say("A folder with tasks of your own. Default: the 60 tasks of Tabane.")),
    option("--only", metavar="ID", multiple=True, help=say("Run only tasks whose id begins with this.")),
    option("--model", type=click.Choice(["words", "auto"]), default="auto", show_default=True,
           help=say(
               "Search by words only, or also by meaning if a model is installed. None is downloaded.")),
    option("--mode", type=click.Choice(["search", "light", "full"]), default="search", show_default=True,
           help=say("How tools are shown to the model of --endpoint or --replay.")),
    option("--endpoint", metavar="URL",
           help=say("Let a real model do the tasks: an OpenAI-compatible endpoint, up to /v1.")),
    option("--model-name", metavar="NAME", help=say("Name of the model at the endpoint.")),
    option("--key-variable", metavar="VARIABLE",
           help=say("Environment variable that contains the key of the endpoint.")),
    option("--timeout", metavar="SECONDS", type=click.FloatRange(1, 3600), default=120.0, show_default=True,
           help=say("Time limit for one answer of the model.")),
    option("--turns", metavar="COUNT", type=click.IntRange(1, 200), default=20, show_default=True,
           help=say("Answers of the model after which a task is ended.")),
    option("--token-limit", metavar="COUNT", type=click.IntRange(1_000, 10_000_000), default=100_000,
           show_default=True, help=say("Tokens after which a task is ended, counted over all turns.")),
    option("--record", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
           help=say("Write the transcript of the model to this file, without keys.")),
    option("--replay", metavar="FILE", type=_FILE,
           help=say(
               "Use the answers in a transcript instead of a model, and report where the hub's answers "
               "differ. The exit status is 1 if they do.")),
    option("--o200k", metavar="FILE", type=_FILE,
           help=say(
               "Ranks of the tokenizer o200k_base, from js-tiktoken or tiktoken. Without them, and without "
               "a cache of tiktoken, tokens are estimated as bytes/4.")),
))  # fmt: skip
@with_json
def disclosure(terminal: Terminal, /, sets: Sequence[Path], **given: Any) -> None:
    run_disclosure(terminal, sets, given)


@bench.command(
    "guard",
    help=say(
        "Measure the guard on sets of your own: which poisoned definitions the scanner finds, which attacks "
        "in traces of calls the flow rule stops, and how often both disturb what is honest. Nothing is "
        "started, and the network is not used. The format is in docs/bench.md."
    ),
    epilog=examples(
        "tabane bench guard --set attacks.jsonl",
        "tabane bench guard --set attacks.jsonl --set honest.jsonl --show-missed 10",
        "tabane bench guard --set traces.jsonl --policy strict --json",
    ),
)
@combined((
    option("--set", "sets", metavar="FILE", multiple=True, required=True, type=_FILE,
           help=say("Measure on this set (JSON or JSON Lines). Can be given several times.")),
    option("--policy", type=click.Choice(["ask", "strict"]), default="ask", show_default=True,
           help=say("The flow policy under which traces run, as in the setting flow_policy.")),
    option("--show-missed", metavar="COUNT", type=click.IntRange(0, 10_000), default=0,
           help=say("List up to COUNT missed attacks and false alarms of each kind.")),
))  # fmt: skip
@with_json
def guard(terminal: Terminal, /, sets: Sequence[Path], policy: FlowPolicy, show_missed: int) -> None:
    run_guard(terminal, sets, policy, show_missed)
