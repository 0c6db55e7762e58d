"""Recording of what happens in a hub: events, running and ended calls, and figures by the second.

It begins on request, with the calls that the meter has kept until then. The operations on calls read it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Raw

from tabane.audit.lookups import LOOKUPS
from tabane.audit.redaction import ArgumentRedactor
from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.server_operations import state_of
from tabane.errors import UnknownName
from tabane.hub.telemetry.event_feed import BETWEEN, EventFeed, Topic, topic_of
from tabane.hub.telemetry.live_table import GetActivity, ListLiveCalls, ShowLiveCall
from tabane.hub.telemetry.metering import EarlierCall, HubMeter
from tabane.hub.work.job import Job
from tabane.hub.work.jobs import Jobs
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Outcome

KEPT = 900
"""Seconds that are kept."""

MOST_SAMPLES = 512
"""Durations of one second that percentiles are computed from. Of more, these are chosen at random."""


class SecondFigures(NamedTuple):
    """The figures of one second. ``p50`` and ``p95`` are milliseconds, None if no call was made."""

    second: int
    calls: int
    failed: int
    refused: int
    p50: float | None
    p95: float | None


class CallSeconds:
    """Counts calls by the second in which they ended. ``on_second`` gets each second that had calls."""

    def __init__(
        self, on_second: Callable[[SecondFigures], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._on_second, self._clock = on_second, clock
        self.since = int(clock())
        self._closed: deque[SecondFigures] = deque(maxlen=KEPT)
        self._second = self.since
        self._begin(self.since)

    def count(self, outcome: Outcome, seconds: float) -> None:
        """Count a call that has ended now. One that was refused was not made, so it has no duration."""
        self.close()
        self._add(outcome, seconds)

    def recall(self, since: float, calls: Iterable[tuple[float, Outcome, float]]) -> None:
        """Count calls that ended since then, the first before the others: their end, outcome and seconds."""
        self.since = self._second = int(since)
        for ended, outcome, seconds in calls:
            if int(ended) != self._second:
                self._close_second()
                self._begin(int(ended))
            self._add(outcome, seconds)

    def _add(self, outcome: Outcome, seconds: float) -> None:
        self._calls += 1
        if outcome == "refused" or outcome == "limited":
            self._refused += 1
            return
        if outcome == "failed":
            self._failed += 1
        self._timed += 1
        if len(self._samples) < MOST_SAMPLES:
            self._samples.append(seconds)
        elif (place := random.randrange(self._timed)) < MOST_SAMPLES:
            self._samples[place] = seconds

    def close(self) -> float:
        """Close the second if it is over. Return the seconds until the current one is."""
        now = self._clock()
        if int(now) != self._second:
            if figures := self._close_second():
                self._on_second(figures)
            self._begin(int(now))
        return 1.0 - now % 1.0

    def _close_second(self) -> SecondFigures | None:
        """Keep the figures of the second, and return them; None if it had no calls."""
        if not self._calls:
            return None
        times = sorted(self._samples)
        p50, p95 = _milliseconds(times, 0.5), _milliseconds(times, 0.95)
        figures = SecondFigures(self._second, self._calls, self._failed, self._refused, p50, p95)
        self._closed.append(figures)
        return figures

    def report(self, seconds: int) -> dict[str, Any]:
        """Return the figures of the last ``seconds`` complete seconds, one list for each figure."""
        self.close()
        end = self._second
        start = end - min(seconds, KEPT)
        known = {figures.second: figures for figures in self._closed}
        rows = [known.get(second) for second in range(start, end)]
        return {
            "from": start,
            "since": self.since,
            "calls": [row.calls if row else 0 for row in rows],
            "failed": [row.failed if row else 0 for row in rows],
            "refused": [row.refused if row else 0 for row in rows],
            "p50": [row.p50 if row else None for row in rows],
            "p95": [row.p95 if row else None for row in rows],
        }

    def _begin(self, second: int) -> None:
        self._second = second
        self._calls = self._failed = self._refused = self._timed = 0
        self._samples = array("f")


def _milliseconds(times: list[float], part: float) -> float | None:
    """Return the time that this part of the calls did not exceed."""
    if not times:
        return None
    return round(times[min(int(len(times) * part), len(times) - 1)] * 1000, 3)


HEAD = 16 << 10
"""Bytes of arguments and of a result that are shown."""

MOST_KEPT = HEAD + (1 << 10)
"""Bytes of each that are kept, so that a secret at the cut is recognized."""

LONGEST = 500
"""Characters of a name or reason; longer ones are cut."""

_NOT_YET = -1.0


class WatchedText:
    """The beginning of a JSON text as it was sent, with its secrets. ``size`` is the size of all of it."""

    __slots__ = ("head", "size")

    def __init__(self, text: bytes | memoryview) -> None:
        self.size = len(text)
        self.head = bytes(memoryview(text)[:MOST_KEPT]) if self.size > MOST_KEPT else bytes(text)


class LiveCall:
    """A call that runs or has ended. It takes the time of each step that it is told of.

    ``on_end`` is called once, when it has ended. ``on_find`` is called when credentials were found in it,
    also after that, and when its server reports progress. Times are in seconds: ``began`` since 1970.
    """

    __slots__ = (
        "_admitted", "_answered", "_found", "_on_end", "_on_find", "_over", "_progress", "_sent", "_started",
        "_submitted", "arguments", "began", "client", "face", "has_steps", "holder", "kind", "label",
        "number", "outcome", "reason", "request", "result", "saved", "script", "server", "size", "tool",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        caller: Caller,
        target: CallTarget,
        arguments: bytes,
        request: str,
        on_end: Callable[[LiveCall], None],
        on_find: Callable[[LiveCall], None],
    ) -> None:
        self.number, self._on_end, self._on_find = number, on_end, on_find
        self.began, self._started = time.time(), time.perf_counter()
        self._admitted = self._submitted = self._sent = self._answered = self._over = _NOT_YET
        access = caller.access
        self.holder, self.label, self.client = access.holder, access.label, caller.client[:LONGEST]
        self.face, self.script, self.request = caller.face.value, caller.script, request[:LONGEST]
        self.tool, self.server, self.kind = target.name[:LONGEST], target.server, target.kind
        self.arguments: WatchedText | None = WatchedText(arguments)
        self.result: WatchedText | None = None
        self.outcome: Outcome | None = None
        self.reason, self.size, self.saved, self.has_steps = "", 0, 0, True
        self._found: dict[str, tuple[tuple[str, ...], bool]] = {}
        self._progress: dict[str, Any] | None = None

    @classmethod
    def earlier(cls, number: int, call: EarlierCall, on_find: Callable[[LiveCall], None]) -> LiveCall:
        """Return a call that ended before the recording began: it has no steps, arguments and result."""
        found = cls(number, call.caller, call.target, b"", call.request, lambda _: None, on_find)
        found.arguments = None
        found.began, found._started, found._over = call.ended - call.seconds, 0.0, call.seconds
        found.outcome, found.reason = call.outcome, call.reason
        found.size, found.saved, found.has_steps = call.size, call.saved, False
        return found

    # -- steps -----------------------------------------------------------------------------------

    def admitted(self) -> None:
        """Note that it is the call's turn: no limit holds it back."""
        self._admitted = time.perf_counter()

    def submitted(self) -> None:
        """Note that the call was handed to its server."""
        self._submitted = time.perf_counter()

    def sent(self) -> None:
        """Note that the call was sent to its server."""
        self._sent = time.perf_counter()

    def answered(self, result: bytes | memoryview | None) -> None:
        """Note the answer."""
        self._answered = time.perf_counter()
        if result is not None:
            self.result = WatchedText(result)

    def credentials(self, where: str, kinds: tuple[str, ...], replaced: bool) -> None:
        """Note which kinds of credentials are in its ``arguments`` or its ``result``."""
        self._found[where] = kinds, replaced
        self._on_find(self)

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Note how far its server is."""
        self._progress = {"done": done, "total": total, "message": message[:LONGEST]}
        self._on_find(self)

    def ended(self, outcome: Outcome, size: int, saved: int, reason: str) -> None:
        """Note how the call ended."""
        self._over = time.perf_counter()
        self.outcome, self.size, self.saved, self.reason = outcome, size, saved, reason[:LONGEST]
        self._on_end(self)

    # -- reports ---------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Return how long it took, or takes until now."""
        return (self._over if self.outcome else time.perf_counter()) - self._started

    @property
    def is_lookup(self) -> bool:
        """Return whether it is an operation of Tabane that only looks."""
        return self.kind == "operation" and self.tool in LOOKUPS

    @property
    def weight(self) -> int:
        """Return the bytes that are kept of arguments and result."""
        return sum(len(text.head) for text in (self.arguments, self.result) if text is not None)

    def forget_texts(self) -> None:
        self.arguments = self.result = None

    def row(self) -> dict[str, Any]:
        """Return the call as a row of a list, without arguments and result."""
        return {
            "number": self.number,
            "time": round(self.began, 3),
            "holder": self.holder,
            "label": self.label,
            "client": self.client,
            "face": self.face,
            "tool": self.tool,
            "server": self.server,
            "kind": self.kind,
            "outcome": self.outcome or "running",
            "reason": self.reason,
            "ms": round(self.seconds * 1000, 3),
            "bytes": self.size,
            "saved": self.saved,
            "credentials": [
                {"where": where, "kinds": kinds, "replaced": replaced}
                for where, (kinds, replaced) in self._found.items()
            ],
            "request": self.request,
            "lookup": self.is_lookup,
            **({"progress": self._progress} if self._progress is not None and not self.outcome else {}),
        }

    def steps(self) -> list[dict[str, Any]]:
        """Return the steps that the call has made, in their order, each with its milliseconds.

        ``limits``: it waited for its turn. ``hub``: Tabane worked on it. ``queue``: it waited for a free
        place at its server, or for the start of the server. ``server``: the server worked on it. ``answer``:
        Tabane worked on the answer. An earlier call has none.
        """
        if not self.has_steps:
            return []
        over = self._over if self.outcome else time.perf_counter()
        marks = [("limits", self._admitted)] if self._admitted >= 0 else []
        if self._submitted >= 0:
            marks += [("hub", self._submitted), ("queue", self._sent), ("server", self._answered)]
        else:  # an operation of the hub itself
            marks += [("hub", self._answered)]
        steps, before, rest = [], self._started, "answer"
        for name, at in marks:
            if at < 0:
                rest = name
                break
            steps.append({"step": name, "ms": round(max(at - before, 0.0) * 1000, 3)})
            before = max(at, before)
        return [*steps, {"step": rest, "ms": round(max(over - before, 0.0) * 1000, 3)}]


