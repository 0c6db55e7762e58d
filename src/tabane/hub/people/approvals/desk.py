"""The desk of a hub where calls wait for a person: asked, decided, used once, and kept over a restart.

Approvals that outlive a hub are in ``approvals.json`` in the home, mode 0600. In a group of hubs, the
approvals are those of the group. Each change is one transaction in its database, and the desk has a copy of
what was there last.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from tabane.catalog.gateway import Gateway
from tabane.errors import ConfigurationError, Conflict, HubError, StoreError
from tabane.guard.approvals.approvals import (
    LIFE,
    Approval,
    ApprovalBinding,
    ApprovalReason,
    Approvals,
    ApprovalTrail,
    approval_required,
    refusal,
)
from tabane.guard.approvals.argument_fields import Budget
from tabane.guard.approvals.letter import IN_LIST, WHOLE, EarlierDecisions, Letter, letter_of
from tabane.guard.flows.tool_roles import role_of_parameter
from tabane.hub.context import HubContext
from tabane.hub.people.approvals.past_decisions import PastDecisions, changed_fields
from tabane.hub.people.flows.hub_flows import HubFlows
from tabane.hub.work.scripts import HubScripts, RunningScript
from tabane.messages import Lang, say
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.door import CallVerdict, JudgedTarget
from tabane.settings.files import read_private, write_private
from tabane.settings.table import APPROVAL_WAIT
from tabane.text.secret_values import HIDDEN
from tabane.wire.json import argument_digest

if TYPE_CHECKING:
    from tabane.hub.people.approvals.shared_approvals import GroupApprovals, PostgresApprovals

log = logging.getLogger(__name__)


APPROVAL_FILE = "approvals.json"
LARGEST = 16 << 20
"""Bytes of the file: far more than as many approvals need as there can be."""


class ApprovalFile:
    """Reads and writes the file. Both block."""

    def __init__(self, home: Path) -> None:
        self._path = home / APPROVAL_FILE

    def read(self) -> tuple[Approval, ...]:
        """Return the approvals of earlier hubs. None is valid if the file may have been changed by others."""
        try:
            return msgspec.json.decode(read_private(self._path, LARGEST), type=tuple[Approval, ...])
        except FileNotFoundError:
            return ()
        except (ConfigurationError, ValueError) as error:  # damaged, also within a character
            log.warning("the approvals of earlier hubs are not valid any more: %s", error)
            return ()

    def write(self, approvals: tuple[Approval, ...]) -> None:
        """Replace the approvals; they are on disk at the return. Raises StoreError."""
        try:
            write_private(self._path, msgspec.json.encode(approvals))
        except OSError as error:
            raise StoreError(
                say(
                    "{path} cannot be written ({reason}), so no call can be approved. Check the disk.",
                    path=self._path,
                    reason=error.strerror,
                )
            ) from None


LONGEST_KEPT = 128 << 10
"""Bytes of a call's arguments that are kept for the person who decides."""

MOST_TARGETS, LONGEST_TARGET = 16, 300
"""Targets that are kept, and characters of each."""

LEAST_KEPT = 8 << 10
MOST_KEPT = 4 << 20
"""Characters of all kept arguments from which on only the least is kept of further ones."""

T = TypeVar("T")


