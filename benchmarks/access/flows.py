"""The flow policy: attacks that it stops, tasks that it asks about, and its cost.

    python -m benchmarks.access.flows [--write]

The tasks and attacks are those of tests/guard/flows/quality. Their tools have no annotations, so all labels
are guessed from names and descriptions. The sessions that read pages are those of tests/guard/flows/reading.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
from benchmarks.report import machine, publish, table
from tests.guard.flows.quality.replay import Replayed, read_suites, replay
from tests.guard.flows.reading.sessions import read_sessions, stopped

from tabane.catalog.gateway import Gateway
from tabane.guard.flows.flow_rule import FlowRule, trail_key
from tabane.guard.flows.tool_labels import DescribedTool, inferred_labels
from tabane.guard.flows.trails import Trails
from tabane.hub.people.flows.flow_files import TrailFile
from tabane.hub.people.flows.labels import TargetLabels
from tabane.operations import Caller, CallTarget, Face

COMMAND = "python -m benchmarks.access.flows"
CALLS = 1_000
FILES = {"suites.toml": "for development", "held_out.toml": "second set"}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    parser.add_argument("--batches", type=int, default=200, help="batches of 1,000 calls (200)")
    options = parser.parse_args(arguments)
    quality = [_row(name, replay(read_suites(file))) for file, name in FILES.items()]
    publish(
        "flows",
        [
            "## Flow policy",
            machine(COMMAND),
            table(
                [
                    "replayed",
                    "attack pairs",
                    "stopped",
                    "tasks",
                    "asked",
                    "outward tasks",
                    "asked",
                    "questions a task",
                ],
                quality,
            ),
            "A pair is a task up to the first result that a stranger could have written, and an attack that "
            "follows. It is stopped if a person is asked about any of its calls. An outward task sends, pays "
            "or deletes after it has read such a result: the policy is meant to ask about it, because its "
            "labels are those of an attack. Both sets were written by the author of the policy, so expect "
            "less of tools that others describe.",
            table(["sessions that read", "sessions", "stopped", "steps", "steps that wait"], _reading()),
            "An ordinary session searches notes, posts or mail, reads pages, follows links and saves notes. "
            "The other ones try to carry private data out by addresses, and each has to be stopped. With "
            "0.13.0, 116 of the 120 ordinary sessions were stopped, at 283 of their steps, each after up to "
            "45 s.",
            table(["one call, on the event loop", "fastest batch", "median batch"], _costs(options.batches)),
        ],
        write=options.write,
    )


def _row(name: str, found: Replayed) -> list[str]:
    tasks = found.benign + found.outward
    return [
        name, f"{found.pairs}", f"{found.stopped:.1%}",
        f"{found.benign}", f"{len(found.asked) / found.benign:.1%}",
        f"{found.outward}", f"{found.outward_asked / found.outward:.0%}", f"{found.questions / tasks:.2f}",
    ]  # fmt: skip


def _reading() -> list[list[str]]:
    rows = []
    for file, name in (("ordinary.toml", "ordinary"), ("carrying.toml", "carrying data out")):
        sessions = read_sessions(file)
        held = [numbers for _, numbers in stopped(sessions)]
        steps = sum(len(session.steps) for session in sessions)
        rows.append([name, f"{len(sessions)}", f"{len(held)}", f"{steps}", f"{sum(map(len, held))}"])
    return rows


def _costs(batches: int) -> list[list[str]]:
    with tempfile.TemporaryDirectory(prefix="tabane-benchmark-") as folder:
        file = TrailFile(Path(folder))
        tools = SimpleNamespace(get=lambda name: None, of_server=lambda server: ())
        labels = TargetLabels(cast(Gateway, SimpleNamespace(servers={}, catalog=tools)))
        trails = Trails(time.time)
        rule = FlowRule(
            "ask", trails, labels, lambda holder: frozenset(), lambda trail: file.add(trail, trails)
        )
        caller = Caller("local", Face.MCP, "1", client="benchmark", cwd="/home/ada")
        plain, reading, sending = (
            CallTarget(f"mail__{name}", "mail") for name in ("frobnicate", "read_inbox", "send_email")
        )
        page = CallTarget("read_url_content", source="pages")
        made_up = b'{"url":"https://example.org/guide/sourdough"}'
        ways: list[tuple[str, Callable[[], object]]] = [
            ("a tool without labels", _call(rule, caller, plain)),
            ("a tool that reads", _call(rule, caller, reading)),
            ("a call with arguments and 1 KiB of result", _ordinary(rule, caller, plain, reading)),
            ("the verdict on a call that is asked about", lambda: rule.verdict(caller, sending, TO)),
            ("the verdict on a recipient after 128 KiB of mail", _compared(rule, sending)),
            ("a result of 16 KiB with 40 links", lambda: rule.answered(caller, reading, b"{}", RESULT)),
            ("the verdict on a made-up address", lambda: rule.view(trail_key(caller), page, made_up)),
            ("the labels of a tool, once", lambda: inferred_labels(SENDING)),
        ]
        slow = {"the verdict on a recipient after 128 KiB of mail": 1}
        rows = [
            [name, *_times(call, batches if index < 3 else batches // 20, slow.get(name, CALLS))]
            for index, (name, call) in enumerate(ways)
        ]
        file.close()
        return rows


QUERY = b'{"query":"budget of the third quarter","limit":10}'
ANSWER = b'{"content":[{"type":"text","text":"' + b"word " * 200 + b'"}]}'
TO = b'{"to":["ann@example.org"],"body":"The figures are attached."}'
MAILS = msgspec.json.encode(
    {
        "content": [],
        "structuredContent": {
            "result": [
                {"id": f"{n}", "from": f"p{n}@x{n}.example", "body": "See the budget of May. " * 26}
                for n in range(190)
            ]
        },
    }
)
RESULT = b"".join(b"See https://s%d.example/page/%d. %s" % (n, n, b"word " * 70) for n in range(40))
SENDING = DescribedTool("send_email", "", "Sends an email with this text to people.", ("to", "body"))


def _call(rule: FlowRule, caller: Caller, target: CallTarget) -> Callable[[], None]:
    def call() -> None:
        rule.verdict(caller, target, b"{}")
        rule.answered(caller, target)

    return call


def _ordinary(rule: FlowRule, caller: Caller, plain: CallTarget, reading: CallTarget) -> Callable[[], None]:
    """Calls of two tools by turns: the second call of the same tool within a second costs less."""
    turns = itertools.cycle((plain, reading))

    def call() -> None:
        target = next(turns)
        rule.verdict(caller, target, QUERY)
        rule.answered(caller, target, QUERY, ANSWER)

    return call


def _compared(rule: FlowRule, sending: CallTarget) -> Callable[[], object]:
    """The first verdict after new mail: later ones compare with what is prepared."""
    inbox = CallTarget("mail__list_messages", "mail")
    count = itertools.count()

    def call() -> object:
        caller = Caller("local", Face.MCP, "1", client=f"reader {next(count)}", cwd="/home/ada")
        rule.answered(caller, inbox, b"{}", MAILS)
        return rule.verdict(caller, sending, TO)

    return call


def _times(call: Callable[[], object], batches: int, calls: int = CALLS) -> list[str]:
    found = []
    for _ in range(batches):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - began) / calls * 1e6)
    found.sort()
    return [f"{found[0]:.2f} µs", f"{found[len(found) // 2]:.2f} µs"]


if __name__ == "__main__":
    main(sys.argv[1:])
