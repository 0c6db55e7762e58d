"""`tabane check`: the preflight of a configuration, for CI and scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tabane.cli.options import absolute, option, with_json
from tabane.cli.output import Command, Terminal, emit, examples, lang
from tabane.hub.doctor.preflight import check_configuration
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.doctor.preflight import PreflightFinding

FINE, PROBLEMS, WARNINGS, CHANGED = 0, 1, 3, 4
"""Exit statuses beside 2, wrong usage."""


@click.command(
    "check",
    cls=Command,
    help=say(
        "Check settings, servers file, variables, secrets, commands, keys and pinned definitions. No hub is "
        "needed or started, and no server is called without --start. Each finding is a line: file, line, "
        "error or warning. Exit statuses: 0 if there is no error, 1 with errors, 2 after wrong usage, 3 "
        "with warnings if --strict is given, 4 if the only errors are definitions of servers that "
        "changed and that nobody has accepted."
    ),
    epilog=examples(
        "tabane check", "tabane check --servers .mcp.json --strict", "tabane check --start --json"
    ),
)
@option("--start", is_flag=True, help=say("Start each server, and compare its definitions with the pins."))
@option(
    "--servers",
    metavar="FILE",
    callback=absolute,
    help=say("The servers file to check, such as .mcp.json of a repository."),
)
@option("--config", metavar="FILE", callback=absolute, help=say("The settings file to check."))
@option("--strict", is_flag=True, help=say("Fail with warnings, too."))
@option("--github", is_flag=True, help=say("Print findings as annotations of GitHub Actions."))
@with_json
def check(
    terminal: Terminal, start: bool, servers: str | None, config: str | None, strict: bool, github: bool
) -> None:
    named = {"TABANE_SERVERS": servers, "TABANE_CONFIG": config}
    environ = {**os.environ, **{name: path for name, path in named.items() if path is not None}}
    with terminal.working(say("Checking")):
        found = check_configuration(environ, lang(), start=start)
    status = exit_status(found, strict=strict)
    errors = sum(finding.severity == "error" for finding in found)
    warnings = len(found) - errors
    document = {
        "status": status,
        "errors": errors,
        "warnings": warnings,
        "findings": [
            {
                "severity": finding.severity,
                "file": finding.path,
                "line": finding.line,
                "text": finding.text,
                "advice": finding.advice or None,
                "changed_definition": finding.changed,
            }
            for finding in found
        ],
    }
    if not terminal.show_json(document):
        for finding in found:
            emit(annotation(finding) if github else finding_line(finding))
        if found:
            terminal.say(say("Errors: {errors}. Warnings: {warnings}.", errors=errors, warnings=warnings))
        else:
            terminal.say(say("Everything is in order."))
    if status:
        raise click.exceptions.Exit(status)


def exit_status(found: Sequence[PreflightFinding], *, strict: bool) -> int:
    """Return the exit status of a check with these findings."""
    errors = [finding for finding in found if finding.severity == "error"]
    if errors:
        return CHANGED if all(finding.changed for finding in errors) else PROBLEMS
    return WARNINGS if found and strict else FINE


def finding_line(finding: PreflightFinding) -> str:
    """Return a finding as compilers print it, so that editors and CI find its place."""
    place = _shown(finding.path) + (f":{finding.line}" if finding.line else "")
    return f"{place}: {finding.severity}: {_sentence(finding)}"


def annotation(finding: PreflightFinding) -> str:
    """Return a finding as a workflow command of GitHub Actions."""
    line = f",line={finding.line}" if finding.line else ""
    path = _escaped(_shown(finding.path)).replace(":", "%3A").replace(",", "%2C")
    return f"::{finding.severity} file={path}{line}::{_escaped(_sentence(finding))}"


def _sentence(finding: PreflightFinding) -> str:
    text = " ".join(finding.text.split()).rstrip(".。")
    stop = "。" if lang() == "ja" else ". "
    return f"{text}{stop}{finding.advice}" if finding.advice else text


def _shown(path: str) -> str:
    inside = os.path.relpath(path) if os.path.isabs(path) else path
    return path if inside.startswith("..") else inside


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
