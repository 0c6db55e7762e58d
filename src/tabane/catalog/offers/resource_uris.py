"""URIs of resources: addresses that contain a server's name, and matching of URI templates; pure.

A resource has its own URI here if only one server lists that URI. Otherwise it has its address,
``tabane://upstream/<server>/<its URI>``, which is accepted for every resource. The URI in an address is
percent-encoded, so that it is one segment of the path. A template in an address is verbatim, since an encoded
expression would not be one. So is a URI that a client expanded from it: a remainder that has a scheme is
taken verbatim, any other is decoded. A URI whose scheme has a meaning for hosts is always shown as an
address, and keeps that scheme there: :mod:`tabane.catalog.tools.kept_addresses`.
"""

from __future__ import annotations

import re

from tabane.catalog.tools.kept_addresses import escaped, kept_address, kept_addressed, kept_scheme, unescaped

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
        self._parts = _read(template)
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


def _read(template: str) -> tuple[_Part, ...] | None:
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
