"""Check-up: all checks in the order of the report, and the fixes that are safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from tabane.hub.doctor import access, assistants, configuration, files, process, server_starts, sites
from tabane.hub.doctor.installation import DoctorFinding, Installation, fault
from tabane.hub.doctor.troubles import Trouble
from tabane.messages import Message, say
from tabane.upstreams.launching.package_downloads import is_online

Check = Callable[[Installation], Iterable[DoctorFinding]]

ROUNDS = 5
"""Rounds of fixing and checking again: one fault may hide another."""


@dataclass(frozen=True, slots=True)
class DoctorSection:
    """Checks that belong together, each with the section of the manual about its findings.

    ``name`` is for programs.
    """

    name: str
    title: Message
    checks: tuple[tuple[Check, Trouble], ...]


SECTIONS = (
    DoctorSection(
        "versions",
        say("Tabane"),
        (
            (process.versions, Trouble.VERSION),
            (process.home_version, Trouble.VERSION),
            (process.hub, Trouble.HUB),
        ),
    ),
    DoctorSection(
        "configuration",
        say("Configuration"),
        (
            (configuration.settings, Trouble.CONFIGURATION),
            (configuration.servers_file, Trouble.CONFIGURATION),
            (configuration.plain_keys, Trouble.VARIABLE),
            (configuration.variables, Trouble.VARIABLE),
            (configuration.commands, Trouble.PROGRAM),
            (configuration.urls, Trouble.CERTIFICATE),
            (server_starts.definitions, Trouble.DEFINITION),
        ),
    ),
    DoctorSection(
        "environment",
        say("Environment"),
        ((configuration.passed, Trouble.VARIABLE), (configuration.recorded, Trouble.VARIABLE)),
    ),
    DoctorSection(
        "files",
        say("Files"),
        (
            (files.permissions, Trouble.PERMISSIONS),
            (files.disk, Trouble.DISK),
            (files.caches, Trouble.STORE),
            (files.stores, Trouble.STORE),
        ),
    ),
    DoctorSection(
        "access",
        say("Access"),
        (
            (access.certificate, Trouble.HTTP),
            (access.keys, Trouble.HTTP),
            (access.reach, Trouble.HTTP),
            (access.proxies, Trouble.HTTP),
            (access.oauth, Trouble.HTTP),
            (access.traces, Trouble.CONFIGURATION),
            (files.audit_log, Trouble.AUDIT),
        ),
    ),
    DoctorSection("sandboxes", say("Sandboxes"), ((configuration.cages, Trouble.SANDBOX),)),
    DoctorSection(
        "documents", say("Documents"), ((files.roots, Trouble.FOLDER), (files.watched, Trouble.FOLDER))
    ),
    DoctorSection("reader", say("Reader"), ((sites.switched_off, Trouble.READING),)),
    DoctorSection("models", say("Semantic search"), ((files.model, Trouble.KEYWORDS),)),
    DoctorSection("assistants", say("Assistants"), ((assistants.assistants, Trouble.NO_TOOLS),)),
)
"""The checks that take no time."""


def with_network(installation: Installation, *, sites: bool) -> Installation:
    """Return the facts with whether there is a network, if what follows needs it. Blocks for some seconds.

    ``sites``: the sites are checked, too.
    """
    settings = installation.settings
    reads = sites and not settings.reader_proxy
    if not (reads or settings.oauth_issuer or server_starts.needs_network(installation)):
        return installation
    return replace(installation, online=is_online(installation.children))


def network(installation: Installation) -> Iterator[DoctorFinding]:
    """Report that there is no network."""
    if not installation.online:
        yield fault(
            say("There is no network: no package registry answers. What needs it is not checked"),
            say("Connect to the network, then run: tabane doctor. Behind a proxy, set HTTPS_PROXY"),
        )


NETWORK = DoctorSection("network", say("Network"), ((network, Trouble.NETWORK),))
"""The finding about the network, after :func:`with_network`."""

SERVERS = DoctorSection(
    "servers",
    say("Servers"),
    ((server_starts.running, Trouble.SERVER), (server_starts.starts, Trouble.SERVER)),
)
"""The checks that start servers."""

AUTHORIZATION = DoctorSection(
    "authorization", say("Authorization server"), ((access.authorization_server, Trouble.HTTP),)
)
"""The check that asks the authorization server."""

SITES = DoctorSection("sites", say("Sites"), ((sites.online, Trouble.READING),))
"""The check that reads a page of each site with an adapter of its own, over the network."""


@dataclass(frozen=True, slots=True)
class DoctorRepairs:
    """Findings that were fixed, and those that could not be, with the reason."""

    done: tuple[DoctorFinding, ...] = ()
    failed: tuple[tuple[DoctorFinding, str], ...] = ()


def findings(section: DoctorSection, installation: Installation) -> list[DoctorFinding]:
    """Return the findings of a section's checks."""
    return [
        replace(finding, trouble=finding.trouble or trouble)
        for check, trouble in section.checks
        for finding in check(installation)
    ]


def repair(look: Callable[[], Installation]) -> tuple[Installation, DoctorRepairs]:
    """Apply the fixes that are safe, check again, and continue while new findings can be fixed."""
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


def repaired(found: Iterable[DoctorFinding]) -> DoctorRepairs:
    """Apply the fixes of findings that were already made, each once."""
    done, failed = [], []
    for finding in found:
        if finding.fix is not None:
            reason = _fixed(finding)
            if reason is None:
                done.append(finding)
            else:
                failed.append((finding, reason))
    return DoctorRepairs(tuple(done), tuple(failed))


def repair_one(installation: Installation, wanted: Callable[[DoctorFinding], bool]) -> DoctorRepairs:
    """Apply the fix of the first finding that is wanted; nothing if there is none any more."""
    return repaired(islice(filter(wanted, _fixable(installation)), 1))


def _fixable(installation: Installation) -> Iterator[DoctorFinding]:
    for section in SECTIONS:
        yield from (finding for finding in findings(section, installation) if finding.fix)


def _fixed(finding: DoctorFinding) -> str | None:
    """Apply the fix of a finding. Return why that failed, None if it worked."""
    assert finding.fix is not None
    try:
        finding.fix()
    except OSError as error:
        return error.strerror or str(error)
    except Exception as error:  # sqlite3 has its own error tree, and one failed fix must not prevent the next
        return str(error)
    return None