MOST_ENDED, MOST_BYTES = 500, 4 << 20
"""Calls that are kept when they have ended, and the bytes of their arguments and results."""

MOST_RUNNING = 1000
"""Calls that are listed while they run. Those beyond are listed when they have ended."""

_OWN = frozenset({"list_live_calls", "show_live_call", "get_activity"})
"""Operations that show this: to list them too would only show that somebody looks."""


class RecentCalls:
    """Calls, numbered in the order of their beginning. ``on_begin`` and ``on_end`` are called with each.

    ``on_find`` is called with those in which credentials were found.

    What the web page only reads is left out: a page that is open would fill the list with itself.
    """

    def __init__(
        self,
        on_begin: Callable[[LiveCall], None],
        on_end: Callable[[LiveCall], None],
        on_find: Callable[[LiveCall], None],
    ) -> None:
        self._on_begin, self._on_end, self._on_find = on_begin, on_end, on_find
        self._running: dict[int, LiveCall] = {}
        self._ended: deque[LiveCall] = deque()
        self._texts: deque[LiveCall] = deque()
        self._bytes = 0
        self.last = 0

    def began(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> LiveCall | None:
        """Return the call that begins, to be told of its steps; None if it is not listed."""
        if not _is_listed(caller, target):
            return None
        self.last += 1
        call = LiveCall(self.last, caller, target, arguments, request, self._over, self._on_find)
        if len(self._running) < MOST_RUNNING:
            self._running[call.number] = call
        self._on_begin(call)
        return call

    def recall(self, earlier: Iterable[EarlierCall]) -> list[LiveCall]:
        """List calls that ended before the recording began, the first before the others. Return them."""
        for call in earlier:
            if _is_listed(call.caller, call.target):
                self.last += 1
                self._ended.append(LiveCall.earlier(self.last, call, self._on_find))
        return list(self._ended)

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return len(self._running)

    def find(self, number: int) -> LiveCall | None:
        """Return the call of that number; None if it is no longer kept."""
        found = self._running.get(number)
        return found or next((call for call in reversed(self._ended) if call.number == number), None)

    def newest_first(self) -> Iterator[LiveCall]:
        """Yield the calls that run, then those that have ended, the latest first."""
        yield from reversed(self._running.values())
        yield from reversed(self._ended)

    def _over(self, call: LiveCall) -> None:
        self._running.pop(call.number, None)
        self._ended.append(call)
        self._texts.append(call)
        self._bytes += call.weight
        if len(self._ended) > MOST_ENDED:
            self._ended.popleft()
        while len(self._texts) > MOST_ENDED or self._bytes > MOST_BYTES:
            oldest = self._texts.popleft()
            self._bytes -= oldest.weight
            oldest.forget_texts()
        self._on_end(call)


def _is_listed(caller: Caller, target: CallTarget) -> bool:
    only_reads = target.kind == "operation" and not target.changes
    return target.name not in _OWN and not (caller.face.value == "web" and only_reads)


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
        self._topics: dict[Topic, str] = {}
        self._jobs: dict[str, Job] = {}
        self._job_told: dict[str, float] = {}
        self._second: asyncio.TimerHandle | None = None
        self._recall(meter)
        meter.watch = self.calls
        gateway.watcher = self
        jobs.watcher = self.job_changed

    def _recall(self, meter: HubMeter) -> None:
        """Begin with the calls that the meter has kept."""
        earlier = meter.earlier
        since = earlier[0].ended if len(earlier) == earlier.maxlen else meter.begun
        calls = self.calls.recall(earlier)
        counted = [call for call in calls if not call.is_lookup]
        self.seconds.recall(
            since, [(call.began + call.seconds, call.outcome or "ok", call.seconds) for call in counted]
        )
        earlier.clear()

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
        self.topic_changed("definitions")

    def job_changed(self, job: Job) -> None:
        """Note that a job began, went on or ended."""
        self._jobs[job.key] = job
        self.feed.deliver_soon()

    def topic_changed(self, topic: Topic) -> None:
        """Note that something of a topic has changed, also without a call."""
        self._topics.setdefault(topic, "")
        self.feed.deliver_soon()

    def settings_changed(self) -> None:
        """Note that the settings or the servers file were read again."""
        self.feed.add("settings", {})

    def _began(self, call: LiveCall) -> None:
        if len(self._begun) < MOST_CALLS:
            self._begun.append(call)
        self.feed.deliver_soon()

    def _ended(self, call: LiveCall) -> None:
        assert call.outcome is not None
        if not call.is_lookup:
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
        names, self._servers = sorted(self._servers), set()
        for start in range(0, len(names), MOST_NAMES):
            states = {name: self._state(name) for name in names[start : start + MOST_NAMES]}
            self.feed.add("servers", {"servers": states})
        if self._lists:
            self.feed.add("catalog", {"lists": sorted(self._lists)})
            self._lists.clear()
        self._gather_jobs()
        topics, self._topics = self._topics, {}
        for topic, operation in topics.items():
            self.feed.add(topic, {"operation": operation})

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


class LiveOperations:
    """Handlers over a recording."""

    def __init__(self, recording: LiveRecording, secret_names: tuple[str, ...]) -> None:
        self._recording = recording
        self._redactor = ArgumentRedactor(HEAD, secret_names)

    def hide(self, secrets: Iterable[str], replaced: Callable[[str], str]) -> None:
        """Hide these secrets in arguments and results. ``replaced`` returns what stands for one in a text."""
        self._redactor.hide(secrets, replaced)

    async def calls(self, caller: Caller, params: ListLiveCalls) -> dict[str, Any]:
        """Return rows, the number of the latest call, and how many run."""
        calls = self._recording.calls
        found = (call for call in calls.newest_first() if _matches(call, params))
        rows = [call.row() for call in itertools.islice(found, params.limit)]
        return {
            "results": rows,
            "last": calls.last,
            "running": calls.running,
            "since": self._recording.seconds.since,
            "event": self._recording.feed.last,
        }

    async def show(self, caller: Caller, params: ShowLiveCall) -> dict[str, Any]:
        """Return one call. Raises UnknownName if it is no longer kept."""
        call = self._recording.calls.find(params.number)
        if call is None:
            raise UnknownName(
                say(
                    "Call {number} is no longer kept. Older calls are in the audit log: tabane audit",
                    number=params.number,
                )
            )
        texts = call.arguments, call.result
        arguments, result = await asyncio.to_thread(self._without_secrets, *texts)
        return call.row() | {
            "script": call.script,
            "steps": call.steps(),
            "arguments": arguments,
            "arguments_size": texts[0].size if texts[0] else 0,
            "result": result,
            "result_size": texts[1].size if texts[1] else 0,
        }

    async def activity(self, caller: Caller, params: GetActivity) -> dict[str, Any]:
        """Return the figures of each second."""
        return self._recording.seconds.report(params.seconds) | {"running": self._recording.calls.running}

    def _without_secrets(self, *texts: WatchedText | None) -> list[Raw | None]:
        """Return the beginnings of the texts without secrets: as JSON, or as a string if more follows."""
        return [
            Raw(self._redactor.redact(text.head, text.size)[0]) if text is not None and text.size else None
            for text in texts
        ]


def _matches(call: LiveCall, params: ListLiveCalls) -> bool:
    """Return whether a call fits all filters."""
    client = (params.client or "").casefold()
    who = (call.client, call.holder, call.label)
    return (
        call.number > params.after
        and params.server in (None, call.server)
        and (params.tool or "").casefold() in call.tool.casefold()
        and any(client in name.casefold() for name in who)
        and params.outcome in (None, call.outcome or "running")
        and (params.lookups or not call.is_lookup)
    )
