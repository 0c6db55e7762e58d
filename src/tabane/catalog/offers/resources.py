"""Catalog of all resources and templates of all upstreams, and the servers that a URI belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Raw, Struct, field

from tabane.catalog.offers.resource_uris import (
    UriTemplate,
    address,
    addressed,
    authority,
    needs_address,
    scheme,
    template_address,
)
from tabane.catalog.tools.definition_repair import RepairReport
from tabane.catalog.tools.tool import by_key
from tabane.messages import Message
from tabane.wire.json import fields, join, quote

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
            self._items = tuple(_shown(listed, "uri", address))
        return self._items

    def template_items(self) -> Sequence[ResourceItem]:
        """Return all templates, in the same order."""
        if self._template_items is None:
            formed = {server: offered.templates for server, offered in self._by_server.items()}
            self._template_items = tuple(_shown(formed, "uriTemplate", template_address))
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
        return _sources([*makers, *self._neighbours(uri)], uri) if makers else ()

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
        return _sources([*self._neighbours(uri), *capable], uri)

    def _makers(self, uri: str) -> list[str]:
        """Return the servers with a template that matches a URI."""
        return [
            server
            for server, offered in self._by_server.items()
            if offered.capable and any(template.matches(uri) for template in self._templates(server))
        ]

    def _neighbours(self, uri: str) -> Iterator[str]:
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


def _shown(
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
