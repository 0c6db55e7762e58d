"""The rule that judges calls by what their caller has read before, and learns from their results.

A policy says what may not follow what was read, and a person may let a call pass. A call that reads the page
at an address gives nothing else away than that address.

Tabane's own operations have labels by name. Posts and documents are the user's own. Pages are written by
strangers, and the address of a page can carry data out. Operations that save documents are no sinks: a
document keeps the labels of what its writer had read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from tabane.guard.flows.addresses import LONGEST_TEXT, host_of, plain_address, unescaped
from tabane.guard.flows.naming import MOST_COMPARED, KeptText, TargetNaming, TrailNames, TrailTexts
from tabane.guard.flows.targets import CallTargets, Target, arguments_of, targets_of
from tabane.guard.flows.tool_roles import NO_ROLES, ToolRoles
from tabane.guard.flows.trails import LONGEST_KEY, OTHERS, Trail, TrailKey, Trails, WrittenTexts
from tabane.messages import Message, say
from tabane.messages.quoting import command_word
from tabane.operations import LOCAL, Caller, CallTarget, Face
from tabane.operations.door import CallVerdict, JudgedTarget
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

    ``targets`` are what a person decides about: what the call reaches, deletes or does, and where that was
    named. ``sources`` are the untrusted sources that were read, each with its tool, and ``private`` is one
    private source. ``pairs`` are what a person may allow: ``tool>target``; none if that cannot be said.
    """

    action: Literal["ask", "refuse"]
    rule: BrokenRule
    sources: tuple[tuple[str, str], ...]
    private: tuple[str, str]
    targets: tuple[JudgedTarget, ...]
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


def labels_read(trails: Iterable[Trail]) -> int:
    """Return the labels of all that counts for a caller."""
    read = 0
    for trail in trails:
        read |= trail.labels
    return read


ANY = "*"
NOTHING = "-"
"""The target of a call that names none."""


def permission_of(tool: str, target: Target | None) -> str:
    """Return what a person allows for one target of a tool, such as ``mail__send>bob@example.com``."""
    return f"{tool}>{NOTHING if target is None else target.permitted}"


_PLAIN_MAIL = re.compile(r"[\w.+-]+@([\w.-]+)")
_PLAIN_HOST = re.compile(r"[\w.-]+(?::\d+)?")


def _permissions_for(tool: str, target: Target | None) -> Iterator[str]:
    """Yield what a person may have allowed for a target: the tool with it or with any, its domain."""
    name = NOTHING if target is None else target.permitted
    yield from (f"{tool}>{name}", f"{tool}>{ANY}")
    if target is None:
        return
    wider = [name]
    if target.kind == "address" and (mail := _PLAIN_MAIL.fullmatch(name)):
        wider.append(f"*@{mail[1]}")
    elif target.kind == "host" and _PLAIN_HOST.fullmatch(host := target.name.partition("/")[0]):
        wider.append(host)
    yield from (f"{each}>{one}" for one in wider for each in (tool, ANY))


MOST_NAMED = 3
"""Sources and targets that a reason names."""

LONGEST_SAID = 80
"""Characters of a target in a reason."""


def sources_read(finding: FlowFinding) -> str:
    """Return the tools that returned what strangers can write."""
    return ", ".join(list(dict.fromkeys(name for _, name in finding.sources))[:MOST_NAMED])


