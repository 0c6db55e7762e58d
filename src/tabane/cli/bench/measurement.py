"""The run of `tabane bench disclosure`, and its report."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tabane.cli.bench.disclosure import (
    ModelOptions,
    RecallFigures,
    TaskOptions,
    TaskReport,
    TaskRun,
    recall_of,
    summary,
)
from tabane.cli.bench.model_agent import ChatService, ConversationLimits
from tabane.cli.bench.scripted_agent import model_sums, scripted_sums
from tabane.cli.bench.task_file import BUILT_IN
from tabane.cli.bench.temporary_hub import interruptible
from tabane.cli.bench.tokens import token_counter
from tabane.cli.output import FAILED, Terminal
from tabane.errors import CallerError
from tabane.messages import Message, say


def run_disclosure(terminal: Terminal, sets: Sequence[Path], given: dict[str, Any]) -> None:
    """Measure disclosure as the options say, and print the figures. The exit status is 1 if a task fails."""
    model = _model(given)
    count = token_counter(given["o200k"])
    figures: Sequence[RecallFigures] = ()
    report: TaskReport | None = None
    with interruptible():
        if sets:
            figures = recall_of(sets, given["model"], count, terminal.note)
        if model is not None or given["tasks"] or given["only"] or not sets:
            limits = ConversationLimits(given["turns"], given["token_limit"])
            tasks = TaskOptions(given["tasks"] or BUILT_IN, given["only"], given["mode"], limits)
            run = TaskRun(tasks, given["model"], count, terminal.note)
            report = run.scripted() if model is None else run.modelled(model)
    setting = {"model": given["model"], "tokens": count.unit}
    if not terminal.show_json(summary(figures, report, setting)):
        if figures:
            cuts = ("@1", "@5", "@10")
            headers = (say("set"), say("tools"), say("queries"), *cuts, say("tokens per search"), "p50")
            rows = (
                (
                    *(each.name, each.tools, each.queries),
                    *(f"{each.recall[cut]:.3f}" for cut in (1, 5, 10)),
                    *(f"{each.tokens:.0f}", f"{each.ms:.1f} ms"),
                )
                for each in figures
            )
            terminal.table(headers, rows)
        if report is not None and report.scripted:
            _print_scripted(terminal, report)
        if report is not None and report.modelled:
            _print_modelled(terminal, report)
        if report is not None:
            _print_remarks(terminal, report)
        terminal.note(say("Tokens: {unit}.", unit=count.unit))
    if report is not None and report.error is not None:
        terminal.warn(report.error)
    if report is not None and (report.error or report.differences or report.unsolved or not report.ran):
        raise click.exceptions.Exit(FAILED)


def _model(given: dict[str, Any]) -> ModelOptions | None:
    """Return the real model of the options, if there is one. Raises CallerError if they contradict."""
    endpoint, name, variable = given["endpoint"], given["model_name"], given["key_variable"]
    if given["replay"] is not None:
        if endpoint or given["record"]:
            raise CallerError(say("--replay needs no --endpoint and no --record."))
        return ModelOptions(replay=given["replay"])
    if not endpoint:
        if name or variable or given["record"]:
            raise CallerError(say("--model-name, --key-variable and --record need --endpoint."))
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise CallerError(say("--endpoint must start with http:// or https://."))
    if not name:
        raise CallerError(say("--endpoint needs --model-name."))
    key = os.environ.get(variable) if variable else None
    if variable and not key:
        raise CallerError(say("The environment variable {name} is not set.", name=variable))
    service = ChatService(endpoint, name, key, timeout=given["timeout"])
    return ModelOptions(service=service, record=given["record"])


def _print_scripted(terminal: Terminal, report: TaskReport) -> None:
    _title(terminal, say("Scripted agent: right tool found, arguments valid"))
    headers = (
        say("language"),
        say("tasks"),
        say("with several tools"),
        say("right tool first"),
        say("right tool in the answer"),
    )
    rows = (
        (
            _language(name),
            _share(sums, "passed", "tasks"),
            _share(sums, "passed_with_several_tools", "tasks_with_several_tools"),
            _share(sums, "right_tool_first", "steps"),
            _share(sums, "right_tool_in_answer", "steps"),
        )
        for name, sums in scripted_sums(report.scripted).items()
    )
    terminal.table(headers, rows)
    _title(terminal, say("Tokens of a task that is done with its expected tools"))
    headers = (say("mode"), say("list"), say("task"), say("with one tool"), say("with several tools"))
    keys = ("list", "task", "task_with_one_tool", "task_with_several_tools")
    costs = ((mode, *(f"{sums[key]:,}" for key in keys)) for mode, sums in report.costs.items())
    terminal.table(headers, costs)


def _print_modelled(terminal: Terminal, report: TaskReport) -> None:
    _title(terminal, say("{model}: task success", model=report.model))
    headers = (say("language"), say("tasks"), say("with several tools"), say("turns"), say("tokens"))
    rows = (
        (
            _language(name),
            _share(sums, "task_success", "tasks"),
            _share(sums, "task_success_with_several_tools", "tasks_with_several_tools"),
            f"{sums['turns']:.1f}",
            f"{sums['tokens']:,.0f}",
        )
        for name, sums in model_sums(report.modelled).items()
    )
    terminal.table(headers, rows)


def _share(sums: Mapping[str, float], part: str, whole: str) -> str:
    return f"{sums[part]:.0f}/{sums[whole]:.0f}"


def _print_remarks(terminal: Terminal, report: TaskReport) -> None:
    for id, problem in report.unsolved.items():
        terminal.note(say("{id} cannot be done with its expected tools: {problem}", id=id, problem=problem))
    for each in report.differences or ():
        terminal.note(
            say(
                "{task}, turn {turn}, {what} differs: {before} → {now}",
                task=each.task or "-",
                turn=each.turn,
                what=each.what,
                before=each.before,
                now=each.now,
            )
        )
    if report.differences == []:
        terminal.note(say("All answers of the hub are as in the transcript."))
    if report.skipped:
        terminal.note(
            say(
                "Skipped {count} of {total} {total:task|tasks}, because this is missing: {missing}",
                count=len(report.skipped),
                total=report.total,
                missing=", ".join(sorted(set(report.skipped.values()))),
            )
        )


def _title(terminal: Terminal, title: Message) -> None:
    if sys.stdout.isatty():
        terminal.say("")
    terminal.say(title)


def _language(name: str) -> Message:
    return {"en": say("English"), "ja": say("Japanese")}.get(name, say("all"))
