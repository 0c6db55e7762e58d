"""Lists of one instance: tools, prompts, resources, templates and skills, each requested separately.

A list is read at the start and whenever the server announces a change. Tools whose marks for HTTP headers are
invalid are left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Raw, Struct, field

from tabane.errors import UpstreamError, UpstreamTimeout
from tabane.messages import Message, say
from tabane.upstreams.call import InstanceOwner
from tabane.upstreams.connection import UpstreamContext
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import Peer, UpstreamRefused
from tabane.upstreams.subscriptions import Listener, UpstreamSubscriptions
from tabane.wire import json
from tabane.wire.era import METHOD_NOT_FOUND, SKILLS, Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.mirrored_arguments import MARK, mirror_fault

log = logging.getLogger(__name__)

_SHOWN = 200
_mark = MARK.encode()


class RefusedTool(NamedTuple):
    """The name of a tool that was left out, and why; both cut, with printable characters only."""

    tool: str
    reason: str


async def without_invalid_marks(definitions: Sequence[Raw]) -> tuple[list[Raw], list[RefusedTool]]:
    """Return the definitions that a client may use over HTTP, and the tools that it may not."""
    marked = sum(len(each) for each in definitions if _mark in bytes(each))
    if marked > LARGE:
        return await asyncio.to_thread(_sort_out, definitions)
    return _sort_out(definitions)


def _sort_out(definitions: Sequence[Raw]) -> tuple[list[Raw], list[RefusedTool]]:
    kept: list[Raw] = []
    refused: list[RefusedTool] = []
    for definition in definitions:
        fault = mirror_fault(bytes(definition))
        if fault is None:
            kept.append(definition)
        else:
            refused.append(
                RefusedTool(_printable(json.text(json.fields(definition).get("name"))), _printable(fault))
            )
    return kept, refused


def _printable(text: str | None) -> str:
    cut = (text or "")[:_SHOWN]
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cut)


REFRESH = 0.2
"""Seconds to wait after a list_changed for more of them, before listing again."""

FRESH = 5.0
"""Seconds for which a list is fresh if its server neither announces changes nor gives a time."""

LONGEST_REFRESH = 5.0
"""The longest delay, for a server that announces change after change."""

DECLARED, UNDECLARED = 30.0, 5.0
"""Seconds to wait for a page of a list, and for tools of a server that does not declare that it has any."""

MOST_PAGES = 1000

LARGE = 256 << 10
"""Bytes of a page above which it is parsed in a thread."""

MOST_LOGGED = 20
"""Tools that are left out and named in the log, each time the list is read."""

READ = 4
"""Limit for the size of all pages, as a multiple of the size of a list: they hold more than its items."""


class ListBudget(NamedTuple):
    """Limits of a list: bytes of its items, and number of items."""

    size: int
    items: int


class ListedItems(NamedTuple):
    """The kept items of a list, for how many seconds they are fresh, and whether there were more."""

    items: list[Raw]
    ttl: float | None = None
    cut: bool = False

    @property
    def size(self) -> int:
        return sum(map(len, self.items))


class ListMethod(Struct, frozen=True):
    """The method that asks for a list, the member of the result that holds it, and its capability.

    ``follows`` is the list whose announced changes may be changes of this one too.
    """

    method: str
    member: str
    capability: str
    follows: str = ""


LISTS = {
    "tools": ListMethod("tools/list", "tools", "tools"),
    "prompts": ListMethod("prompts/list", "prompts", "prompts"),
    "resources": ListMethod("resources/list", "resources", "resources"),
    "templates": ListMethod("resources/templates/list", "resourceTemplates", "resources"),
    # Files of a skill are resources, and there is no notification of skills alone.
    "skills": ListMethod("skills/list", "skills", SKILLS, follows="resources"),
}


class _ListState(Struct):
    """One list: when it was taken, how long that holds (as ``given`` by the server, or else taken), and
    the order of what is under way. ``size`` is that of its items."""

    known: asyncio.Event = field(default_factory=asyncio.Event)
    at: float = float("-inf")
    ttl: float = FRESH
    given: float | None = None
    size: int = 0
    delay: float = REFRESH
    started: int = 0
    taken: int = 0
    giving: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: asyncio.Task[None] | None = None
    running: asyncio.Task[None] | None = None


class UpstreamLists:
    """Lists of an instance, given to its owner one by one, each time they are read.

    If a list cannot be read, the others stay unchanged, and ``on_fault`` gets the reason. A list that the
    server has no capability for, or does not know, is empty. If a list is larger than the limits of the
    context allow for it or for all lists of the server, its first items are taken, and ``on_fault`` is
    called.
    """

    def __init__(
        self, server: str, context: UpstreamContext, owner: InstanceOwner, on_fault: Callable[[Message], None]
    ) -> None:
        self._server, self._context, self._loop = server, context, context.loop
        self._owner, self._on_fault = owner, on_fault
        self._conversation: Conversation | None = None
        self._states = {name: _ListState() for name in LISTS}
        self._tasks: set[asyncio.Task[None]] = set()

    def starting(self) -> None:
        """Forget which lists are known, because the server is being started."""
        for state in self._states.values():
            state.known.clear()

    def open(self, conversation: Conversation) -> None:
        """Read all lists of a server that has started."""
        self._conversation = conversation
        for name in LISTS:
            self.refresh(name)

    def lost(self) -> None:
        """Stop reading, because the connection has ended. Nobody waits for a list any longer."""
        self._conversation = None
        for task in self._tasks:
            task.cancel()
        for state in self._states.values():
            state.waiting = state.running = None
            state.known.set()

    async def known(self, name: str) -> None:
        """Wait until that list was read, or could not be read."""
        await self._states[name].known.wait()

    def changed(self, kind: str) -> None:
        """Read the lists of that kind again soon, because the server announced a change."""
        for name, listed in LISTS.items():
            if kind in (listed.capability, listed.follows):
                self.refresh(name, self._delay(name))

    def _delay(self, name: str) -> float:
        """Return how long to wait for more changes: longer each time while changes follow each other."""
        state = self._states[name]
        follows = self._loop.time() - state.at < 2 * state.delay
        state.delay = (
            min(2 * state.delay, LONGEST_REFRESH) if follows and state.waiting is None else state.delay
        )
        if not follows:
            state.delay = REFRESH
        return state.delay

    def refresh(self, name: str, delay: float = 0.0) -> None:
        """Read that list after ``delay`` seconds, unless that is planned already."""
        state = self._states[name]
        if state.waiting is None and self._conversation is not None:
            state.waiting = self._spawn(self._take_later(name, self._conversation, delay))

    def holds(self, name: str) -> float | None:
        """Return the seconds for which that list may be kept; None if the server says when it changes."""
        conversation, state = self._conversation, self._states[name]
        capability = LISTS[name].capability
        if conversation is None or conversation.peer is None or not conversation.peer.has(capability):
            return None
        announced = conversation.peer.can(capability, "listChanged")
        return state.given if announced else state.ttl

    def is_stale(self, name: str) -> bool:
        """Return whether that list may have changed unannounced. False if the server is not running."""
        conversation, state = self._conversation, self._states[name]
        if conversation is None or conversation.peer is None or not state.known.is_set():
            return False
        capability = LISTS[name].capability
        if not conversation.peer.has(capability) or conversation.peer.can(capability, "listChanged"):
            return False
        return self._loop.time() - state.at > state.ttl

    async def fresh(self, name: str) -> None:
        """Read that list again; callers at the same time share one request."""
        state = self._states[name]
        if self._conversation is None:
            return
        if state.running is None:
            state.running = self._spawn(self._take(name, self._conversation))
        # asyncio.wait, not await: a caller that gives up must not cancel the request of the others.
        await asyncio.wait([state.running])

    async def _take_later(self, name: str, conversation: Conversation, delay: float) -> None:
        await asyncio.sleep(delay)
        self._states[name].waiting = None
        await self._take(name, conversation)

    async def _take(self, name: str, conversation: Conversation) -> None:
        state, peer = self._states[name], conversation.peer
        if peer is None:
            return
        state.started = number = state.started + 1
        try:
            limits = self._context.limits
            others = sum(state.size for other, state in self._states.items() if other != name)
            size = max(0, min(limits.list_size, limits.catalogue_size - others))
            budget = ListBudget(size, limits.list_items)
            found = await list_all(conversation, LISTS[name], self._server, budget)
            if name == "tools" and peer.era is Era.MODERN and conversation.transport.mirrors_arguments:
                found = await self._usable(found)
        except UpstreamError as error:
            self._on_fault(error.message)
            log.warning("%s did not list its %s: %s", self._server, name, error)
        else:
            async with state.giving:
                await self._give(name, peer, number, found)
        finally:
            state.running = None
            state.known.set()

    async def _give(self, name: str, peer: Peer, number: int, found: ListedItems) -> None:
        """Pass a list on. If two requests overlap, the one sent later counts, and is passed on last."""
        state = self._states[name]
        if number <= state.taken:
            return
        state.taken, state.at, state.size = number, self._loop.time(), found.size
        state.given, state.ttl = found.ttl, FRESH if found.ttl is None else found.ttl
        if found.cut:
            self._tell_cut(name, found)
        count = sum(bytes(memoryview(item)[:1]) != b"{" for item in found.items)
        if count:
            self._on_fault(
                say(
                    "{count} of its {name} are not valid and were left out",
                    count=count,
                    name=name,
                )
            )
        waits = self._owner.listed(peer, name, found.items)
        if waits is not None:
            await waits

    async def _usable(self, found: ListedItems) -> ListedItems:
        """Return the tools that may be called over HTTP, as the specification demands of clients there."""
        kept, refused = await without_invalid_marks(found.items)
        for tool, reason in refused[:MOST_LOGGED]:
            log.warning("%s: left out the tool %r: %s", self._server, tool, reason)
        if refused:
            self._on_fault(
                say(
                    "{count} {count:tool|tools} left out, because an x-mcp-header annotation is not valid: "
                    "{tool} ({reason})",
                    count=len(refused), tool=refused[0].tool, reason=refused[0].reason)
            )  # fmt: skip
        return found._replace(items=kept)

    def _tell_cut(self, name: str, found: ListedItems) -> None:
        fault = say(
            "it lists too many {name}: only the first {count} ({kilobytes} KiB) are used. To raise "
            "the limits, set list_items, list_size or catalogue_size",
            name=LISTS[name].member, count=len(found.items), kilobytes=found.size >> 10)  # fmt: skip
        self._on_fault(fault)
        log.warning("%s: %s", self._server, fault)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def list_all(
    conversation: Conversation, wanted: ListMethod, server: str, budget: ListBudget
) -> ListedItems:
    """Return the items of a list, verbatim, following cursors; empty if the server does not have it.

    Tools are asked for in any case, since some servers have them and do not declare it. A list that does not
    end, or that is larger than the budget, is cut. Raises UpstreamError.
    """
    peer = conversation.peer
    if peer is None or not (peer.has(wanted.capability) or wanted.capability == "tools"):
        return ListedItems([])
    kept: list[Raw] = []
    seen: set[bytes] = set()
    cursor: Raw | None = None
    ttl: float | None = None
    size = read = 0
    for _ in range(MOST_PAGES):
        page = await _page(conversation, wanted, cursor)
        for item in await _items(page.get(wanted.member), wanted.member):
            size += len(item)
            if size > budget.size or len(kept) == budget.items:
                return ListedItems(kept, ttl, True)
            # A copy, so that keeping the item does not keep its whole page in memory.
            kept.append(item.copy())
        ttl = _shorter(ttl, json.member(page, "ttlMs"))
        read += sum(map(len, page.values()))
        cursor = page.get("nextCursor")
        if cursor is None or bytes(cursor) == b"null":
            return ListedItems(kept, ttl)
        if bytes(cursor) in seen or read > READ * budget.size:
            break
        seen.add(bytes(cursor))
    log.warning("%s: its %s does not end", server, wanted.method)
    return ListedItems(kept, ttl, True)


async def _page(conversation: Conversation, wanted: ListMethod, cursor: Raw | None) -> Members:
    declared = conversation.peer is not None and conversation.peer.has(wanted.capability)
    params: Members = {} if cursor is None else {"cursor": cursor}
    timeout = DECLARED if declared else UNDECLARED
    try:
        return await conversation.ask(wanted.method.encode(), params, timeout)
    except UpstreamRefused as refusal:
        if cursor is None and (refusal.code == METHOD_NOT_FOUND or not declared):
            return {}
        raise
    except UpstreamTimeout:
        if cursor is None and not declared:
            return {}
        raise


async def _items(raw: Raw | None, name: str) -> list[Raw]:
    try:
        if raw is None:
            return []
        return json.elements(raw) if len(raw) <= LARGE else await asyncio.to_thread(json.elements, raw)
    except InvalidJson:
        raise UpstreamError(say("its {name} are not a list", name=name)) from None


def _shorter(ttl: float | None, milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not milliseconds >= 0:
        return ttl
    seconds = milliseconds / 1000
    return seconds if ttl is None else min(ttl, seconds)


class OfferFollower(Protocol):
    """Follows the offers of an instance for somebody else than this hub's clients."""

    def changed(self, kind: str) -> None:
        """Note that the server announced a change of that kind of lists."""
        ...

    def lost(self) -> None:
        """Note that the connection to the server has ended, or ends now."""
        ...


