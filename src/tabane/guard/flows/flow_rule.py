"""The rule that judges calls by what their caller has read before, and learns from their results.

A policy says what may not follow what was read, and a person may let a call pass. A call that reads the page
at an address gives nothing else away than that address.

Tabane's own operations have labels by name. Posts and documents are the user's own. Pages are written by
strangers, and the address of a page can carry data out. Operations that save documents are no sinks: a
document keeps the labels of what its writer had read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from tabane.guard.flows.addresses import LONGEST_TEXT, plain_address, unescaped
from tabane.guard.flows.trails import LONGEST_KEY, OTHERS, Trail, TrailKey, Trails
from tabane.messages import Message, say
from tabane.messages.quoting import command_word
from tabane.operations import LOCAL, Caller, CallTarget, Face
from tabane.operations.door import CallVerdict
from tabane.servers.labels import (
    DESTRUCTIVE,
    EXTERNAL,
    NO_LABELS,
    PRIVATE,
    READ_LABELS,
    SINK_LABELS,
    UNTRUSTED,
    CallLabels,
)

FlowPolicy = Literal["off", "ask", "strict"]

BrokenRule = Literal["private-leaves", "untrusted-acts", "untrusted-leaves"]
"""``private-leaves``: something private and something untrusted were read, and the call is external.
``untrusted-acts``: something untrusted was read, and the call is destructive. ``untrusted-leaves``: only
something untrusted was read, and the call is external; a rule of the policy ``strict`` alone."""


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """Why a call may not simply begin.

    ``sources`` are the untrusted sources in question, each with the tool that was read there, and
    ``private`` is one private source. ``pairs`` are what a person has to allow: ``source>server``.
    """

    action: Literal["ask", "refuse"]
    rule: BrokenRule
    sources: tuple[tuple[str, str], ...]
    private: tuple[str, str]
    pairs: tuple[str, ...]


def broken_rule(policy: FlowPolicy, read: int, call: int) -> BrokenRule | None:
    """Return the rule that a call with the labels ``call`` breaks after ``read``; None if it breaks none."""
    if policy == "off" or not read & UNTRUSTED:
        return None
    if call & EXTERNAL and read & PRIVATE:
        return "private-leaves"
    if call & DESTRUCTIVE:
        return "untrusted-acts"
    return "untrusted-leaves" if policy == "strict" and call & EXTERNAL else None


def find_flow(
    policy: FlowPolicy, trails: Sequence[Trail], call: int, sink: str, allowed: Collection[str]
) -> FlowFinding | None:
    """Return why a call of the server ``sink`` may not begin; None if it may.

    ``trails`` are what counts for the caller. Each source of untrusted content makes a pair with the server,
    and each pair has to be allowed, for always or in this trail.
    """
    rule = broken_rule(policy, labels_read(trails), call)
    if rule is None:
        return None
    open_sources = tuple(
        (source, tool)
        for trail in trails
        for source, tool in trail.untrusted.items()
        if (pair := pair_of(source, sink)) not in allowed and not any(pair in one.passed for one in trails)
    )
    if not open_sources:
        return None
    return FlowFinding(
        "refuse" if policy == "strict" and rule != "untrusted-leaves" else "ask",
        rule,
        open_sources,
        next((each for trail in trails for each in trail.private.items()), ("", "")),
        tuple(pair_of(source, sink) for source, _ in open_sources),
    )


def labels_read(trails: Iterable[Trail]) -> int:
    """Return the labels of all that counts for a caller."""
    read = 0
    for trail in trails:
        read |= trail.labels
    return read


def pair_of(source: str, sink: str) -> str:
    """Return the name of a pair, such as ``web>mail``."""
    return f"{source}>{sink}"


MOST_NAMED = 3
"""Sources that a reason names."""


def flow_reason(finding: FlowFinding, tool: str, holder: str, *, fetches: bool = False) -> Message:
    """Return why a call is held back: what was read, what the call would do, and how it is allowed.

    ``fetches``: it reads the page at an address, and gives nothing else away. Pairs are allowed for one
    ``holder``. The command names it unless it is the user of this machine.
    """
    whose = "" if holder == LOCAL.holder else f" --holder {command_word(holder)}"
    read = ", ".join(name for _, name in finding.sources[:MOST_NAMED])
    pair = finding.pairs[0]
    if finding.rule == "private-leaves" and fetches:
        return say(
            "The address that {tool} would read may carry data out of this machine: it is long, looks "
            "encoded, holds something private, or is one of too many. Before it, this client read content "
            "that strangers can write ({read}) and private data ({private}). A person who wants such calls "
            "from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool,
            read=read,
            private=finding.private[1],
            pair=pair,
            whose=whose,
        )
    if finding.rule == "private-leaves":
        return say(
            "{tool} sends data out of this machine. Before it, this client read content that strangers can "
            "write ({read}) and private data ({private}), so that content may be what asks for it. A person "
            "who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool,
            read=read,
            private=finding.private[1],
            pair=pair,
            whose=whose,
        )
    if finding.rule == "untrusted-acts":
        return say(
            "{tool} does something that cannot be undone. Before it, this client read content that strangers "
            "can write ({read}), so that content may be what asks for it. A person who wants such calls from "
            "now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool,
            read=read,
            pair=pair,
            whose=whose,
        )
    return say(
        "{tool} sends data out of this machine. Before it, this client read content that strangers can write "
        "({read}). A person who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
        tool=tool,
        read=read,
        pair=pair,
        whose=whose,
    )


_PRIVATE = (
    "search_similar", "search_posts_by_text", "get_user_stats", "get_status", "get_post", "get_user_list",
    "get_related_posts", "get_timeline", "get_post_facets", "vector_search", "export_posts", "find_posts",
    "list_posts", "list_post_users", "list_post_tags", "suggest_users",
    "search_documents", "get_document", "get_documents_by_prefix", "list_documents", "list_document_folders",
    "search_everything", "query_audit_logs", "list_live_calls", "show_live_call", "server_logs", "put_file",
)  # fmt: skip
FETCHING = ("read_url_content", "remember_url", "read_site", "remember_site")
"""Operations that read the page at ``url``, or the site that it belongs to."""

_PAGES = ("list_pages",)
_DESTRUCTIVE = (
    "delete_document", "remove_server", "add_server", "change_server", "enable_server", "keep_server",
    "try_server", "set_tool_visibility", "logout_server", "change_setting", "save_profile", "remove_profile",
    "apply_fix",
    "keys_create", "keys_update", "keys_revoke", "sign_in_link", "unwatch_documents", "stop_server",
    "watch_documents", "add_documents",
)  # fmt: skip

OWN_LABELS = {
    **dict.fromkeys(_PRIVATE, PRIVATE),
    **dict.fromkeys(FETCHING, UNTRUSTED | EXTERNAL),
    **dict.fromkeys(_PAGES, UNTRUSTED),
    **dict.fromkeys(_DESTRUCTIVE, DESTRUCTIVE),
}


def labels_of_operation(target: CallTarget) -> CallLabels:
    """Return the labels of an operation. Pages and labeled documents in a result add theirs when read."""
    return NO_LABELS.with_labels(OWN_LABELS.get(target.name, 0), "built-in")


LONGEST = 1 << 14
"""Bytes of arguments with addresses. Longer ones are taken for something else."""

MOST_ADDRESSES = 5
MOST_OPTIONS = 4

_OPTION = re.compile(r"[A-Za-z][a-z_-]{0,11}")
_SENDING = re.compile(
    r"post|put|patch|delete|fill|type|upload|submit|evaluate|run_code|execute|\bact\b|agent", re.IGNORECASE
)


class Fetch(NamedTuple):
    """``addresses`` are those that are read; none if what is given is no address, so that nothing is read.

    ``again``: the call goes on with a page that was read. ``fresh``: no copy of a page will do, so that each
    call is a request to the site.
    """

    addresses: tuple[str, ...]
    again: bool = False
    fresh: bool = True


def fetch_of(target: CallTarget, labels: int, arguments: bytes, sent: Callable[[str], str]) -> Fetch | None:
    """Return what a call fetches; None if it does something else, or gives more away than addresses.

    ``sent`` returns an address as Tabane's own reader sends it; empty if it reads no such address.
    """
    own = not target.server and target.name in FETCHING
    fetching = target.kind == "tool" and labels & UNTRUSTED and labels & EXTERNAL and not labels & DESTRUCTIVE
    if not (own or (target.server and fetching)) or len(arguments) > LONGEST:
        return None
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    if own:
        address = given.get("url")
        found = sent(address) if isinstance(address, str) else ""
        fresh = bool(given.get("refresh")) or target.name.endswith("_site")
        return Fetch((found,) if found else (), bool(given.get("cursor")) and not fresh, fresh)
    if _SENDING.search(target.name.removeprefix(f"{target.server}__")):
        return None
    addresses = _only_addresses(given)
    return Fetch(addresses) if addresses else None


def _only_addresses(given: dict[str, object]) -> tuple[str, ...]:
    """Return the addresses among arguments; none if there are other texts than a few short options."""
    values = [
        each for value in given.values() for each in (value if isinstance(value, list) else [value])
    ]  # fmt: skip
    addresses: list[str] = []
    options = 0
    for value in values:
        if isinstance(value, str):
            if address := plain_address(value.strip()):
                addresses.append(address)
                continue
            if not _OPTION.fullmatch(value):
                return ()  # also a path of this machine: servers upload some
        elif isinstance(value, bool) or value is None:
            continue
        elif not isinstance(value, int | float) or abs(value) >= 10**6:
            return ()
        options += 1
    return tuple(addresses) if len(addresses) <= MOST_ADDRESSES and options <= MOST_OPTIONS else ()


RULE = "flow"
REPEAT = 1.0
"""Seconds for which a repetition of the last call is not noted again."""

LONGEST_ARGUMENTS = 1 << 18
"""Bytes of arguments that are read to see whether a recipient is given. In longer ones there is one."""

MOST_PRIVATE = 16 << 20
"""Characters of private texts that all trails keep together. The one used longest ago makes room."""

MOST_WRITTEN = 256
"""Servers that are known to hold what was written after something untrusted was read."""


class FlowRule:
    """Follows what callers read, and asks before a call that must not follow it.

    ``labels`` returns the labels of a target, ``allowed`` the pairs that a holder has allowed for always.
    ``grown`` is called with each trail that has to be on disk before the answer goes out. ``sent`` returns an
    address as the reader of pages sends it; empty if it does not read it at all.
    """

    def __init__(
        self,
        policy: FlowPolicy,
        trails: Trails,
        labels: Callable[[CallTarget], CallLabels],
        allowed: Callable[[str], Collection[str]],
        grown: Callable[[Trail], None],
        sent: Callable[[str], str] = plain_address,
    ) -> None:
        self.policy, self.trails = policy, trails
        self._labels, self._allowed, self._grown, self._sent = labels, allowed, grown, sent
        self._written: dict[str, None] = {}
        self._repeats: tuple[Caller, CallTarget, float] | None = None

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return the objection to a call; None if there is none. See :class:`CallRule`."""
        labels = self._labels(target)
        if not labels.bits & SINK_LABELS or not _is_judged(caller, target):
            return None
        trails = self._counting(trail_key(caller))
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        finding = self._find_finding(trails, labels, caller.access.holder, target, arguments, fetch)
        if finding is None:
            if fetch is not None:
                # The call begins: note its addresses, and what they use up of the bounds of the trail.
                read = labels_read(trails)
                bounded = read & READ_LABELS == READ_LABELS
                addresses = self.trails.use(trail_key(caller)).addresses
                for address in fetch.addresses:
                    price = addresses.price(address, again=fetch.again, fresh=fetch.fresh) if bounded else ""
                    addresses.take(address, price or "", trusted=not read & UNTRUSTED)
            return None
        if finding.action == "ask":
            for trail in trails[:1]:
                trail.asked.update(finding.pairs)
        reason = flow_reason(finding, target.name, caller.access.holder, fetches=fetch is not None)
        return CallVerdict(finding.action, RULE, reason, finding.pairs[:1])

    def found(self, caller: Caller, addresses: Iterable[str]) -> None:
        """Note that a caller was given the addresses of pages of the hub, which it may then read."""
        if caller.face is not Face.WEB:
            trail = self.trails.use(trail_key(caller))
            for address in addresses:
                trail.addresses.know(self._sent(address) or address)

    def answered(
        self,
        caller: Caller,
        target: CallTarget,
        arguments: bytes = b"",
        result: bytes | msgspec.Raw | None = b"",
    ) -> None:
        """Note what a caller reads in an answer, and the servers it wrote to. See :class:`CallGuard`."""
        labels = self._labels(target)
        if caller.face is not Face.WEB:
            self._learn_call(caller, target, labels, arguments, result)
        now, last = self.trails.clock(), self._repeats
        if last is not None and last[0] is caller and last[1] is target and abs(now - last[2]) < REPEAT:
            return  # the same call as a moment ago: its labels are noted
        source = source_of(target)
        if caller.approval and (trail := self.trails.find(trail_key(caller))) is not None:
            # A person has approved a call of this server, after being asked about it.
            approved = {pair for pair in trail.asked if pair.endswith(f">{source}")}
            if approved:
                trail.passed |= approved
                trail.asked -= approved
                self._grown(trail)
        self.note(caller, labels.bits & READ_LABELS, source, target.name)
        self._repeats = None if caller.approval else (caller, target, now)

    def _learn_call(
        self,
        caller: Caller,
        target: CallTarget,
        labels: CallLabels,
        arguments: bytes,
        result: bytes | msgspec.Raw | None,
    ) -> None:
        """Note the addresses that a call was given and gave back, and what it gave back that is private."""
        given = arguments[:LONGEST_ARGUMENTS] if len(arguments) > len(b"{}") else b""
        if result is None and labels.bits & PRIVATE:
            self.trails.use(trail_key(caller)).addresses.whole = False
        if not given and not result:
            return
        key = trail_key(caller)
        trail, fetch = self.trails.use(key), fetch_of(target, labels.bits, arguments, self._sent)
        poisoned = labels_read(self._counting(key)) & UNTRUSTED
        if fetch is not None and caller.approval:
            for address in fetch.addresses:  # a person has seen it
                trail.addresses.know(address)
        if given and not poisoned:
            trail.addresses.hear(
                unescaped(given.decode("utf-8", "replace")), asks=bool(labels.bits & READ_LABELS)
            )
        elif given and fetch is None:
            trail.addresses.write(unescaped(given.decode("utf-8", "replace")))
            if not labels.bits & READ_LABELS and len(self._written) < MOST_WRITTEN:
                self._written[source_of(target)] = None
        if result:
            text = bytes(memoryview(result)[:LONGEST_TEXT]).decode("utf-8", "ignore")
            self._learn_result(trail, target, labels.bits, text, fetch, poisoned=bool(poisoned))

    def _learn_result(
        self, trail: Trail, target: CallTarget, bits: int, text: str, fetch: Fetch | None, *, poisoned: bool
    ) -> None:
        addresses, source = trail.addresses, source_of(target)
        # A server may give back what was written to it after something untrusted was read.
        is_written = source in self._written or len(self._written) >= MOST_WRITTEN
        if bits & PRIVATE or (fetch is not None and source in trail.private):
            addresses.keep(text)
            self._make_room()
        if not ("://" in text or "www." in text or "](" in text or "\\/" in text):
            return
        if bits & UNTRUSTED:
            addresses.link(unescaped(text), fetch.addresses[0] if fetch and fetch.addresses else "")
        elif not target.server:
            if bits & PRIVATE:
                mixed = trail.untrusted.keys() & {"documents", OTHERS} and source != "posts"
                mixed = mixed or (source == "hub" and "pages" in trail.untrusted)
                (addresses.link if mixed else addresses.find)(unescaped(text))
        elif not poisoned or (bits & PRIVATE and not is_written):
            addresses.find(unescaped(text))

    def _make_room(self) -> None:
        kept = sum(trail.addresses.kept for trail in self.trails)
        for trail in self.trails:
            if kept <= MOST_PRIVATE:
                return
            kept -= trail.addresses.kept
            trail.addresses.drop()

    def forget(self) -> None:
        """Note each call again: trails were removed, or labels have changed."""
        self._repeats = None

    def note(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        """Note that a caller gets something with these labels. What a person sees is no concern."""
        if caller.face is Face.WEB:
            return
        key = trail_key(caller)
        if not labels and self.trails.find(key) is None:
            return  # who has read nothing needs no trail
        trail = self.trails.use(key)
        grown = trail.add(labels, source, tool) if labels else False
        if grown or (trail.labels and trail.is_stale):
            self._grown(trail)

    def read_by(self, caller: Caller) -> int:
        """Return the labels of what a caller has read."""
        return labels_read(self.trails_of(caller))

    def trails_of(self, caller: Caller) -> tuple[Trail, ...]:
        """Return the trails that count for a caller: its own first."""
        return self._counting(trail_key(caller))

    def view(self, key: TrailKey, target: CallTarget, arguments: bytes = b"") -> FlowFinding | None:
        """Return what stands against a call of an assistant, without noting anything."""
        labels = self._labels(target)
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        return self._find_finding(self._counting(key), labels, key.holder, target, arguments, fetch)

    def _find_finding(
        self,
        trails: tuple[Trail, ...],
        labels: CallLabels,
        holder: str,
        target: CallTarget,
        arguments: bytes,
        fetch: Fetch | None,
    ) -> FlowFinding | None:
        bits = labels.bits
        if not trails:
            return None
        if labels.if_given and arguments and not _gives_parameter(arguments, labels.if_given):
            bits &= ~EXTERNAL
        if bits & EXTERNAL and fetch is not None and self._carries_nothing(trails, fetch):
            bits &= ~EXTERNAL
        return find_flow(self.policy, trails, bits, source_of(target), self._allowed(holder))

    def _carries_nothing(self, trails: tuple[Trail, ...], fetch: Fetch) -> bool:
        """Return whether the addresses of a call carry nothing out of what was read."""
        addresses = trails[0].addresses
        addresses.refill(self.trails.clock())
        if any(trail.labels & PRIVATE for trail in trails[1:]):
            addresses.whole = False
        if self.policy == "strict":
            return all(map(addresses.knows, fetch.addresses))
        return all(
            addresses.price(each, again=fetch.again, fresh=fetch.fresh) is not None
            for each in fetch.addresses
        )

    def _counting(self, key: TrailKey) -> tuple[Trail, ...]:
        """Return the trails that count for a caller: its own first."""
        own, spilled = self.trails.find(key), self.trails.spilled()
        return tuple(trail for trail in (own, spilled) if trail is not None)


def trail_key(caller: Caller) -> TrailKey:
    """Return whose trail a call belongs to."""
    folder = caller.cwd or (caller.roots[0] if caller.roots else "")
    return TrailKey(caller.access.holder, caller.client[:LONGEST_KEY], folder[:LONGEST_KEY])


def source_of(target: CallTarget) -> str:
    """Return what a target belongs to, as pairs name it: its server, or what it is of Tabane's own."""
    return target.server or target.source


def _is_judged(caller: Caller, target: CallTarget) -> bool:
    """Return whether a call is judged.

    A person at the web page does as they please, and so does one in a terminal with Tabane itself.
    """
    if caller.face is Face.WEB:
        return False
    return bool(target.server) or caller.face is Face.MCP


def _gives_parameter(arguments: bytes, names: tuple[str, ...]) -> bool:
    """Return whether one of these parameters has a value that is not empty."""
    if len(arguments) > LONGEST_ARGUMENTS:
        return True
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return True
    return not isinstance(given, dict) or any(given.get(name) for name in names)
