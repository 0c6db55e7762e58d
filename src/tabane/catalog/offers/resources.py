"""Catalog of all resources and templates of all upstreams, and the servers that a URI belongs to.

A client gets an address that contains the server's name where a URI alone is not clear. Clients subscribe to
changes of resources on the instances that serve them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw, Struct, field

from tabane.catalog.tools.app_metadata import escaped, kept_address, kept_addressed, kept_scheme, unescaped
from tabane.catalog.tools.definition_repair import RepairReport
from tabane.catalog.tools.tool import by_key
from tabane.errors import CallerError, TabaneError
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.json import InvalidJson, fields, join, quote

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream


log = logging.getLogger(__name__)

OWN = "tabane:"
"""The scheme of the hub's own addresses. A server's URI of this scheme is always shown as an address."""

ROOT = "tabane://upstream/"

_AUTHORITY_END = re.compile(r"[/?#]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def address(server: str, uri: str) -> str:
    """Return the address of that server's resource."""
    return kept_address(server, uri) or f"{ROOT}{escaped(server)}/{escaped(uri)}"


def template_address(server: str, template: str) -> str:
    """Return the address of that server's template. It expands to addresses."""
    return kept_address(server, template) or f"{ROOT}{escaped(server)}/{template}"


def addressed(uri: str) -> tuple[str, str] | None:
    """Return (server, its own URI) of an address; None for any other URI."""
    if uri[: len(ROOT)].lower() != ROOT:
        return kept_addressed(uri)
    server, slash, rest = uri[len(ROOT) :].partition("/")
    if not (server and slash and rest):
        return None
    verbatim = "://" in rest or _SCHEME.match(rest)
    return unescaped(server), rest if verbatim else unescaped(rest)


def needs_address(uri: str) -> bool:
    """Return whether a URI is always shown as an address: it could be mistaken for one, or has to be kept."""
    return uri[: len(OWN)].lower() == OWN or bool(kept_scheme(uri))


def scheme(uri: str) -> str:
    """Return the scheme of a URI with its colon; empty for none."""
    match = _SCHEME.match(uri)
    return match[0].lower() if match else ""


def authority(uri: str) -> str:
    """Return scheme and authority of a URI, its scheme if it has no authority, or an empty text."""
    start = scheme(uri)
    rest = uri[len(start) :]
    if not start or rest[:2] != "//":
        return start
    return start + "//" + _AUTHORITY_END.split(rest[2:], maxsplit=1)[0].lower()


# -- URI templates (RFC 6570, levels 1 to 3) --------------------------------------------------------

LONGEST_MATCHED = 2048
"""Maximum characters of a template or URI for matching; a longer one matches nothing."""

MOST_EXPRESSIONS = 32
"""Maximum expressions of a template for matching."""

_VARIABLE = r"[A-Za-z0-9_%.-]+(?::\d{1,4}|\*)?"
_EXPRESSION = re.compile(rf"\{{([+#./;?&]?){_VARIABLE}(?:,{_VARIABLE})*\}}")

# What follows an expression's first character, as the characters that it cannot hold.
_STOPS = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}
_LEADS = {"": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&"}


class UriTemplate:
    """A parsed URI template. ``prefix`` is the text before its first expression."""

    __slots__ = ("_parts", "prefix")

    def __init__(self, template: str) -> None:
        self._parts = _parse_template(template)
        first = self._parts[0] if self._parts else ""
        self.prefix = first if isinstance(first, str) else ""

    def matches(self, uri: str) -> bool:
        """Return whether the template expands to that URI for some values."""
        if self._parts is None or len(uri) > LONGEST_MATCHED or not uri.startswith(self.prefix):
            return False
        places = 1
        for part in self._parts:
            places = _after_text(part, uri, places) if isinstance(part, str) else _after(*part, uri, places)
            if not places:
                return False
        return bool(places >> len(uri))


_Part = str | tuple[str, str]
"""Text, or (first character, characters that cannot follow) of an expression."""


def _parse_template(template: str) -> tuple[_Part, ...] | None:
    if len(template) > LONGEST_MATCHED:
        return None
    parts: list[_Part] = []
    at = 0
    for expression in _EXPRESSION.finditer(template):
        parts.append(template[at : expression.start()])
        parts.append((_LEADS[expression[1]], _STOPS[expression[1]]))
        at = expression.end()
    parts.append(template[at:])
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) > MOST_EXPRESSIONS + 1 or any(brace in text for text in texts for brace in "{}"):
        return None
    return tuple(part for part in parts if part)