class UpstreamOffers(UpstreamLists):
    """Lists and subscriptions of one instance, over restarts.

    ``owner`` also gets each log message, and each question whose client is not known.
    """

    def __init__(
        self, server: str, context: UpstreamContext, owner: InstanceOwner, on_fault: Callable[[Message], None]
    ) -> None:
        super().__init__(server, context, owner, on_fault)
        self.followers: set[OfferFollower] = set()
        self._subscriptions = UpstreamSubscriptions(server, context.loop, self._catch_up)

    def open(self, conversation: Conversation) -> None:
        """Read all lists of a server that has started, and subscribe to its changes."""
        super().open(conversation)
        self._subscriptions.open(conversation)

    def lost(self) -> None:
        """Stop reading, because the connection has ended; what is watched is remembered."""
        super().lost()
        self._subscriptions.lost()
        for follower in list(self.followers):
            follower.lost()

    async def watch(self, uri: str, listener: Listener, seconds: float) -> None:
        """Call ``listener`` when that resource changes. Raises UpstreamError, UpstreamTimeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._subscriptions.watch(uri, listener)
        except TimeoutError:
            raise UpstreamTimeout(say(
                "{server!n} did not confirm within {seconds:g} s that it announces changes of that resource.",
                server=self._server, seconds=seconds)) from None  # fmt: skip

    def unwatch(self, uri: str, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._subscriptions.unwatch(uri, listener)

    @property
    def watched(self) -> int:
        """Return the resources that somebody watches."""
        return len(self._subscriptions)

    def noticed(self, method: str, params: Raw) -> None:
        """Handle a notification or question of the server that belongs to no call."""
        match method.split("/"):
            case ["notifications", kind, "list_changed"]:
                self.changed(kind)
                for follower in list(self.followers):
                    follower.changed(kind)
            case ["notifications", "resources", "updated"]:
                self._subscriptions.updated(params)
            case ["notifications", "subscriptions", "acknowledged"]:
                self._subscriptions.acknowledged(params)
            case ["notifications", "message"]:
                self._owner.logged(params)
            case ["notifications", *_]:
                pass
            case _:
                self._owner.asked_nobody(method)

    def _catch_up(self, kinds: Iterable[str]) -> None:
        """Read those lists again, because changes were not announced for a while."""
        for kind in kinds:
            self.changed(kind)