def flow_reason(finding: FlowFinding, tool: str, holder: str, *, fetches: bool = False) -> Message:
    """Return why a call is held back: what it reaches, who named that, what was read, and how it is allowed.

    ``fetches``: it reads the page at an address, and gives nothing else away. Permissions are for one
    ``holder``. The command names it unless it is the user of this machine.
    """
    whose = "" if holder == LOCAL.holder else f" --holder {command_word(holder)}"
    read = sources_read(finding)
    private = finding.private[1]
    pair = finding.pairs[0] if finding.pairs else permission_of(tool, None)
    if fetches:
        return say(
            "The address that {tool} would read may carry data out of this machine: it is long, looks "
            "encoded, holds something private, or is one of too many. Before it, this client read content "
            "that strangers can write ({read}) and private data ({private}). A person who wants such calls "
            "from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool, read=read, private=private, pair=pair, whose=whose,
        )  # fmt: skip
    if private and private not in read:
        read = f"{read}, {private}"
    targets = ", ".join(target.value[:LONGEST_SAID] for target in finding.targets[:MOST_NAMED])
    first = finding.targets[0] if finding.targets else None
    if first is None:
        return say(
            "{tool} sends data away or does something that cannot be undone. Before it, this client read "
            "content that strangers can write ({read}), so that content may be what asks for it. A person "
            "who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool, read=read, pair=pair, whose=whose,
        )  # fmt: skip
    if first.naming == "nowhere":
        return say(
            "{tool} is called for {targets}. Nothing that is still known says who named that, and this "
            "client read content that strangers can write ({read}), so that content may be what asks for it. "
            "A person who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool, targets=targets, read=read, pair=pair, whose=whose,
        )  # fmt: skip
    if first.naming == "disguised":
        return say(
            "{tool} is called for {targets}. Content that strangers can write names it in another spelling "
            "or in parts ({named}), so that content may be what asks for it. This client read: {read}. A "
            "person who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool, targets=targets, named=first.tool, read=read, pair=pair, whose=whose,
        )  # fmt: skip
    return say(
        "{tool} is called for {targets}. Only content that strangers can write names it ({named}), so that "
        "content may be what asks for it. This client read: {read}. A person who wants such calls from now "
        "on runs: tabane policy allow {pair!c}{whose}.",
        tool=tool, targets=targets, named=first.tool, read=read, pair=pair, whose=whose,
    )  # fmt: skip


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
    if not (own or (target.server and fetching)):
        return None
    given = arguments_of(arguments, LONGEST)
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


def _with_scheme(text: str) -> str:
    return f"https://{text}" if text.startswith("www.") else text


def _only_addresses(given: dict[str, object]) -> tuple[str, ...]:
    """Return the addresses among arguments; none if there are other texts than a few short options."""
    values = [
        each for value in given.values() for each in (value if isinstance(value, list) else [value])
    ]  # fmt: skip
    addresses: list[str] = []
    options = 0
    for value in values:
        if isinstance(value, str):
            if address := plain_address(_with_scheme(value.strip())):
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

LONGEST_ARGUMENTS = 1 << 17
"""Bytes of arguments that are read to see whom a call reaches. Longer ones are asked about."""

MOST_KEPT = 16 << 20
"""Bytes of texts that all trails keep together. The one used longest ago makes room."""

MOST_ASKED = 1_000
"""Targets that one trail was asked about, or has let pass."""

MOST_WRITTEN = 256
"""Servers that are known to hold what was written after something untrusted was read."""

Roles = Callable[[CallTarget], ToolRoles]
"""Returns what the parameters of a target are for, and what it gives back."""


_KEEPING = re.compile(
    r"write|save|create|add|append|store|update|put|insert|remember|note|memo|set|edit|patch|post|log|new|"
    r"保存|記録|追加|作成|更新",
    re.IGNORECASE,
)
"""Names of tools whose servers may give back later what they are given."""


