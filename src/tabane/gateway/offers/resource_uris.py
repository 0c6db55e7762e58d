"""How a resource of a certain server is spelled: ``tabane://upstream/<server>/<its URI>``; pure.

A URI goes under its own name as long as one server alone has it. This spelling is for those that
several have, and it is understood for every other too. A URI is percent-encoded in it, so that it is
one segment of the path. A template stands there as it is, since an encoded expression is none, and so
does what a client made of it: whatever has a scheme of its own is verbatim, else it is decoded.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

OWN = "tabane:"
"""The scheme of the hub's own addresses: no server's URI is shown bare that begins with it."""

ROOT = "tabane://upstream/"

_AUTHORITY_END = re.compile(r"[/?#]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def address(server: str, uri: str) -> str:
    """The spelling of that server's resource."""
    return f"{ROOT}{_escaped(server)}/{_escaped(uri)}"


def template_address(server: str, template: str) -> str:
    """The spelling of that server's template: what it expands to is an address again."""
    return f"{ROOT}{_escaped(server)}/{template}"


def addressed(uri: str) -> tuple[str, str] | None:
    """(server, its own URI) of an address; None where it is another URI."""
    if uri[: len(ROOT)].lower() != ROOT:
        return None
    server, slash, rest = uri[len(ROOT) :].partition("/")
    if not (server and slash and rest):
        return None
    verbatim = "://" in rest or _SCHEME.match(rest)
    return _unescaped(server), rest if verbatim else _unescaped(rest)


def is_own(uri: str) -> bool:
    """Whether a URI is of the hub's own scheme, so that bare it could be taken for an address."""
    return uri[: len(OWN)].lower() == OWN


def scheme(uri: str) -> str:
    """The scheme of a URI with its colon; empty for none."""
    match = _SCHEME.match(uri)
    return match[0].lower() if match else ""


def authority(uri: str) -> str:
    """Scheme and authority of a URI, its scheme alone where it has no authority; empty for none."""
    start = scheme(uri)
    rest = uri[len(start) :]
    if not start or rest[:2] != "//":
        return start
    return start + "//" + _AUTHORITY_END.split(rest[2:], maxsplit=1)[0].lower()


def _escaped(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _unescaped(text: str) -> str:
    data = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
