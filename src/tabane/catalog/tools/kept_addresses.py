"""Addresses of resources whose scheme has a meaning for hosts, such as ``ui://``; pure.

A host shows a resource as a page only if its URI begins with ``ui://``, and keeps the page by that URI. Such
a URI is always shown as an address with its server, ``ui://tabane/<server>/<what follows ui://>``, whichever
other servers there are. Servers need not list these resources, so a collision could go unnoticed, or come
after a host has kept the page. An address depends on nothing but the server's name, so it never leads to
another server's resource. What follows the server is verbatim: relative references between resources stay
right.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

KEPT_SCHEMES = ("ui://", "skill://")
"""Beginnings of URIs that keep their scheme: pages of MCP Apps, and skills."""

HOST = "tabane/"
"""What follows the scheme of an address. A server's own URI with it is shown as an address as well."""


def kept_scheme(uri: str) -> str:
    """Return the beginning of a URI whose scheme is kept, as it is spelled; empty for other URIs."""
    for start in KEPT_SCHEMES:
        if uri[: len(start)].lower() == start:
            return uri[: len(start)]
    return ""


def kept_address(server: str, uri: str) -> str | None:
    """Return the address of a server's resource or template; None if its scheme is not kept."""
    start = kept_scheme(uri)
    return f"{start}{HOST}{escaped(server)}/{uri[len(start) :]}" if start else None


def kept_addressed(uri: str) -> tuple[str, str] | None:
    """Return (server, its own URI) of such an address; None for any other URI."""
    start = kept_scheme(uri)
    rest = uri[len(start) :]
    server, slash, own = rest[len(HOST) :].partition("/")
    if not start or rest[: len(HOST)].lower() != HOST or not (server and slash):
        return None
    return unescaped(server), start + own


def shown_uri(server: str, uri: str) -> str:
    """Return the URI under which a client gets a resource that a server mentions, listed or not."""
    return kept_address(server, uri) or uri


def own_uri(uri: str) -> str:
    """Return the own URI of a server for a resource at such an address; any other URI unchanged."""
    found = kept_addressed(uri)
    return uri if found is None else found[1]


def escaped(text: str) -> str:
    """Return a text as one segment of a path. Any characters are accepted."""
    return quote(text, safe="", errors="surrogatepass")


def unescaped(text: str) -> str:
    """Return what :func:`escaped` was given. Any text is accepted."""
    data = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