class FlowRule:
    """Follows what callers read, and asks before a call that must not follow it.

    ``labels`` returns the labels of a target, ``allowed`` what a holder has allowed for always. ``grown`` is
    called with each trail that has to be on disk before the answer goes out. ``sent`` returns an address as
    the reader of pages sends it; empty if it does not read it at all. ``roles`` says more of tools, and
    ``written`` knows the texts that servers were given after something untrusted was read.
    """

    def __init__(
        self,
        policy: FlowPolicy,
        trails: Trails,
        labels: Callable[[CallTarget], CallLabels],
        allowed: Callable[[str], Collection[str]],
        grown: Callable[[Trail], None],
        sent: Callable[[str], str] = plain_address,
        roles: Roles = lambda target: NO_ROLES,
        written: WrittenTexts | None = None,
    ) -> None:
        self.policy, self.trails = policy, trails
        self._labels, self._allowed, self._grown, self._sent = labels, allowed, grown, sent
        self._roles, self._texts_written = roles, written if written is not None else WrittenTexts()
        self._written: dict[str, None] = {}
        self._repeats: tuple[Caller, CallTarget, float] | None = None
        self._key: tuple[Caller, TrailKey] | None = None
        self._names: tuple[tuple[tuple[TrailTexts, int, int], ...], TrailNames] | None = None

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return the objection to a call; None if there is none. See :class:`CallRule`."""
        labels = self._labels(target)
        if not labels.bits & SINK_LABELS or not _is_judged(caller, target):
            return None
        key = self._key_of(caller)
        trails = self.trails.counting(key)
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        finding = self._find_finding(trails, labels, key.holder, target, arguments, fetch)
        if finding is None:
            if fetch is not None:
                # The call begins: note its addresses, and what they use up of the bounds of the trail.
                read = labels_read(trails)
                bounded = read & READ_LABELS == READ_LABELS
                addresses = self.trails.use(key).addresses
                for address in fetch.addresses:
                    price = addresses.price(address, again=fetch.again, fresh=fetch.fresh) if bounded else ""
                    addresses.take(address, price or "", trusted=not read & UNTRUSTED)
            return None
        if finding.action == "ask":
            asked = self.trails.use(key).asked
            if len(asked) + len(finding.pairs) > MOST_ASKED:
                asked.clear()
            asked.update(finding.pairs)
        reason = flow_reason(finding, target.name, key.holder, fetches=fetch is not None)
        return CallVerdict(finding.action, RULE, reason, finding.pairs, finding.targets)

    def found(self, caller: Caller, addresses: Iterable[str]) -> None:
        """Note that a caller was given the addresses of pages of the hub, which it may then read."""
        if caller.face is not Face.WEB:
            trail = self.trails.use(self._key_of(caller))
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
        if caller.face is Face.WEB:
            return
        labels = self._labels(target)
        key, bits = self._key_of(caller), labels.bits & READ_LABELS
        source = target.server or target.source
        if result and not bits & UNTRUSTED and self._texts_written.has(source):
            bits |= self._texts_written.labels_of(source, result)
        trail: Trail | None = None
        if len(arguments) > 2 or result or result is None or bits & UNTRUSTED:
            trail = self.trails.use(key)
            self._learn_call(trail, caller, target, labels.bits | bits, arguments, result)
        now, last = trail.used if trail is not None else self.trails.clock(), self._repeats
        if last is not None and last[0] is caller and last[1] is target and abs(now - last[2]) < REPEAT:
            return  # the same call as a moment ago: its labels are noted
        if caller.approval:
            self._let_pass(key, labels, target, arguments)
        self._note(key, bits, source, target.name, trail)
        self._repeats = None if caller.approval else (caller, target, now)

    def _let_pass(self, key: TrailKey, labels: CallLabels, target: CallTarget, arguments: bytes) -> None:
        """Note what a person has approved with a call: what it was asked about, and nothing else."""
        trail = self.trails.find(key)
        if trail is None or not trail.asked:
            return
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        found = self._targets(target, labels.bits, arguments, fetch)
        if not found.complete:
            return
        approved = {permission_of(target.name, each) for each in found.targets or (None,)} & trail.asked
        if approved:
            trail.passed |= approved
            trail.asked -= approved
            while len(trail.passed) > MOST_ASKED:
                trail.passed.pop()
            self._grown(trail)

    def _learn_call(
        self,
        trail: Trail,
        caller: Caller,
        target: CallTarget,
        bits: int,
        arguments: bytes,
        result: bytes | msgspec.Raw | None,
    ) -> None:
        """Note the texts and addresses that a call was given and gave back."""
        if not result:
            if result is None and bits & PRIVATE:
                trail.addresses.whole = False
            own = not target.server and target.kind != "list"  # lists of tools are no content
            if bits & UNTRUSTED or (result is None and own and trail.untrusted):
                trail.texts.whole = False  # nobody knows what it said
        read = trail.labels
        if not read & UNTRUSTED and self.trails.are_shared(trail.key):
            read = labels_read(self.trails.counting(trail.key))
        poisoned = bool(read & UNTRUSTED)
        fetch = fetch_of(target, bits, arguments, self._sent) if bits & EXTERNAL else None
        if fetch is not None and caller.approval:
            for address in fetch.addresses:  # a person has seen it
                trail.addresses.know(address)
        if len(arguments) > 2:
            given = arguments[:LONGEST_ARGUMENTS]
            if poisoned or not trail.texts.is_full("said"):
                acts = bool(bits & DESTRUCTIVE)
                self._keep(trail, KeptText("written" if poisoned else "said", given, acts=acts))
            if poisoned:
                self._learn_written(trail, target, bits, read, given, fetch)
            else:
                trail.addresses.hear(given, asks=bits & READ_LABELS != 0)
        if result:
            body = result if isinstance(result, bytes) else bytes(memoryview(result)[:LONGEST_TEXT])
            self._learn_result(trail, target, bits, body[:LONGEST_TEXT], fetch, poisoned=poisoned)
            if len(result) > LONGEST_TEXT and bits & UNTRUSTED:
                trail.texts.whole = False

    def _learn_written(
        self, trail: Trail, target: CallTarget, bits: int, read: int, given: bytes, fetch: Fetch | None
    ) -> None:
        """Note what was given away after something untrusted was read: it may come back in a result."""
        if fetch is None:
            if b"/" in given:
                trail.addresses.write(unescaped(given.decode("utf-8", "replace")))
            if not bits & READ_LABELS:
                source = target.server or target.source
                keeps = not target.server or _KEEPING.search(target.name) or self._roles(target).memory
                if keeps and len(self._written) < MOST_WRITTEN:  # a mail that is sent adds no contact
                    self._written[source] = None
                if keeps and target.server:
                    read = labels_read(self.trails.counting(trail.key))
                    self._texts_written.note(source, given, read & READ_LABELS)

    def _keep(self, trail: Trail, text: KeptText) -> None:
        self.trails.kept += trail.texts.add(text)
        if self.trails.kept > MOST_KEPT:
            self.trails.make_room(MOST_KEPT)

    def _learn_result(
        self, trail: Trail, target: CallTarget, bits: int, body: bytes, fetch: Fetch | None, *, poisoned: bool
    ) -> None:
        addresses, source = trail.addresses, target.server or target.source
        mixed = False
        if not target.server and bits & PRIVATE:  # a document may hold something untrusted
            mixed = bool(trail.untrusted.keys() & {"documents", OTHERS}) and source != "posts"
            mixed = mixed or (source == "hub" and "pages" in trail.untrusted)
        # A server may give back what was written to it after something untrusted was read.
        is_written = source in self._written or len(self._written) >= MOST_WRITTEN
        trusted = not poisoned or (bits & PRIVATE and (not target.server or not is_written))
        if bits & UNTRUSTED or mixed:
            listing = fetch is None and bool(target.server) and self._roles(target).result == "records"
            homes = tuple(map(host_of, fetch.addresses)) if fetch is not None else ()
            self._keep(trail, KeptText("others", body, source, target.name, listing, homes=homes))
        elif poisoned or not trail.texts.is_full("own"):
            public = not (trusted and bits & PRIVATE)
            self._keep(
                trail,
                KeptText("later" if poisoned else "own", body, source, target.name, public=public),
            )
        if bits & PRIVATE or (fetch is not None and source in trail.private):
            self.trails.kept += addresses.keep(body)
            if self.trails.kept > MOST_KEPT:
                self.trails.make_room(MOST_KEPT)
        is_named = b"/" in body and (b"://" in body or b"\\/" in body)
        if not (is_named or (b"." in body and b"www." in body) or (fetch is not None and b"](" in body)):
            return  # most results: looking for one byte takes the least time
        text = unescaped(body.decode("utf-8", "ignore"))
        if bits & UNTRUSTED:
            addresses.link(text, fetch.addresses[0] if fetch and fetch.addresses else "")
        elif not target.server:
            if bits & PRIVATE:
                (addresses.link if mixed else addresses.find)(text)
        elif trusted:
            addresses.find(text)

    def forget(self) -> None:
        """Note each call again: trails were removed, or labels have changed."""
        self._repeats = self._names = None

    def note(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        """Note that a caller gets something with these labels. What a person sees is no concern."""
        if caller.face is not Face.WEB:
            self._note(self._key_of(caller), labels, source, tool)

    def _note(self, key: TrailKey, labels: int, source: str, tool: str, trail: Trail | None = None) -> None:
        if trail is None:
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
        return self.trails.counting(self._key_of(caller))

    def view(self, key: TrailKey, target: CallTarget, arguments: bytes = b"") -> FlowFinding | None:
        """Return what stands against a call of an assistant, without noting anything."""
        labels = self._labels(target)
        fetch = fetch_of(target, labels.bits, arguments, self._sent)
        return self._find_finding(self.trails.counting(key), labels, key.holder, target, arguments, fetch)

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
        rule = broken_rule(self.policy, labels_read(trails), bits)
        if rule is None:
            return None
        allowed, sink = self._allowed(holder), source_of(target)
        sources = tuple(
            (source, tool)
            for trail in trails
            for source, tool in trail.untrusted.items()
            if f"{source}>{sink}" not in allowed  # as earlier versions wrote it
        )
        if not sources:
            return None

        def passes(one: Target | None) -> bool:
            exact = permission_of(target.name, one)
            return any(exact in trail.passed for trail in trails) or any(
                each in allowed for each in _permissions_for(target.name, one)
            )

        found = self._targets(target, bits, arguments, fetch)
        asked: tuple[JudgedTarget, ...] = ()
        pairs: tuple[str, ...] = ()
        if not found.targets or not found.complete:
            if found.complete and passes(None):
                return None
            pairs = (permission_of(target.name, None),) if found.complete else ()
        else:
            opened = self._judged(trails, found, target, bits, fetch, passes)
            if not opened:
                return None
            asked = tuple(judged for _, judged in opened)
            pairs = tuple(dict.fromkeys(permission_of(target.name, one) for one, _ in opened))
        return FlowFinding(
            "refuse" if self.policy == "strict" and rule != "untrusted-leaves" else "ask",
            rule,
            sources,
            next((each for trail in trails for each in trail.private.items()), ("", "")),
            asked,
            pairs,
        )

    def _targets(self, target: CallTarget, bits: int, arguments: bytes, fetch: Fetch | None) -> CallTargets:
        """Return what a call reaches, deletes or does."""
        if fetch is not None:
            return CallTargets(tuple(Target("host", host_of(each), "url") for each in fetch.addresses))
        given = arguments_of(arguments, LONGEST_ARGUMENTS)
        return targets_of(_tool_name(target), bits, given, self._roles(target).role)

    def _judged(
        self,
        trails: tuple[Trail, ...],
        found: CallTargets,
        target: CallTarget,
        bits: int,
        fetch: Fetch | None,
        passes: Callable[[Target], bool],
    ) -> list[tuple[Target, JudgedTarget]]:
        """Return the targets of a call that a person has to decide about."""
        waiting = [one for one in found.targets if not passes(one)]
        if not waiting:
            return []
        if fetch is not None:
            return [(one, JudgedTarget("host", one.value, one.parameter)) for one in waiting]
        names = self._names_of(trails)
        names.budget = MOST_COMPARED
        sink, leaves = source_of(target), bool(bits & EXTERNAL) and not found.deletes
        # A tool that fetches gives its address and whatever else it is given to a site.
        asks_always = self.policy == "strict" or (leaves and bool(bits & UNTRUSTED))
        opened: list[tuple[Target, JudgedTarget]] = []
        for one in sorted(waiting, key=lambda one: not one.inside):  # texts first: names depend on them
            if names.knows(one, deletes=found.deletes, leaves=leaves):
                continue
            naming = names.find(one, sink, deletes=found.deletes, leaves=leaves, clean=not opened)
            if naming is None:
                if one.inside or not (asks_always or one.kind == "program"):
                    continue
                naming = TargetNaming("nowhere")
            opened.append((one, JudgedTarget(one.kind, one.value, one.parameter, *naming)))
        order = {one: place for place, one in enumerate(found.targets)}
        return sorted(opened, key=lambda each: order[each[0]])

    def _names_of(self, trails: tuple[Trail, ...]) -> TrailNames:
        """Return the names in the texts of trails. Those of the last call are kept: they take time."""
        state = tuple((trail.texts, trail.texts.stamp, len(trail.private)) for trail in trails)
        if self._names is None or self._names[0] != state:
            private = frozenset(source for trail in trails for source in trail.private)
            earlier = self._names[1] if self._names is not None else None
            self._names = state, TrailNames([trail.texts for trail in trails], private, earlier)
        return self._names[1]

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

    def _key_of(self, caller: Caller) -> TrailKey:
        """Return whose trail a call belongs to. That of the last caller is remembered."""
        last = self._key
        if last is not None and last[0] is caller:
            return last[1]
        key = trail_key(caller)
        self._key = caller, key
        return key


def trail_key(caller: Caller) -> TrailKey:
    """Return whose trail a call belongs to."""
    folder = caller.cwd or (caller.roots[0] if caller.roots else "")
    if folder.startswith("/"):
        folder = posixpath.normpath(folder)  # with or without a slash at its end, it is one
    return TrailKey(caller.access.holder, caller.client[:LONGEST_KEY], folder[:LONGEST_KEY])


def source_of(target: CallTarget) -> str:
    """Return what a target belongs to, as pairs name it: its server, or what it is of Tabane's own."""
    return target.server or target.source


def _tool_name(target: CallTarget) -> str:
    return target.name.removeprefix(f"{target.server}__") if target.server else target.name


def _is_judged(caller: Caller, target: CallTarget) -> bool:
    """Return whether a call is judged.

    A person at the web page does as they please, and so does one in a terminal with Tabane itself.
    """
    if caller.face is Face.WEB:
        return False
    return bool(target.server) or caller.face is Face.MCP


def _gives_parameter(arguments: bytes, names: tuple[str, ...]) -> bool:
    """Return whether one of these parameters has a value that is not empty."""
    given = arguments_of(arguments, LONGEST_ARGUMENTS)
    return not isinstance(given, dict) or any(given.get(name) for name in names)
