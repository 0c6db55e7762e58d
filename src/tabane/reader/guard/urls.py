"""Parsing of URLs, done once for the whole reader, so that no two parsers can disagree.

The reader connects to exactly what was judged: hosts are normalized to ASCII and lower case, addresses to
numbers. The rules are those of browsers (https://url.spec.whatwg.org), except forms that are only used to
deceive: credentials, and hosts of bytes that no name has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urljoin

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.guard.addresses import Address, address_of

LONGEST = 8_000
"""Characters of a URL."""

PORTS = {"http": 80, "https": 443}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"//([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_PATH = "/:@!$&'()*+,;=~%-._[]|"
_QUERY = _PATH + "?"
_SPACE = "".join(map(chr, range(0x21)))
_BROKEN = str.maketrans("", "", "\t\r\n")  # a URL that was broken over lines


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. ``host`` is ASCII, lower case, without brackets or a final dot.

    ``address`` is set if the host is an address; ``host`` is then its canonical text. ``path`` is the path
    and query of a request, in ASCII.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None = None

    @property
    def authority(self) -> str:
        """Return host and port as in the header Host."""
        host = f"[{self.host}]" if self.address is not None and self.address.version == 6 else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, as browsers write the origin of a page."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """Return the URL in the one way that it is written here; no fragment."""
        return self.origin + self.path


def target(url: str) -> Target:
    """Parse ``url``.

    Raises ReadError: ``url`` if it is not a URL, ``scheme`` if its scheme is neither http nor https.
    """
    url = url.strip(_SPACE).translate(_BROKEN)
    if len(url) > LONGEST:
        raise _bad_url(say("the URL is longer than {limit} {limit:character|characters}.", limit=LONGEST))
    if any("\ud800" <= character <= "\udfff" for character in url):
        raise _bad_url(say("the URL contains invalid characters."))
    found = _SCHEME.fullmatch(url)
    if found is None:
        raise _bad_url(say("this is not a URL: it must start with https:// or http://."))
    scheme = found[1].lower()
    if scheme not in PORTS:
        raise ReadError(
            say("only http and https URLs can be read; this one is {scheme}.", scheme=scheme), "scheme"
        )
    parts = _AUTHORITY.fullmatch(_forward_slashes(found[2]))
    if parts is None:
        raise _bad_url(say("this is not a URL: {scheme}: must be followed by // and a host.", scheme=scheme))
    host, port, address = _split_authority(parts[1], PORTS[scheme])
    query = "" if parts[3] is None else "?" + quote(parts[3], safe=_QUERY)
    return Target(scheme, host, port, _ascii_path(parts[2]) + query, address)


def joined(base: Target, location: str) -> Target:
    """Return the target of a redirect from ``base`` to ``location``. Raises as :func:`target`."""
    location = location.strip(_SPACE)
    if _SCHEME.fullmatch(location):
        return target(location)
    if (forward := _forward_slashes(location)).startswith("//"):
        return target(f"{base.scheme}:{forward}")
    try:
        return target(urljoin(base.url, forward))
    except ValueError:
        raise _bad_url(say("this is not a URL.")) from None


def _forward_slashes(rest: str) -> str:
    """Backward slashes before the query are slashes: a browser takes them for such."""
    end = re.search(r"[?#]", rest)
    at = end.start() if end else len(rest)
    return rest[:at].replace("\\", "/") + rest[at:]


def _ascii_path(path: str) -> str:
    """Return the path in ASCII, without dot segments; encoded characters stay encoded."""
    kept: list[str] = []
    segments = path.split("/")[1:] or [""]
    for number, segment in enumerate(segments):
        plain = segment.lower().replace("%2e", ".")
        if plain == "..":
            kept = kept[:-1]
        elif plain != ".":
            kept.append(quote(segment, safe=_PATH))
        if plain in (".", "..") and number == len(segments) - 1:
            kept.append("")
    return "/" + "/".join(kept)


def _split_authority(text: str, port: int) -> tuple[str, int, Address | None]:
    if "@" in text:
        raise _bad_url(say("the URL has a user name or password before its host. Remove it."))
    host, colon, digits = text.partition(":") if not text.startswith("[") else _split_bracketed(text)
    if colon and digits:
        if not re.fullmatch(r"[0-9]{1,5}", digits) or not 0 < int(digits) < 65536:
            raise _bad_url(say("the port in the URL is not a number from 1 to 65535."))
        port = int(digits)
    name, address = _host(host)
    return name, port, address


def _split_bracketed(text: str) -> tuple[str, str, str]:
    inside, bracket, rest = text.partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        raise _bad_url(say("the address in brackets in the URL cannot be parsed."))
    return inside + bracket, rest[:1], rest[1:]


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        address = None if "%" in text else address_of(text[1:-1])
        if address is None or address.version != 6:
            raise _bad_url(say("the address in brackets in the URL cannot be parsed."))
        return str(address), address
    name = _ascii_host(text).removesuffix(".")
    if not name:
        raise _bad_url(say("the URL has no host."))
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        number = _ipv4_of_number(name)
        return str(number), number
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise _bad_url(say("the host {host} in the URL is not valid.", host=name[:80]))
    return name, None


def _ascii_host(host: str) -> str:
    """Return the host in ASCII and lower case, by UTS 46: full-width letters, digits and stops are plain
    ones.
    """
    try:
        host = unquote_to_bytes(host).decode() if "%" in host else host
        if host.isascii():
            return host.lower()
        import idna

        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return ".".join(map(_ascii_label, plain.split("."))).lower()
    except (UnicodeError, ValueError):  # IDNAError is a UnicodeError
        raise _bad_url(say("the host in the URL is not a valid name.")) from None


def _ascii_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")


def _ipv4_of_number(host: str) -> Address:
    """Return an IPv4 address in any of the ways of inet_aton: 127.1, 0x7f.0.0.1, 017700000001, 2130706433."""
    parts = host.split(".")
    numbers = [_parse_digits(part) for part in parts]
    if len(parts) > 4 or any(number > 255 for number in numbers[:-1]):
        raise _no_address(host)
    if numbers[-1] >= 256 ** (5 - len(parts)):
        raise _no_address(host)
    value = numbers[-1] + sum(number << 8 * (3 - place) for place, number in enumerate(numbers[:-1]))
    address = address_of(".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0)))
    assert address is not None
    return address


def _parse_digits(part: str) -> int:
    try:
        if part[:2].lower() == "0x":
            return int(part[2:] or "0", 16)
        return int(part, 8) if len(part) > 1 and part[0] == "0" else int(part, 10)
    except ValueError:
        raise _no_address(part) from None


def _no_address(host: str) -> ReadError:
    return _bad_url(
        say(
            "the host {host} in the URL is neither a valid address nor a name, because no name "
            "ends in a number.",
            host=host[:80],
        )
    )


def _bad_url(message: Message) -> ReadError:
    return ReadError(message, "url")
