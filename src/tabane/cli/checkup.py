"""The check-up of `tabane doctor`: its sections, printed one by one or collected for JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import click

from tabane.cli.drawing import can_print, table_lines
from tabane.cli.hub_process import approach
from tabane.cli.output import FAILED, Terminal, emit, lang, text
from tabane.cli.terminal_text import StyledText
from tabane.errors import HubError
from tabane.hub.doctor import checkup
from tabane.hub.doctor.checkup import DoctorRepairs
from tabane.hub.doctor.installation import DoctorFinding, Installation, examine
from tabane.hub.doctor.troubles import PAGE
from tabane.hub.local import lock
from tabane.hub.local.client import connect
from tabane.hub.local.endpoint import Endpoint, home_of
from tabane.hub.servers.recorded_environment import record_environment
from tabane.messages import say

_MARKS = {"ok": "✓", "note": "·", "warning": "!", "fault": "✗"}
_PLAIN_MARKS = {"ok": "+", "note": "-", "warning": "!", "fault": "x"}
_COLORS = {"ok": "green", "note": "cyan", "warning": "yellow", "fault": "red"}


def run_checkup(terminal: Terminal, *, quick: bool, online: bool, fix: bool) -> None:
    """Check this installation, and print what is wrong and how to fix it. A fault exits with 1."""
    repairs = checkup.DoctorRepairs()
    with terminal.working(say("Checking")):
        if fix:
            patient, repairs = checkup.repair(_patient)
        else:
            patient = _patient()
        if patient.settings.home.is_dir():
            # if it cannot be written, the check of the home reports the reason
            with suppress(OSError):
                record_environment(patient.settings.home, os.environ)
    report = CheckupPrinter(terminal, repairs)
    for section in checkup.SECTIONS:
        report.take(section.name, section.title, checkup.findings(section, patient))
    if not quick or online:
        with terminal.working(say("Looking for the network")):
            patient = checkup.with_network(patient, sites=online)
        report.take(checkup.NETWORK.name, checkup.NETWORK.title, checkup.findings(checkup.NETWORK, patient))
    if not quick:
        with terminal.working(say("Asking the authorization server")):
            found = checkup.findings(checkup.AUTHORIZATION, patient)
        report.take(checkup.AUTHORIZATION.name, checkup.AUTHORIZATION.title, found)
        with terminal.working(say("Starting the servers")):
            found = checkup.findings(checkup.SERVERS, patient)
            if fix:
                more = checkup.repaired(found)
                report.also(more)
                if more.done:
                    found = checkup.findings(checkup.SERVERS, patient)
        report.take(checkup.SERVERS.name, checkup.SERVERS.title, found)
    if online:
        with terminal.working(say("Reading a page of each site")):
            found = checkup.findings(checkup.SITES, patient)
        report.take(checkup.SITES.name, checkup.SITES.title, found)
    report.close()
    if report.count("fault"):
        raise click.exceptions.Exit(FAILED)


class CheckupPrinter:
    """Prints findings section by section, or collects them for one JSON document."""

    def __init__(self, terminal: Terminal, repairs: DoctorRepairs) -> None:
        self._terminal, self._repairs = terminal, repairs
        self._found: list[tuple[str, DoctorFinding]] = []

    def also(self, more: DoctorRepairs) -> None:
        """Add repairs that were made after others."""
        self._repairs = type(more)(self._repairs.done + more.done, self._repairs.failed + more.failed)

    def count(self, level: str) -> int:
        """Return the number of findings of a level: ok, note, warning or fault."""
        return sum(finding.level == level for _, finding in self._found)

    def take(self, name: str, title: Any, findings: list[DoctorFinding]) -> None:
        """Add a section. A section without findings is not printed."""
        self._found += [(name, finding) for finding in findings]
        if findings and not self._terminal.json:
            self._terminal.say(StyledText(text(title), "bold"))
            _print(findings)
            self._terminal.say("")

    def close(self) -> None:
        """Print the JSON document with ``--json``, else the repairs and the counts."""
        document = {
            "status": "fault" if self.count("fault") else "ok",
            "findings": [
                {
                    "check": name,
                    "level": finding.level,
                    "title": finding.title.render(lang()),
                    "mend": finding.mend.render(lang()) if finding.mend else None,
                    "fixable": finding.fix is not None,
                    "help": finding.help,
                }
                for name, finding in self._found
            ],
            "mended": [finding.title.render(lang()) for finding in self._repairs.done],
            "not_mended": [
                {"title": finding.title.render(lang()), "reason": reason}
                for finding, reason in self._repairs.failed
            ],
        }
        if self._terminal.show_json(document):
            return
        for finding in self._repairs.done:
            self._terminal.say(say("Fixed: {title}", title=finding.title))
        for finding, reason in self._repairs.failed:
            self._terminal.note(
                say("Could not be fixed: {title} ({reason})", title=finding.title, reason=reason)
            )
        faults, warnings = self.count("fault"), self.count("warning")
        if faults or warnings:
            self._terminal.say(
                say("Faults: {faults}. Warnings: {warnings}.", faults=faults, warnings=warnings)
            )
        else:
            self._terminal.say(say("Everything is in order."))
        fixable = sum(finding.fix is not None for _, finding in self._found)
        if fixable and not self._repairs.failed:
            self._terminal.say(say("To fix {count} of these, run: tabane doctor --fix", count=fixable))
        self._print_help()

    def _print_help(self) -> None:
        """Name the sections of the manual about what has to be done, in one line."""
        found = (finding.help for _, finding in self._found if finding.level in ("fault", "warning"))
        sections = [section for section in dict.fromkeys(found) if section]
        if len(sections) == 1:
            self._terminal.say(say("Help: tabane manual {section}", section=sections[0]))
        elif sections:
            names = ", ".join(section.partition("#")[2] for section in sections)
            self._terminal.say(
                say("Help: tabane manual {page}#SECTION, with: {names}", page=PAGE, names=names)
            )


def _patient() -> Installation:
    # the user's own hub even if TABANE_URL names another: its files are checked
    endpoint = Endpoint(home_of(os.environ), os.environ)
    if not lock.held(endpoint.lock):
        return examine(os.environ, None, None)
    try:
        with connect(approach(endpoint, None, anyhow=True), lang()) as hub:
            return examine(os.environ, hub, None)
    except HubError as error:
        return examine(os.environ, None, error)


def _print(findings: Iterable[DoctorFinding]) -> None:
    """Print each finding and its fix; on a terminal in color and wrapped to its width."""
    marks = _MARKS if can_print("".join(_MARKS.values()) + "→") else _PLAIN_MARKS
    arrow = "→" if marks is _MARKS else "->"
    if not sys.stdout.isatty():
        for finding in findings:
            emit(f"{marks[finding.level]} {_indented(text(finding.title))}")
            if finding.mend:
                emit(f"  {arrow} {_indented(text(finding.mend))}")
        return
    rows = []
    for finding in findings:
        rows.append(
            (StyledText(marks[finding.level], _COLORS[finding.level]), StyledText(text(finding.title)))
        )
        if finding.mend:
            rows.append((StyledText(""), StyledText(f"{arrow} {text(finding.mend)}", "dim")))
    for line in table_lines(rows, gap=1, whole=(0,)):
        emit(*line)


def _indented(lines: str) -> str:
    return lines.replace("\n", "\n  ")