def _after_text(text: str, uri: str, places: int) -> int:
    """Return the places behind the text, of those before which it may stand."""
    found, at = 0, uri.find(text)
    while at >= 0:
        found |= 1 << at
        at = uri.find(text, at + 1)
    return (places & found) << len(text)


def _after(lead: str, stops: str, uri: str, places: int) -> int:
    """Return the places behind an expression: it may be empty, or else it begins with its lead."""
    started = _after_text(lead, uri, places) if lead else places
    held = int("0" + "".join("0" if letter in stops else "1" for letter in reversed(uri)), 2)
    # Adding carries each place to the end of its run of held characters; the bits passed have flipped.
    return places | started | (((started & held) + held) ^ held)


MOST = 20_000
"""Resources, and as many templates, that are taken of one server."""

MOST_MATCHED = 1000
"""Templates of one server that a URI is compared with; any others are only listed."""

MOST_SOURCES = 8
"""Servers that may be asked for one URI."""


class ResourceSource(Struct, frozen=True):
    """A server that may have a resource ``uri``. ``shown`` is the URI that the client uses."""

    server: str
    uri: str
    shown: str


class ResourceItem(NamedTuple):
    """A resource or template in a list: its URI as shown, its definition, its server, and its own URI."""

    shown: str
    definition: bytes
    server: str
    uri: str


class _ServerResources(Struct, frozen=True):
    """One server's resources by URI and templates. ``capable``: it answers resources/read."""

    resources: Mapping[str, Raw] = field(default_factory=dict)
    templates: Mapping[str, Raw] = field(default_factory=dict)
    capable: bool = True


