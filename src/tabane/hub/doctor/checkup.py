"""A check-up: all checks in the order that they are told in, and the mending of what is safe to mend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tabane.errors import TabaneError
from tabane.hub.doctor import assistants, configuration, files, process, server_starts, stored_data
from tabane.hub.doctor.installation import DoctorFinding, Installation
from tabane.messages import Message, say

Check = Callable[[Installation], Iterable[DoctorFinding]]

ROUNDS = 5
"""How often is mended and looked again: one fault may hide another."""


@dataclass(frozen=True, slots=True)
class DoctorSection:
    """Checks that belong together. ``name`` is for programs."""

    name: str
    title: Message
    checks: tuple[Check, ...]


SECTIONS = (
    DoctorSection("versions", say("Tabane"), (process.versions, process.home_version, process.hub)),
    DoctorSection(
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
    DoctorSection("files", say("Files"), (files.permissions, files.disk, files.caches, stored_data.stores)),
    DoctorSection("documents", say("Documents"), (stored_data.roots, stored_data.watched)),
    DoctorSection("models", say("Semantic search"), (stored_data.model,)),
    DoctorSection("assistants", say("Assistants"), (assistants.assistants,)),
)
"""The checks that take no time."""

SERVERS = DoctorSection("servers", say("Servers"), (server_starts.running, server_starts.starts))
"""The checks that start servers."""


@dataclass(frozen=True, slots=True)
class DoctorRepairs:
    """What was mended, and what could not be, with the reason."""

    done: tuple[DoctorFinding, ...] = ()
    failed: tuple[tuple[DoctorFinding, str], ...] = ()


def findings(section: DoctorSection, installation: Installation) -> list[DoctorFinding]:
    """What the checks of a section find."""
    return [finding for check in section.checks for finding in check(installation)]


def repair(look: Callable[[], Installation]) -> tuple[Installation, DoctorRepairs]:
    """Mend what is safe to mend, look again, and go on while that brings up something new."""
    done: list[DoctorFinding] = []
    failed: dict[str, tuple[DoctorFinding, str]] = {}
    installation = look()
    for _ in range(ROUNDS):
        fixable = [finding for finding in _fixable(installation) if str(finding.title) not in failed]
        if not fixable:
            break
        for finding in fixable:
            reason = _fixed(finding)
            if reason is None:
                done.append(finding)
            else:
                failed[str(finding.title)] = finding, reason
        installation = look()
    return installation, DoctorRepairs(tuple(done), tuple(failed.values()))


def _fixable(installation: Installation) -> Iterator[DoctorFinding]:
    for section in SECTIONS:
        yield from (finding for finding in findings(section, installation) if finding.fix)


def _fixed(finding: DoctorFinding) -> str | None:
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
