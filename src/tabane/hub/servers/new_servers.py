"""First starts of servers that were just added: a job that waits until each has listed, and was scanned.

The servers are the hub's own, started at the same time: what they download stays, and they need not start
again. The job ends with the last of them. If it is canceled, or nobody follows it, they start all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tabane.catalog.gateway import Gateway
from tabane.errors import TabaneError
from tabane.hub.servers.trial import FACES, wait_listed
from tabane.hub.work.jobs import Jobs
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Operation, Privilege, Progress
from tabane.settings import Settings

MOST_SERVERS = 500
LONGEST_WAIT = 30
BEAT = 0.5
"""Seconds between two looks at the downloads."""


class StartNewServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``names`` are servers of the file. The answer comes when all have listed, or after ``wait`` seconds."""

    names: Annotated[list[str], Meta(min_length=1, max_length=MOST_SERVERS)]
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class StartedServers(Struct):
    """What is known so far. ``suspicious`` has the definitions that look like an attack, by server.

    ``failed`` says why a server has not listed, by server. ``pending`` are those that have not ended a start.
    """

    pending: list[str]
    tools: dict[str, int] = field(default_factory=dict)
    suspicious: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class NewServers:
    """Starts servers that were just added. ``reload`` reads the servers file at once."""

    def __init__(
        self, gateway: Gateway, jobs: Jobs, settings: Callable[[], Settings], reload: Callable[[], None]
    ) -> None:
        self._gateway, self._jobs, self._settings, self._reload = gateway, jobs, settings, reload

    def table(self) -> list[Operation]:
        return [
            Operation(
                "start_new_servers",
                "Start servers that were just added, and scan what they list: a job of the hub.",
                StartNewServers, self.start, FACES, Privilege.ADMIN,
            )
        ]  # fmt: skip

    async def start(self, caller: Caller, params: StartNewServers) -> dict[str, Any]:
        """Return the state of the job, and what is known by now as ``found``. Raises HubError."""
        self._reload()
        found = StartedServers(list(dict.fromkeys(params.names)))
        count = len(found.pending)
        job = self._jobs.start(
            "start_new_servers",
            say("Testing {count} new {count:server|servers}", count=count),
            lambda job: self._start_all(caller, found, job),
        )
        end = asyncio.get_running_loop().time() + params.wait
        while job.status == "running" and (left := end - asyncio.get_running_loop().time()) > 0:
            await job.changed(job.version, left)
        return job.state(caller.lang) | {"found": _plain(found)}

    async def _start_all(self, caller: Caller, found: StartedServers, job: Progress) -> dict[str, Any]:
        waiting = {asyncio.ensure_future(self._one(caller, name, found)) for name in found.pending}
        total = len(waiting)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=BEAT, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                job.tell(total - len(waiting), total, self._note(found))
        finally:
            for task in waiting:
                task.cancel()
        return _plain(found)

    async def _one(self, caller: Caller, name: str, found: StartedServers) -> None:
        """Wait until a server has listed, and scan that."""
        from tabane.guard.definitions.listing_scan import suspicious_definitions

        settings = self._settings()
        try:
            async with asyncio.timeout(settings.download_timeout + 2 * settings.start_timeout):
                instance = self._gateway.instance_for(caller, name)
                await wait_listed(instance)
            listing = self._gateway.listing(name)
            if listing is None or "tools" not in listing.lists or instance.vitals.error is not None:
                why = instance.vitals.error or say("it has not been started")
                found.failed[name] = _short(why, caller.lang)
            else:
                found.tools[name] = len(listing.lists["tools"])
                rows = await suspicious_definitions(
                    name, listing.lists, self._gateway.review.scans, caller.lang
                )
                if rows:
                    found.suspicious[name] = rows
        except TimeoutError:
            found.failed[name] = say("{server!n} did not start in time.", server=name).render(caller.lang)
        except TabaneError as error:
            found.failed[name] = _short(error.message, caller.lang)
        finally:
            found.pending.remove(name)

    def _note(self, found: StartedServers) -> Message | None:
        """Return what is waited for: a download, or the names of servers."""
        for name in found.pending:
            for instance in self._gateway.instances(name):
                if instance.download is not None:
                    return instance.download.describe()
        return say("waiting for {names}", names=", ".join(found.pending[:5])) if found.pending else None


def _short(why: Message, lang: Lang) -> str:
    """Return why a start failed, without the end of its output."""
    from tabane.upstreams.launching.failure_causes import cause_in

    failed = cause_in(why)
    return (failed.without_log() if failed is not None else why).render(lang)


def _plain(found: StartedServers) -> dict[str, Any]:
    return {
        "pending": list(found.pending),
        "tools": dict(found.tools),
        "suspicious": dict(found.suspicious),
        "failed": dict(found.failed),
    }
