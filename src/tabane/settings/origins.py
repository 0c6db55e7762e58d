"""Origins of web pages in one spelling: scheme, host, and the port unless it is the usual one.

Source: RFC 6454, section 6.2, and the serialization of origins in the HTML standard.
"""

from __future__ import annotations

import re
from functools import lru_cache

ANY_PORT = ":*"
"""Suffix of an origin in the settings that replaces the port."""

LONGEST = 512
"""Characters of an origin. A host name has 253 at most."""

_USUAL = {"http": 80, "https": 443}

_shape = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^\[\]:]+)(?::([1-9][0-9]{0,4}))?").fullmatch
_name = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?").fullmatch
_digits = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\.?").fullmatch


@lru_cache(maxsize=256)
def canonical_origin(text: str) -> str | None:
    """Return the origin as a browser writes it, in lower case and without the usual port; None if invalid.

    ``null``, lists, user names, paths, characters outside ASCII and spellings of an IPv4 address that no
    browser sends are not origins. A name with a final dot is another host than the name without it.
    """
    found = _shape(text.lower()) if text.isascii() and len(text) <= LONGEST else None
    if found is None:
        return None
    scheme, host, port = found[1], _host(found[2]), int(found[3] or 0)
    if host is None or port > 65_535:
        return None
    return f"{scheme}://{host}:{port}" if port and port != _USUAL.get(scheme) else f"{scheme}://{host}"


@lru_cache(maxsize=256)
def allowed_entry(text: str) -> str | None:
    """Return an origin from the settings in the one spelling; None if it is not valid.

    A final slash and an international domain name are accepted, and ``:*`` in place of the port.
    """
    wild = text.endswith(ANY_PORT)
    bare = text.removesuffix(ANY_PORT).removesuffix("" if wild else "/")
    origin = canonical_origin(bare if bare.isascii() else _in_ascii(bare))
    if origin is None or (wild and origin != canonical_origin(without_port(origin))):
        return None
    return origin + ANY_PORT if wild else origin


def without_port(origin: str) -> str:
    """Return a canonical origin with its scheme's usual port."""
    scheme, _, authority = origin.partition("://")
    host = authority[: authority.index("]") + 1] if authority[:1] == "[" else authority.partition(":")[0]
    return f"{scheme}://{host}"


def _host(text: str) -> str | None:
    """Return the host of an origin as it is compared; None if no browser would write it so."""
    import ipaddress  # every command imports the settings, and few have origins

    if text[0] == "[":
        try:
            return f"[{ipaddress.IPv6Address(text[1:-1]).compressed}]"
        except ValueError:
            return None
    if _digits(text.rstrip(".").rpartition(".")[2]):
        # A name whose last label is a number is an IPv4 address: four parts, without a final dot.
        try:
            return str(ipaddress.IPv4Address(text))
        except ValueError:
            return None
    return text if len(text) <= 254 and _name(text) else None


def _in_ascii(text: str) -> str:
    """Return the origin with its host as Punycode; "" if the host is not a name."""
    scheme, separator, authority = text.partition("://")
    host, colon, port = authority.partition(":")
    import idna  # loaded only for a name of that kind

    try:
        return scheme + separator + idna.encode(host, uts46=True).decode() + colon + port
    except (idna.IDNAError, UnicodeError):
        return ""
