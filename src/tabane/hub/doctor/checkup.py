"""A check-up: all checks in the order that they are told in, and the mending of what is safe to mend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tabane.errors import TabaneError
from tabane.hub.doctor import assistants, configuration, documents, files, models, process, starts, stores
from tabane.hub.doctor.finding import Finding
from tabane.hub.doctor.patient import Patient
from tabane.messages import Message, say

Check = Callable[[Patient], Iterable[Finding]]

ROUNDS = 5
"""How often is mended and looked again: one fault may hide another."""


@dataclass(frozen=True, slots=True)
class Section:
    """Checks that belong together. ``name`` is for programs."""

    name: str
    title: Message
    checks: tuple[Check, ...]


SECTIONS = (
    Section("versions", say("Tabane"), (process.versions, process.home_version, process.hub)),
    Section(
        "configuration",
        say("Configuration"),
        (
            configuration.settings,
            configuration.servers_file,
            configuration.variables,
            configuration.commands,
            configuration.urls,
        ),
    ),
    Section("files", say("Files"), (files.permissions, files.disk, files.caches, stores.stores)),
    Section("documents", say("Documents"), (documents.roots, documents.watched)),
    Section("models", say("Search by meaning"), (models.model,)),
    Section("assistants", say("Assistants"), (assistants.assistants,)),
)
"""The checks that take no time."""

SERVERS = Section("servers", say("Servers"), (starts.running, starts.starts))
"""The checks that start servers."""


@dataclass(frozen=True, slots=True)
class Mending:
    """What was mended, and what could not be, with the reason."""

    done: tuple[Finding, ...] = ()
    failed: tuple[tuple[Finding, str], ...] = ()


def findings(section: Section, patient: Patient) -> list[Finding]:
    """What the checks of a section find."""
    return [finding for check in section.checks for finding in check(patient)]


def mend(look: Callable[[], Patient]) -> tuple[Patient, Mending]:
    """Mend what is safe to mend, look again, and go on while that brings up something new."""
    done: list[Finding] = []
    failed: dict[str, tuple[Finding, str]] = {}
    patient = look()
    for _ in range(ROUNDS):
        fixable = [finding for finding in _fixable(patient) if str(finding.title) not in failed]
        if not fixable:
            break
        for finding in fixable:
            reason = _fixed(finding)
            if reason is None:
                done.append(finding)
            else:
                failed[str(finding.title)] = finding, reason
        patient = look()
    return patient, Mending(tuple(done), tuple(failed.values()))


def _fixable(patient: Patient) -> Iterator[Finding]:
    for section in SECTIONS:
        yield from (finding for finding in findings(section, patient) if finding.fix)


def _fixed(finding: Finding) -> str | None:
    """Mend it; why that failed, None where it did not."""
    assert finding.fix is not None
    try:
        finding.fix()
    except OSError as error:
        return error.strerror or str(error)
    except TabaneError as error:
        return str(error)
    except Exception as error:  # sqlite3 has a tree of its own, and one mend must not keep off the next
        return str(error)
    return None