class ResourceCatalog:
    """Resources by URI. The URI is an address if several servers list it, or if it always is one.

    ``version`` changes whenever what a client sees has changed. The configuration's ``allow`` and
    ``deny`` are about tools: every resource is offered.
    """

    def __init__(self) -> None:
        self.version = 0
        self._by_server: dict[str, _ServerResources] = {}
        self._items: tuple[ResourceItem, ...] | None = None
        self._template_items: tuple[ResourceItem, ...] | None = None
        self._owners: dict[str, list[str]] | None = None
        self._schemes: dict[str, frozenset[str]] = {}
        self._compiled: dict[str, tuple[UriTemplate, ...]] = {}
        self._reports: dict[str, dict[str, RepairReport]] = {}

    def put(
        self,
        server: str,
        resources: Iterable[Raw] | None = None,
        templates: Iterable[Raw] | None = None,
        *,
        capable: bool = True,
    ) -> bool:
        """Store what a server listed, None for lists it did not send again; return whether anything changed.

        An invalid definition, or one with a repeated URI, is left out and logged.
        """
        before = self._by_server.get(server, _ServerResources())
        listed, formed = before.resources, before.templates
        if resources is not None:
            listed = by_key(server, "resource", resources, self._report(server, "resources/list"), MOST)
        if templates is not None:
            report = self._report(server, "resources/templates/list")
            formed = by_key(server, "template", templates, report, MOST)
        return self._set(server, _ServerResources(listed, formed, capable))

    def _report(self, server: str, method: str) -> RepairReport:
        report = self._reports.setdefault(server, {})[method] = RepairReport(method)
        return report

    def repairs(self, server: str) -> list[Message]:
        """Return what was repaired and left out of the resources and templates of a server."""
        return [each for report in self._reports.get(server, {}).values() for each in report.messages()]

    def remove(self, server: str) -> bool:
        """Remove what a server offers."""
        self._reports.pop(server, None)
        return self._set(server, None)

    def has(self, server: str) -> bool:
        """Return whether the resources of that server are known."""
        return server in self._by_server

    def definition(self, server: str, uri: str) -> Raw | None:
        """Return how a server lists a resource, by its own URI; None if it does not list it."""
        return self._by_server.get(server, _ServerResources()).resources.get(uri)

    def of_server(self, server: str) -> object:
        """Return what a server offers: the same object until that changes."""
        return self._by_server.get(server)

    def counts(self, server: str) -> tuple[int, int]:
        """Return how many resources and templates a server offers."""
        offered = self._by_server.get(server, _ServerResources())
        return len(offered.resources), len(offered.templates)

    def items(self) -> Sequence[ResourceItem]:
        """Return all resources, by server and then as servers list them."""
        if self._items is None:
            listed = {server: offered.resources for server, offered in self._by_server.items()}
            self._items = tuple(_shown_items(listed, "uri", address))
        return self._items

    def template_items(self) -> Sequence[ResourceItem]:
        """Return all templates, in the same order."""
        if self._template_items is None:
            formed = {server: offered.templates for server, offered in self._by_server.items()}
            self._template_items = tuple(_shown_items(formed, "uriTemplate", template_address))
        return self._template_items

    def find(self, uri: str) -> tuple[ResourceSource, ...]:
        """Return where to read a URI, the likeliest first; empty if no server reads resources.

        An address belongs to the server in it, a listed URI or template to the servers that list it.
        Otherwise, servers whose templates match come first, then those that list something of the same
        authority or scheme. If no template matches, the URI may come from a result of a tool: then every
        server is a candidate.
        """
        return self.known(uri) or (() if addressed(uri) else self.guessed(uri))

    def known(self, uri: str) -> tuple[ResourceSource, ...]:
        """Return as :meth:`find` does, but only if a listed resource or template indicates a server."""
        at = addressed(uri)
        if at is not None and at[0] in self._by_server:
            return (ResourceSource(*at, uri),)
        owners = self._by_uri().get(uri)
        if owners:
            return _sources(owners, uri)
        makers = self._makers(uri)
        return _sources([*makers, *self._neighbors(uri)], uri) if makers else ()

    def claimants(self, uri: str) -> tuple[str, ...]:
        """Return the servers that list a URI, or else those with a template that matches it."""
        listed = self._by_uri().get(uri)
        return tuple(listed or self._makers(uri))

    def of_scheme(self, uri: str) -> tuple[str, ...]:
        """Return the servers that read resources and list one with the scheme of that URI."""
        wanted = scheme(uri)
        return tuple(
            server
            for server, offered in self._by_server.items()
            if offered.capable and wanted in self._kinds(server)
        )

    def guessed(self, uri: str) -> tuple[ResourceSource, ...]:
        """Return every server that reads resources, those first that list something of the same kind."""
        capable = [server for server, offered in self._by_server.items() if offered.capable]
        return _sources([*self._neighbors(uri), *capable], uri)

    def _makers(self, uri: str) -> list[str]:
        """Return the servers with a template that matches a URI."""
        return [
            server
            for server, offered in self._by_server.items()
            if offered.capable and any(template.matches(uri) for template in self._templates(server))
        ]

    def _neighbors(self, uri: str) -> Iterator[str]:
        """Yield servers that list a URI of the same authority, then of the same scheme."""
        for wanted in (authority(uri), scheme(uri)):
            for server, offered in self._by_server.items():
                if wanted and offered.capable and wanted in self._kinds(server):
                    yield server

    def _by_uri(self) -> dict[str, list[str]]:
        if self._owners is None:
            self._owners = _owners(
                {name: {**one.templates, **one.resources} for name, one in self._by_server.items()}
            )
        return self._owners

    def _templates(self, server: str) -> tuple[UriTemplate, ...]:
        if server not in self._compiled:
            listed = islice(self._by_server[server].templates, MOST_MATCHED)
            self._compiled[server] = tuple(map(UriTemplate, listed))
        return self._compiled[server]

    def _kinds(self, server: str) -> frozenset[str]:
        if server not in self._schemes:
            offered = self._by_server[server]
            uris = [*offered.resources, *offered.templates]
            self._schemes[server] = frozenset(kind(uri) for uri in uris for kind in (authority, scheme))
        return self._schemes[server]

    def _set(self, server: str, offered: _ServerResources | None) -> bool:
        before = self._by_server.get(server)
        if before == offered:
            return False
        if offered is None:
            del self._by_server[server]
        else:
            # Servers in order of name: a list must not depend on which server started first.
            self._by_server = dict(sorted({**self._by_server, server: offered}.items()))
        self._items = self._template_items = self._owners = None
        self._schemes.pop(server, None)
        self._compiled.pop(server, None)
        if not _visible(before) and not _visible(offered):
            return False
        self.version += 1
        return True


def _visible(offered: _ServerResources | None) -> bool:
    return offered is not None and bool(offered.resources or offered.templates)