class ShownArguments(Protocol):
    """Knows what of arguments is secret, and who watches the hub."""

    def without_secrets(self, arguments: bytes, longest: int) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are longer."""
        ...

    def topic_changed(self, topic: Literal["approvals"]) -> None:
        """Note that an approval was asked for, or changed."""
        ...

    @property
    def is_watched(self) -> bool:
        """Return whether the web page is open somewhere."""
        ...


Decided = Callable[[Approval, bool], None]
"""Called with each decision, and whether it is to hold for later calls too."""


class ApprovalDesk:
    """The approvals of a hub or its group, those who wait for them here, and their file.

    ``shown`` notes whenever one begins, changes or ends. ``on_decided`` is called with each decision.
    """

    def __init__(
        self,
        context: HubContext,
        shown: ShownArguments,
        on_decided: Decided = lambda approval, remember: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._context, self._shown, self._on_decided = context, shown, on_decided
        self._loop, self._seconds, self._file = context.loop, clock, ApprovalFile(context.home)
        self._shared: PostgresApprovals | None = None
        self._ahead, self._seen = 0.0, -1
        self._approvals: Approvals | None = None
        self._loading: asyncio.Task[Approvals] | None = None
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._write_turn = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()
        self._version = self._on_disk = 0
        self._closing = False
        self._noting = threading.Lock()
        self.watches = ConnectionWatches(context.loop)
        self.past = PastDecisions(context.home)

    def clock(self) -> float:
        """Return seconds since 1970, by the clock of the group."""
        return self._seconds() + self._ahead

    def shown_arguments(self, arguments: bytes) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are long.

        Those of many long calls are cut earlier, so that all of them stay bounded.
        """
        waiting = self._approvals.kept() if self._approvals is not None else ()
        room = MOST_KEPT - sum(len(one.arguments) for one in waiting)
        return self._shown.without_secrets(arguments, LONGEST_KEPT if room > 0 else LEAST_KEPT)

    def shown_targets(self, targets: Iterable[JudgedTarget]) -> tuple[JudgedTarget, ...]:
        """Return the first targets without secrets, none of them longer than a person can read."""
        first = list(islice(targets, MOST_TARGETS))
        given = [{each.parameter[:LONGEST_TARGET]: each.value[:LONGEST_TARGET]} for each in first]
        written, _ = self._shown.without_secrets(msgspec.json.encode(given), LONGEST_KEPT)
        try:
            shown = msgspec.json.decode(written, type=list[dict[str, str]])
        except ValueError:
            shown = []
        values = [value for one in shown for value in one.values()]
        if len(values) != len(first):
            values = [HIDDEN] * len(first)
        return tuple(
            replace(target, value=value, parameter=target.parameter[:LONGEST_TARGET])
            for target, value in zip(first, values, strict=True)
        )

    def wait(self, caller: Caller) -> float:
        """Return for how many seconds a call waits for a person.

        Unless the setting says otherwise, it does not wait if nobody would notice.
        """
        seconds = self._context.settings.approval_wait
        if seconds != APPROVAL_WAIT or self._shown.is_watched or self.watches.has(caller.session):
            return seconds
        return 0.0

    # -- a group of hubs ---------------------------------------------------------------------------

    async def share(self, shared: PostgresApprovals) -> None:
        """Share the approvals with the other hubs of a group. Raises StoreError."""
        kept = (await self.approvals()).kept()
        _, found = await shared.change(lambda approvals: approvals.adopt(kept))
        self._shared = shared
        self._take(found)
        if kept:  # nobody may use them a second time
            await asyncio.to_thread(self._file.write, ())

    async def follow(self) -> None:
        """Copy what other hubs of the group have changed. Raises StoreError."""
        if self._shared is not None:
            self._take(await self._shared.read())

    def _take(self, found: GroupApprovals) -> None:
        """Take the approvals of the group, and tell those who wait what has changed."""
        if found.number < self._seen:
            return
        first, self._seen, self._ahead = self._seen < 0, found.number, found.now - self._seconds()
        before = {one.id: one.state for one in self._approvals.whole()} if self._approvals else {}
        self._approvals = Approvals(self.clock, found.approvals)
        after = {one.id: one for one in self._approvals.whole()}
        for id, one in after.items():
            if one.remember and before.get(id, "open") in ("open", "refused") and not first:
                try:
                    self._on_decided(one, True)
                except StoreError as error:
                    log.warning("what a person allowed for later calls is not kept here: %s", error)
        for id in {*before, *after}:
            if id not in after or before.get(id) != after[id].state:
                self._changed(id)

    async def _change(self, work: Callable[[Approvals], T]) -> T:
        """Change the approvals, for all hubs of a group at once. Raises StoreError, and as the work."""
        if self._shared is None:
            return work(await self.approvals())
        result, found = await self._shared.change(work)
        self._take(found)
        return result

    async def approvals(self) -> Approvals:
        """Return the approvals. They are read from the file when they are first needed."""
        if self._approvals is None:
            if self._loading is None:
                self._loading = self._loop.create_task(self._load())
            await asyncio.shield(self._loading)
        assert self._approvals is not None
        return self._approvals

    async def _load(self) -> Approvals:
        kept = await asyncio.to_thread(self._file.read)
        self._approvals = Approvals(self.clock, kept)
        self._watch_expiry()
        return self._approvals

    # -- calls -------------------------------------------------------------------------------------

    async def claim(self, binding: ApprovalBinding) -> Approval | None:
        """Use up the approval of a call; None if it has none. At the return, it is on disk that it is used.

        Raises StoreError if that cannot be written: the call must not be sent then.
        """
        used = await self._change(lambda approvals: approvals.claim(binding))
        if used is not None:
            self._changed(used.id)
            await self._on_disk_now()
        return used

    def give_back(self, used: Approval) -> None:
        """Make an approval valid again that :meth:`claim` has returned, because its call was not made."""
        self._change_later(used.id, lambda approvals: approvals.give_back(used))

    async def ask(self, wanted: Approval) -> Approval:
        """Ask for an approval, and return it; an earlier one if the same call waits already.

        Raises Forbidden as :meth:`Approvals.ask` does.
        """
        asked = await self._change(lambda approvals: approvals.ask(wanted))
        if asked is wanted:
            self._changed(asked.id)
            if self._shared is None:
                self._begin_write()
        return asked

    async def decided(self, id: str, seconds: float) -> Approval:
        """Return an approval when it is not open any more; after ``seconds`` as it is then.

        If the wait is canceled and nobody else waits for it, the approval is withdrawn: its caller is gone.
        """
        news: asyncio.Future[None] = self._loop.create_future()
        waiting = self._waiting.setdefault(id, set())
        waiting.add(news)
        try:
            if (await self.approvals()).find(id).state == "open" and seconds > 0:
                await asyncio.wait([news], timeout=seconds)
        except asyncio.CancelledError:
            if len(waiting) == 1:
                self.leave(id, waits=True)
            raise
        finally:
            waiting.discard(news)
            if not waiting:
                self._waiting.pop(id, None)
        return (await self.approvals()).find(id)

    def leave(self, id: str, *, waits: bool = False) -> None:
        """Withdraw an open approval if nobody waits for it: the caller that asked is gone.

        ``waits``: it is the one who waits.
        """
        if self._approvals is not None and not self._closing and (waits or not self._waiting.get(id)):
            self._change_later(id, lambda approvals: approvals.withdraw(id))

    def waiting(self, id: str) -> frozenset[asyncio.Future[None]]:
        """Return those who wait for a decision."""
        return frozenset(self._waiting.get(id, ()))

    # -- people ------------------------------------------------------------------------------------

    async def decide(self, id: str, *, approved: bool, by: str, way: str, remember: bool = False) -> Approval:
        """Note the decision of a person. At the return, it is on disk. Raises UnknownName and StoreError."""
        decided = await self._change(
            lambda approvals: approvals.decide(id, approved=approved, by=by, way=way, remember=remember)
        )
        self._begin(asyncio.to_thread(self._note_decision, decided))
        if self._shared is not None:
            return decided
        self._on_decided(decided, decided.remember)
        if not approved:
            self._changed(id)
        await self._on_disk_now()
        if approved:
            self._changed(id)
        return decided

    def letters(
        self, approvals: Sequence[Approval], schemas: Sequence[object], lang: Lang, *, whole: bool
    ) -> list[tuple[Letter, EarlierDecisions]]:
        """Return the letter of each approval as :meth:`letter`; whole, or as one of a list. Blocks."""
        budget = WHOLE if whole else IN_LIST
        return [self.letter(one, lang, budget, of) for one, of in zip(approvals, schemas, strict=True)]

    def letter(
        self, approval: Approval, lang: Lang, budget: Budget, schema: object = None
    ) -> tuple[Letter, EarlierDecisions]:
        """Return the letter of an approval, and what was decided about the same tool before. Blocks.

        ``schema`` is that of the tool, whose words about its parameters are added.
        """
        past = self.past.of(approval.binding.tool)
        changed = changed_fields(past, approval.arguments) if past.last_approved else None
        earlier = EarlierDecisions(
            past.approved, past.refused, past.last or None, past.last_approved or None, changed
        )
        return letter_of(approval, earlier, lang, budget, self.clock(), role_of_parameter, schema), earlier

    def _note_decision(self, decided: Approval) -> None:
        with self._noting:
            self.past.note(decided, self._seconds())
            self.past.write()

    def close(self) -> None:
        """Keep what is open: its callers lose their connections, but can go on with the next hub."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    async def written(self) -> None:
        """Wait until everything is on disk."""
        if self._writes:
            await asyncio.wait(self._writes)

    # -- changes -----------------------------------------------------------------------------------

    def _changed(self, id: str) -> None:
        for news in self._waiting.get(id, ()):
            if not news.done():
                news.set_result(None)
        self._watch_expiry()
        self._shown.topic_changed("approvals")

    def _watch_expiry(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._approvals.next_expiry if self._approvals is not None else None
        if due is not None and not self._closing:
            self._timer = self._loop.call_later(max(due - self.clock(), 0.0) + 0.01, self._expire)

    def _expire(self) -> None:
        assert self._approvals is not None
        self._timer = None
        for expired in self._approvals.expire():
            self._changed(expired.id)
        self._watch_expiry()

    async def _on_disk_now(self) -> None:
        if self._shared is None:
            await asyncio.shield(self._begin_write())

    def _begin_write(self) -> asyncio.Task[None]:
        """Begin to write the approvals as they are now."""
        self._version += 1
        return self._begin(self._write(self._version))

    def _change_later(self, id: str, work: Callable[[Approvals], Approval | None]) -> None:
        """Change an approval if that is still possible, without waiting for it."""
        if self._shared is not None:
            self._begin(self._change_for_group(work))
        elif self._approvals is not None and work(self._approvals) is not None:
            self._changed(id)
            self._begin_write()

    async def _change_for_group(self, work: Callable[[Approvals], Approval | None]) -> None:
        try:
            await self._change(work)
        except StoreError as error:
            log.warning("an approval could not be changed for the group, and expires: %s", error)

    def _begin(self, write: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin to write, in a task of its own, so that nobody cancels it."""
        writing = self._loop.create_task(write)
        self._writes.add(writing)
        writing.add_done_callback(self._wrote)
        return writing

    def _wrote(self, writing: asyncio.Task[None]) -> None:
        self._writes.discard(writing)
        if not writing.cancelled():
            writing.exception()  # whoever waits for it has it; an open approval just does not outlive the hub

    async def _write(self, version: int) -> None:
        async with self._write_turn:
            if self._on_disk >= version or self._shared is not None:
                return
            assert self._approvals is not None
            version, kept = self._version, self._approvals.kept()
            await asyncio.to_thread(self._file.write, kept)
            self._on_disk = version


