"""Recording of what happens in a hub: from its calls, servers and jobs to events. It begins on request."""

from __future__ import annotations

import asyncio
from typing import Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.server_operations import state_of
from tabane.hub.telemetry.live.call_seconds import CallSeconds, SecondFigures
from tabane.hub.telemetry.live.event_feed import BETWEEN, EventFeed
from tabane.hub.telemetry.live.live_call import LiveCall
from tabane.hub.telemetry.live.recent_calls import RecentCalls
from tabane.hub.telemetry.live.topics import topic_of
from tabane.hub.telemetry.metering import HubMeter
from tabane.hub.work.job import Job
from tabane.hub.work.jobs import Jobs

MOST_CALLS = 200
"""Calls that one delivery tells of; of the others, it tells the number."""

MOST_NAMES = 200
"""Servers in one event."""

JOB_STEP = 0.25
"""Seconds between two events of the progress of a job."""

_TOLD = ("job", "operation", "status", "done", "total", "rate", "left", "version")


class LiveRecording:
    """Watches the calls, servers and jobs of a hub from now on, and adds what happens to the feed."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, meter: HubMeter, gateway: Gateway, jobs: Jobs
    ) -> None:
        self._loop, self._gateway = loop, gateway
        self.feed = EventFeed(loop, self._gather)
        self.calls = RecentCalls(self._began, self._ended, self._credentials_found)
        self.seconds = CallSeconds(self._second_over)
        self._begun: list[LiveCall] = []
        self._news: list[LiveCall] = []
        self._skipped = 0
        self._servers: set[str] = set()
        self._lists: set[str] = set()
        self._topics: dict[str, str] = {}
        self._jobs: dict[str, Job] = {}
        self._job_told: dict[str, float] = {}
        self._second: asyncio.TimerHandle | None = None
        meter.watch = self.calls
        gateway.watcher = self
        jobs.watcher = self.job_changed

    # -- what happens ----------------------------------------------------------------------------

    def server_changed(self, name: str) -> None:
        """Note that the state of a server changed, or that it was added or removed."""
        self._servers.add(name)
        self.feed.deliver_soon()

    def catalog_changed(self, kind: str) -> None:
        """Note that the tools, prompts or resources that clients can see changed."""
        self._lists.add(kind)
        self.feed.deliver_soon()

    def definitions_changed(self, server: str) -> None:
        """Note that other definitions of a server than before wait for a person."""
        self._topics.setdefault("definitions", "")
        self.feed.deliver_soon()

    def job_changed(self, job: Job) -> None:
        """Note that a job began, went on or ended."""
        self._jobs[job.key] = job
        self.feed.deliver_soon()

    def questions_changed(self) -> None:
        """Note that a server asked something, or that a question is over."""
        self._topics.setdefault("questions", "")
        self.feed.deliver_soon()

    def approvals_changed(self) -> None:
        """Note that a call waits for a person, or that an approval changed."""
        self._topics.setdefault("approvals", "")
        self.feed.deliver_soon()

    def flows_changed(self) -> None:
        """Note that a client has read something new, or that pairs or trails changed."""
        self._topics.setdefault("flows", "")
        self.feed.deliver_soon()

    def document_changed(self) -> None:
        """Note that a document was put, changed or deleted."""
        self._topics.setdefault("documents", "")
        self.feed.deliver_soon()

    def settings_changed(self) -> None:
        self.feed.add("settings", {})

    def _began(self, call: LiveCall) -> None:
        if len(self._begun) < MOST_CALLS:
            self._begun.append(call)
        self.feed.deliver_soon()

    def _ended(self, call: LiveCall) -> None:
        assert call.outcome is not None
        self.seconds.count(call.outcome, call.seconds)
        if self._second is None:
            self._second = self._loop.call_later(self.seconds.close() + 0.001, self._close_second)
        if len(self._news) < MOST_CALLS:
            self._news.append(call)
        else:
            self._skipped += 1
        if call.outcome == "ok" and call.kind == "operation" and (topic := topic_of(call.tool)):
            self._topics[topic] = call.tool
        self.feed.deliver_soon()

    def _credentials_found(self, call: LiveCall) -> None:
        """Tell of a call again, unless the next delivery tells of it anyway."""
        if call in self._begun or call in self._news or len(self._news) >= MOST_CALLS:
            return
        self._news.append(call)
        self.feed.deliver_soon()

    # -- delivery --------------------------------------------------------------------------------

    def _gather(self) -> None:
        """Add what was noted since the last delivery to the feed."""
        self._gather_calls()
        self._gather_servers()
        self._gather_jobs()
        topics, self._topics = self._topics, {}
        for topic, operation in topics.items():
            self.feed.add(topic, {"operation": operation})  # type: ignore[arg-type]

    def _gather_calls(self) -> None:
        begun, self._begun = self._begun, []
        news, self._news = self._news, []
        for call in begun:
            if call.outcome is None:
                self.feed.add("calls", call.row())
        for call in news:
            self.feed.add("calls", call.row())
        if self._skipped:
            self.feed.add("calls", {"skipped": self._skipped})
            self._skipped = 0

    def _gather_servers(self) -> None:
        names, self._servers = sorted(self._servers), set()
        for start in range(0, len(names), MOST_NAMES):
            states = {name: self._state(name) for name in names[start : start + MOST_NAMES]}
            self.feed.add("servers", {"servers": states})
        if self._lists:
            self.feed.add("catalog", {"lists": sorted(self._lists)})
            self._lists.clear()

    def _gather_jobs(self) -> None:
        now = self._loop.time()
        for key, job in list(self._jobs.items()):
            ended = job.status != "running"
            if not ended and now - self._job_told.get(key, -JOB_STEP) < JOB_STEP - BETWEEN / 2:
                self.feed.deliver_soon()
                continue
            del self._jobs[key]
            self._job_told[key] = now
            if ended:
                del self._job_told[key]
                if topic := topic_of(job.operation):
                    self._topics[topic] = job.operation
            state = job.state("en")
            holder = job.owner.holder if job.owner is not None else ""
            self.feed.add("jobs", {name: state[name] for name in _TOLD}, holder)

    def _state(self, name: str) -> str | None:
        """Return the state of a server; None if it was removed."""
        server = self._gateway.servers.get(name)
        return state_of(server, self._gateway.instances(name)) if server is not None else None

    def _close_second(self) -> None:
        self._second = None
        self.seconds.close()

    def _second_over(self, figures: SecondFigures) -> None:
        told: dict[str, Any] = figures._asdict()
        self.feed.add("activity", told)