def _owners(listed: Mapping[str, Mapping[str, Raw]]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for server, definitions in listed.items():
        for key in definitions:
            owners.setdefault(key, []).append(server)
    return owners


def _shown_items(
    listed: Mapping[str, Mapping[str, Raw]], member: str, spelled: Callable[[str, str], str]
) -> Iterator[ResourceItem]:
    """Yield each definition with its URI as shown, which is also its ``member``."""
    owners = _owners(listed)
    for server, definitions in listed.items():
        for key, definition in definitions.items():
            if len(owners[key]) == 1 and not needs_address(key):
                yield ResourceItem(key, bytes(definition), server, key)
            else:
                shown = spelled(server, key)
                renamed = join({**fields(definition), member: Raw(quote(shown))})
                yield ResourceItem(shown, renamed, server, key)


def _sources(servers: Iterable[str], uri: str) -> tuple[ResourceSource, ...]:
    return tuple(ResourceSource(server, uri, uri) for server in islice(dict.fromkeys(servers), MOST_SOURCES))


MOST_OF_SESSION = 1024

OnUpdated = Callable[[str, Raw], None]
"""Gets the watched URI as its client knows it, and the notification's params for that client."""


class ResourceWatch:
    """One resource that one session watches."""

    def __init__(self, caller: Caller, source: ResourceSource, on_updated: OnUpdated) -> None:
        self.caller, self.source, self.on_updated = caller, source, on_updated
        self.instance: Upstream | None = None
        self._ended = False

    async def begin(self, instance: Upstream) -> None:
        """Watch the resource at an instance, unless the watch has ended. Raises UpstreamError."""
        if not self._ended:
            self.instance = instance
            await instance.watch(self.source.uri, self._updated)

    def end(self) -> None:
        """Watch it no more."""
        self._ended = True
        if self.instance is not None:
            self.instance.offers.unwatch(self.source.uri, self._updated)

    def _updated(self, uri: str, params: Raw) -> None:
        self.on_updated(self.source.shown, renamed(params, self.source, uri))


class ResourceWatches:
    """The watched resources of all sessions, limited in number.

    If another instance of a server replaces one, they move to it. ``spawn`` runs background work.
    """

    def __init__(
        self, route: Callable[[Caller, str], Upstream], spawn: Callable[[Coroutine[None, None, None]], object]
    ) -> None:
        self._route, self._spawn = route, spawn
        self._by_session: dict[str, dict[str, ResourceWatch]] = {}
        self._count = 0

    async def watch(
        self, session: str, caller: Caller, source: ResourceSource, on_updated: OnUpdated
    ) -> None:
        """Call ``on_updated`` whenever the resource changes; replaces the session's former watch.

        Raises TabaneError if its server cannot be reached or refuses, or there are too many.
        """
        watch = ResourceWatch(caller, source, on_updated)
        before = self._by_session.get(session, {}).get(source.shown)
        if before is None:
            self._check_room(session)
            self._count += 1
        self._by_session.setdefault(session, {})[source.shown] = watch
        try:
            await watch.begin(self._route(caller, source.server))
        except BaseException:
            self._forget(session, watch)
            raise
        finally:
            # The old watch ends after the new one began, so the subscription at the server continues.
            if before is not None:
                before.end()
        if self._by_session.get(session, {}).get(source.shown) is not watch:
            watch.end()

    def unwatch(self, session: str, uri: str) -> None:
        """Stop watching that URI, as the client knows it."""
        watch = self._by_session.get(session, {}).get(uri)
        if watch is not None:
            self._forget(session, watch)
            watch.end()

    def leave(self, session: str) -> None:
        """Stop watching for a session that has ended."""
        for uri in list(self._by_session.get(session, ())):
            self.unwatch(session, uri)

    def moved(self, server: str) -> None:
        """Watch again on the new instances, after instances of a server may have been replaced."""
        for watches in self._by_session.values():
            for watch in watches.values():
                if watch.source.server == server:
                    self._spawn(self._follow(watch))

    async def _follow(self, watch: ResourceWatch) -> None:
        try:
            instance = self._route(watch.caller, watch.source.server)
            if instance is not watch.instance:
                await watch.begin(instance)
        except TabaneError as error:
            log.info("%s: %s is no longer watched: %s", watch.source.server, watch.source.uri, error)

    def _check_room(self, session: str) -> None:
        if len(self._by_session.get(session, ())) >= MOST_OF_SESSION:
            raise CallerError(say(
                "{count} {count:resource is|resources are} already watched, the limit for one client.",
                count=MOST_OF_SESSION))  # fmt: skip
        if self._count >= MOST:
            raise CallerError(say(

                    "{count} {count:resource is|resources are} already watched, the limit for all "
                    "clients together.",
                count=MOST))  # fmt: skip

    def _forget(self, session: str, watch: ResourceWatch) -> None:
        watches = self._by_session.get(session, {})
        if watches.get(watch.source.shown) is watch:
            del watches[watch.source.shown]
            self._count -= 1
            if not watches:
                del self._by_session[session]


def renamed(params: Raw, source: ResourceSource, uri: str) -> Raw:
    """Return the notification for the client: with its own URI, without the hub's subscription id."""
    try:
        members = json.fields(params)
    except InvalidJson:
        return params
    meta = eras.take_meta(members)
    meta.pop(eras.META_SUBSCRIPTION, None)
    if uri == source.uri:
        shown = source.shown
    else:
        shown = uri if source.shown == source.uri else address(source.server, uri)
    return Raw(eras.with_meta({**members, "uri": Raw(json.quote(shown))}, meta))