MOST_WATCHES = 256
"""Connections that watch at the same time."""


class ConnectionWatches:
    """Waits of connections for the next approval that one of their own calls needs.

    ``asks``: a person sits at the connection and is asked.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[str, tuple[asyncio.Future[Approval], bool]] = {}

    async def next(self, session: str, *, asks: bool) -> Approval:
        """Return the next approval that a call of this connection waits for.

        Raises Conflict if the connection waits already, and HubError if too many do.
        """
        if session in self._open:
            raise Conflict(say("This connection waits for its next approval already."))
        if len(self._open) >= MOST_WATCHES:
            raise HubError(
                say("Too many connections wait for their next approval ({limit}).", limit=MOST_WATCHES)
            )
        asked: asyncio.Future[Approval] = self._loop.create_future()
        self._open[session] = asked, asks
        try:
            return await asked
        finally:
            del self._open[session]

    def has(self, session: str) -> bool:
        """Return whether a connection is told what its calls wait for."""
        return session in self._open

    def tell(self, session: str, approval: Approval) -> bool:
        """Tell a connection what its call waits for. Return whether a person is asked there."""
        asked, asks = self._open.get(session, (None, False))
        if asked is None or asked.done():
            return False
        asked.set_result(approval)
        return asks


LONGEST_TITLE, LONGEST_FOLDER = 300, 4_096

AT_ONCE = 64 << 10
"""Bytes of arguments above which their digest is made in a thread."""


Check = Callable[[Caller, CallTarget, bytes], object]
"""Raises Forbidden if a rule refuses a call by now."""


class GuardedCalls:
    """Makes the approval of each call that a person is asked about, and knows what each of them needs."""

    def __init__(
        self, desk: ApprovalDesk, gateway: Gateway, scripts: HubScripts, flows: HubFlows, check: Check
    ) -> None:
        self.desk, self.check, self.flows = desk, check, flows
        self._gateway, self._scripts = gateway, scripts

    def definition(self, target: CallTarget) -> str:
        """Return a digest of a tool's definition: as its server gave it, and as an override shows it."""
        tool = self._gateway.catalog.find(target.name) if target.kind == "tool" else None
        return "" if tool is None else hashlib.sha256(tool.digest.encode() + tool.definition).hexdigest()

    def title(self, target: CallTarget) -> str:
        """Return the title of a tool; empty if it has none."""
        tool = self._gateway.catalog.find(target.name) if target.kind == "tool" else None
        return "" if tool is None else tool.title[:LONGEST_TITLE]

    def trail(self, caller: Caller) -> ApprovalTrail | None:
        """Return what a caller has read; None if nothing that has a label."""
        private: dict[str, str] = {}
        untrusted: dict[str, str] = {}
        trails = [one for one in self.flows.trails_of(caller) if one.labels]
        for one in trails:
            private |= {source: tool for source, tool in one.private.items() if source not in private}
            untrusted |= {source: tool for source, tool in one.untrusted.items() if source not in untrusted}
        since = min((one.since for one in trails), default=0.0)
        return ApprovalTrail(private, untrusted, since) if trails else None

    def script(self, caller: Caller) -> RunningScript | None:
        """Return the script that makes a call; None if none does."""
        return self._scripts.running.get(caller.script) if caller.script else None

    def approval(
        self, verdicts: tuple[CallVerdict, ...], caller: Caller, target: CallTarget, arguments: bytes,
        request: str,
    ) -> GuardedApproval:  # fmt: skip
        """Return the approval of a call, which nobody is asked for yet."""
        return GuardedApproval(self, verdicts, caller, target, arguments, request)


