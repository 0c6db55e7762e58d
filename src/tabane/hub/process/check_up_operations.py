"""Operations of the doctor: a check-up in a process of its own, and its fixes. Checks before a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from tabane.access.profiles import read_profiles
from tabane.errors import HubError, TabaneError, UnknownName
from tabane.hub.hub import Hub
from tabane.hub.local import lock as locks
from tabane.hub.process.home_version import refuse_downgrade
from tabane.hub.rpc.tcp_peers import port_is_taken, refusal
from tabane.hub.servers.configuration import hub_environment, read_servers
from tabane.messages import Message, say
from tabane.operations import Caller, Operation, Progress
from tabane.operations.job_turns import Turn
from tabane.settings import OPTIONS, Settings, load_settings
from tabane.settings.files import config_folder
from tabane.settings.option import shown
from tabane.settings.sources import flags_of

QUICK_LIMIT, FULL_LIMIT = 60.0, 600.0
"""Seconds that a check-up may take: without the start of servers, and with it."""

MOST_OUTPUT = 4 << 20
"""Bytes that a check-up may print."""


class RunDoctor(Struct, frozen=True, forbid_unknown_fields=True):
    """``quick``: start no server, and do not ask the authorization server. ``online``: also read a known page
    of each site that the reader has an adapter for."""

    quick: bool = True
    online: bool = False


class ApplyFix(Struct, frozen=True, forbid_unknown_fields=True):
    """``fix`` is that of a finding; without it, everything is fixed that is safe to fix."""

    fix: Annotated[str, Meta(max_length=64)] = ""


class CheckUpOperations:
    """Runs check-ups, one at a time. Each is a process, which cannot hold up the hub or outlive its limit."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._turn = hub, Turn()

    def table(self) -> list[Operation]:
        """Return the operations that run the doctor and its fixes."""
        return [
            Operation(
                "run_doctor",
                "Check for problems: configuration, files, keys, audit log, assistants, and servers.",
                RunDoctor, self.run, kind="job",
                title=lambda params: say("Checking for problems"),
            ),
            Operation(
                "apply_fix", "Fix a finding of run_doctor, or all that are safe to fix.",
                ApplyFix, self.fix, kind="job",
                title=lambda params: say("Fixing what was found"),
            ),
        ]  # fmt: skip

    async def run(self, caller: Caller, params: RunDoctor, progress: Progress) -> dict[str, Any]:
        """Return the sections with their findings, and how many there are of each level, in ``lang``."""
        sections: list[dict[str, Any]] = []
        limit = QUICK_LIMIT if params.quick and not params.online else FULL_LIMIT
        parts = ("check" if params.quick else "full", *(("online",) if params.online else ()))
        lines = self._lines(progress, limit, caller.lang, *parts)
        async with aclosing(lines):
            async for line in lines:
                if "begins" in line:
                    note = Message("{title}", title=line["begins"])
                    progress.tell(len(sections), line["sections"], note)
                else:
                    sections.append(line)
        levels = [finding["level"] for section in sections for finding in section["findings"]]
        return {
            "status": "fault" if "fault" in levels else "ok",
            "quick": params.quick,
            "lang": str(caller.lang),
            "sections": sections,
            **{level: levels.count(level) for level in ("fault", "warning", "note", "ok")},
        }

    async def fix(self, caller: Caller, params: ApplyFix, progress: Progress) -> dict[str, Any]:
        """Apply a fix. Raises UnknownName if there is nothing to fix any more."""
        lines = self._lines(progress, FULL_LIMIT, caller.lang, "fix", *([params.fix] if params.fix else []))
        async with aclosing(lines):
            printed = [line async for line in lines]
        found = printed[0]
        if params.fix and not found["fixed"] and not found["not_fixed"]:
            raise UnknownName(say("This problem does not exist any more. Check again."))
        return found

    async def _lines(
        self, progress: Progress, limit: float, *arguments: str
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Run the doctor, and yield what it prints. Raises HubError if it fails or takes too long."""
        hub = self._hub
        async with self._turn.taken(progress):
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "tabane.hub.doctor", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=2,
                env=environment_of(hub.settings, hub.environment),
                limit=MOST_OUTPUT,
            )
            try:
                async with asyncio.timeout(limit):
                    async for line in _limited(child):
                        yield line
                    status = await child.wait()
            except TimeoutError:
                raise HubError(
                    say("The check took longer than {limit} s and was stopped.", limit=f"{limit:g}")
                ) from None
            finally:
                if child.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        child.kill()
                    await asyncio.shield(child.wait())
        if status:
            raise _failed(status)


async def _limited(child: asyncio.subprocess.Process) -> AsyncGenerator[dict[str, Any], None]:
    assert child.stdout is not None
    size = 0
    try:
        while line := await child.stdout.readline():
            size += len(line)
            if size > MOST_OUTPUT:
                raise ValueError
            yield json.loads(line)
    except ValueError:
        raise _failed("?") from None


def _failed(status: object) -> TabaneError:
    return HubError(
        say("The check failed (exit status {status}). The hub's log has details: tabane logs", status=status)
    )


def environment_of(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a command finds the settings of this hub, also those of its flags."""
    flags = {
        option.environment: shown(option, getattr(settings, option.name))
        for option in OPTIONS
        if option.name in settings.sources and settings.sources[option.name].kind == "flag"
    }
    found = {**environment, **flags, "TABANE_HOME": os.fspath(settings.home)}
    if "config" not in settings.sources and config_folder(environment) != settings.config.parent:
        # It is recorded for servers, and was unknown when this hub looked for its settings.
        found.pop("XDG_CONFIG_HOME", None)
    return found


def check_restart(flags: Sequence[str], environ: Mapping[str, str], running: Mapping[str, Any]) -> None:
    """Raise what the next hub would fail with, while the ``running`` one still serves.

    ``running`` is its report, and ``flags`` are its flags. Raises TabaneError that says what to fix:
    settings, profiles, the servers file or secrets that are wrong, another servers file, another port that is
    taken, or a home of a newer version.
    """
    settings = load_settings(flags_of(flags), environ)
    refuse_downgrade(settings.home)
    read_servers(settings, hub_environment(settings, environ))
    read_profiles(settings.config)
    _check_same_servers(settings, running["servers_file"])
    port = urlsplit(running.get("http") or "").port
    asked = running["started_by"] == locks.HAND  # others run without a port, too
    wanted = settings.port if asked and settings.insists_on_http else 0
    if wanted not in (0, port) and port_is_taken(settings.host, wanted):
        raise HubError(refusal(settings.host, wanted))


def _check_same_servers(settings: Settings, served: str) -> None:
    """Raise HubError if the next hub would use another servers file, and no settings file says so."""
    source = settings.sources.get("servers")
    if source is not None and source.kind == "file":
        return
    if os.path.realpath(settings.servers) != os.path.realpath(served):
        raise HubError(
            say(
                "The running hub uses the servers file {hub}, and a restart from here would use {asked}. Set "
                "TABANE_SERVERS to the first. To use the second: tabane stop, then tabane start",
                hub=served,
                asked=settings.servers,
            )
        )