class GuardedApproval:
    """A call that a person has to approve. Nobody is asked before :meth:`decided` is awaited."""

    __slots__ = ("_arguments", "_caller", "_calls", "_request", "_target", "_used", "verdicts")

    def __init__(
        self, calls: GuardedCalls, verdicts: tuple[CallVerdict, ...], caller: Caller, target: CallTarget,
        arguments: bytes, request: str,
    ) -> None:  # fmt: skip
        self._calls, self.verdicts = calls, verdicts
        self._caller, self._target, self._arguments, self._request = caller, target, arguments, request
        self._used: Approval | None = None

    async def decided(self) -> str:
        """Return what the audit log says of the approval, which is used up then.

        The request of an MCP client does not wait here: its session asks the client, and makes it again.
        Raises ApprovalRequired if nobody has decided, and Forbidden if somebody has refused.
        """
        desk, digest = self._calls.desk, await self._digest()
        used = await desk.claim(self._binding(digest))
        if used is None:
            asked = await desk.ask(await self._wanted(digest))
            if asked.state == "open" and not self._asked_by_session:
                asked = await self._decided(desk, asked)
            if asked.state == "open":
                raise approval_required(asked)
            used = await desk.claim(self._binding(digest))
            if used is None:
                raise refusal((await desk.approvals()).find(asked.id))
        self._calls.check(self._caller, self._target, self._arguments)
        self._used = used
        return used.note

    async def _decided(self, desk: ApprovalDesk, asked: Approval) -> Approval:
        """Wait for a person, and return the approval as it is then."""
        script = self._calls.script(self._caller)
        if script is None:
            return await self._told(desk, asked)
        script.asks(asked.id, lambda: self._told(desk, asked))  # it pauses, and calls again then
        return asked

    async def _told(self, desk: ApprovalDesk, asked: Approval) -> Approval:
        wait = desk.wait(self._caller)
        here = desk.watches.tell(self._caller.session, asked)
        return await desk.decided(asked.id, LIFE if here else wait)

    def give_back(self) -> None:
        """Make the approval valid again: its call was not made."""
        if self._used is not None:
            self._calls.desk.give_back(self._used)
            self._used = None

    @property
    def _asked_by_session(self) -> bool:
        return self._caller.face is Face.MCP and bool(self._request)

    async def _digest(self) -> str:
        given = self._arguments or b"{}"
        if len(given) <= AT_ONCE:
            return argument_digest(given).hex()
        return (await asyncio.to_thread(argument_digest, given)).hex()

    def _binding(self, digest: str) -> ApprovalBinding:
        """Return what the approval is bound to, with the definition of this moment."""
        target = self._target
        definition = self._calls.definition(target)
        return ApprovalBinding(self._caller.access.holder, target.name, target.server, definition, digest)

    async def _wanted(self, digest: str) -> Approval:
        desk, caller = self._calls.desk, self._caller
        shown, size = await asyncio.to_thread(desk.shown_arguments, self._arguments)
        now = desk.clock()
        return Approval(
            id=os.urandom(5).hex(),
            binding=self._binding(digest),
            asked=now,
            expires=now + LIFE,
            reasons=tuple(ApprovalReason.of(verdict) for verdict in self.verdicts),
            client=caller.client,
            label=caller.access.label,
            arguments=shown.decode("utf-8", "replace"),
            arguments_size=size,
            pairs=tuple(dict.fromkeys(pair for verdict in self.verdicts for pair in verdict.pairs)),
            title=self._calls.title(self._target),
            labels=self._calls.flows.labels_of(self._target),
            folder=(caller.cwd or next(iter(caller.roots), ""))[:LONGEST_FOLDER],
            trail=self._calls.trail(caller),
            targets=await asyncio.to_thread(
                desk.shown_targets, (target for verdict in self.verdicts for target in verdict.targets)
            ),
        )
