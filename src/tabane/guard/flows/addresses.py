"""Addresses in texts: how they are found, compared, and what one could carry out of this machine.

An address carries something out only if it was made from what was read. So one that a trusted text held
passes, and one that was made up is looked at: is it long, does it look encoded, does it hold private words?
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_plus, urlsplit

MOST_FOUND = 600
"""Addresses that are taken from one text."""

LONGEST_TEXT = 1 << 18
"""Bytes of a text that are looked at for addresses."""

LONGEST_ADDRESS = 4_000

_PRINTED = "!#$%&'()*+,-./:;=?@[]_~|"
_REST = r"[^\s\"'<>\\^`{}\x00-\x1f\u3000]+"
_ADDRESS = re.compile("://" + _REST)
_WITHOUT_SCHEME = re.compile(r"www\." + _REST)
_PARTS = re.compile(r"(https?)://([^/?#\\@\s]+)([^#]*)(?:#.*)?", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"[a-z0-9_.-]+(?::\d+)?|\[[0-9a-f:.]+\](?::\d+)?")
_TRAILING = ".,;:!?*_~|)]」』）】〉》。、，．…"
_SENT = re.compile(r"[A-Za-z0-9!$%&'()*+,\-./:;=?@\[\]_~|]*")
_PRINTABLE = re.compile(r"[\x21-\x7e]*")
_ESCAPES = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_NAMED_HOST = re.compile(r"//([^/?#\s\"'<>\\)]+)|\b((?:[\w-]+\.)+[a-z]{2,24})(?=/)", re.IGNORECASE)


# -- finding addresses in texts ----------------------------------------------------------------------


def unescaped(text: str) -> str:
    """Return JSON with the escapes of its strings resolved, for looking at its words."""
    if "\\" not in text:
        return text
    text = _ESCAPES.sub(_character, text)
    return _ESCAPES.sub(_character, text) if "\\/" in text or "\\u" in text else text  # JSON in a text


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return found[2] if found[2] in '/\\"' else " "


def addresses_in(text: str) -> Iterator[str]:
    """Yield the addresses of a text, in each reading that its punctuation allows."""
    for written in itertools.islice(_written_in(text), MOST_FOUND):
        # The text around an address may touch it.
        kept = written[:LONGEST_ADDRESS]
        whole = _balanced(kept) if ")" in kept else kept
        readings = dict.fromkeys((kept, whole, kept.rstrip(_TRAILING), whole.rstrip(_TRAILING)))
        if not kept.isascii():
            for each in tuple(readings):
                readings[each[: _PRINTABLE.match(each).end()].rstrip(_TRAILING)] = None  # type: ignore[union-attr]
        for reading in readings:
            if address := plain_address(reading):
                yield address


def _written_in(text: str) -> Iterator[str]:
    for found in _ADDRESS.finditer(text):
        scheme = text[max(found.start() - 5, 0) : found.start()].lower()
        if scheme.endswith(("http", "https")):
            yield ("https" if scheme == "https" else "http") + found[0]
    for found in _WITHOUT_SCHEME.finditer(text):
        if text[max(found.start() - 1, 0) : found.start()] not in "/.@" or found.start() == 0:
            yield f"https://{found[0]}"


def _balanced(text: str) -> str:
    """Return a text up to the first bracket that nothing in it opens."""
    depth = 0
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if depth < 0:
            return text[: found.start()]
    return text


def plain_address(text: str) -> str:
    """Return an address as it is sent: host in lower case, no fragment, ASCII. Empty if it is none."""
    found = _PARTS.fullmatch(text)
    if found is None:
        return ""
    scheme, host, rest = found[1].lower(), re.sub(r"\.+(?=:\d*$|$)", "", found[2].lower()), found[3]
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return ""
    if _HOST.fullmatch(host) is None:
        return ""
    host = host.removesuffix(":443" if scheme == "https" else ":80")
    if not rest.startswith("/"):
        rest = f"/{rest}"
    return f"{scheme}://{host}{rest if _SENT.fullmatch(rest) else quote(rest, safe=_PRINTED)}"


def hosts_in(text: str) -> set[str]:
    """Return hosts that a text writes as a part of an address, with or without a scheme."""
    return {(one or other).lower() for one, other in _NAMED_HOST.findall(text)}


# -- sites -------------------------------------------------------------------------------------------

_SECOND_LEVEL = frozenset({"co", "ac", "or", "ne", "go", "ed", "gr", "lg", "com", "org", "net", "gov", "edu"})


@functools.lru_cache(maxsize=1)
def _known_sites() -> frozenset[str]:
    text = Path(__file__).with_name("known_sites.txt").read_text("utf-8")
    return frozenset(line for line in text.split("\n") if line and not line.startswith("#"))


def host_of(address: str) -> str:
    """Return host and port; empty if it is no address."""
    found = _PARTS.fullmatch(address)
    return found[2].lower() if found is not None else ""


@functools.lru_cache(maxsize=1024)
def site_of(host: str) -> str:
    """Return the domain of one owner, as far as it is known; an IP address is its own."""
    labels = host.partition(":")[0].split(".")
    if len(labels) < 3 or labels[-1].isdigit() or "[" in host:
        return host
    own = 3 if labels[-2] in _SECOND_LEVEL and len(labels[-1]) == 2 else 2
    return ".".join(labels[-own:])


def is_known_site(host: str) -> bool:
    """Return whether nobody but the operator of a site sees which of its addresses are asked for."""
    if ":" in host:
        return False
    labels = host.split(".")
    return any(".".join(labels[place:]) in _known_sites() for place in range(len(labels) - 1))


# -- what an address could carry ---------------------------------------------------------------------


class AddressParts(NamedTuple):
    """An address, decoded. ``labels`` are those of its host below its site.

    ``port`` is empty if it is the usual one. It is the whole host if that is an IPv6 address.
    """

    port: str
    labels: tuple[str, ...]
    path: str
    values: tuple[str, ...]
    raw: str

    @classmethod
    def of(cls, address: str) -> AddressParts:
        split = urlsplit(address)
        below = split.netloc[: -len(site_of(split.netloc))].rstrip(".")
        labels = tuple(each for each in below.split(".") if each and each not in _ORDINARY_LABELS)
        values = tuple(
            unquote_plus(value or name)
            for pair in split.query.split("&") if pair
            for name, _, value in (pair.partition("="),)
        )  # fmt: skip
        names = tuple(
            unquote_plus(name)
            for name, equals, _ in (pair.partition("=") for pair in split.query.split("&"))
            if equals and name.lower() not in _ORDINARY_NAMES
        )
        port = split.netloc if split.netloc[:1] == "[" else split.netloc.partition(":")[2]
        return cls(port, labels, unquote(split.path), values + names, f"{split.path}?{split.query}")

    @property
    def inner(self) -> list[str]:
        """The addresses that this one holds: its site may call or redirect to them."""
        whole = unquote(unquote(self.raw))
        found = [f"{each}" for each in addresses_in(whole)]
        if "//" in whole.replace("://", "") or (not found and re.search(r"https?:/", whole, re.IGNORECASE)):
            return [*found, ""]
        return found


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ORDINARY_LABELS = _named(
    """
    www m en ja jp us docs doc blog blogs api dev app static old new news wiki help support web
    mobile shop store learn developer developers media en-us ja-jp
    """
)
_ORDINARY_NAMES = _named(
    """
    q query s search p page id v t lang hl gl l tab sort order view ref source from to start end
    size limit offset utm_source utm_medium utm_campaign utm_content utm_term feature type category
    tag year month date format version section action title name key keyword keywords k code number
    no list cat
    """
)
_ORDINARY_WORDS = _named(
    """
    html htm index page pages article articles blog post posts news docs guide guides tutorial about
    search home help with from this that your what when http https latest stable main master
    reference manual start started getting introduction overview item items entry entries archive
    archives category tags topics topic list view detail details data user users note notes text
    link file files read more have will they them there here some than then into over only also very
    like just been were which their title content results kind open name arguments score marks
    public common default true false null
    """
)
SPELLING = _named(
    """
    zero one two three four five six seven eight nine alpha alfa bravo charlie delta echo foxtrot golf hotel
    india juliet juliett kilo lima mike november oscar papa quebec romeo sierra tango uniform victor whiskey
    xray yankee zulu dot dash
    """
)
_NUMERALS = re.compile(r"[〇一二三四五六七八九]{3,}")
_LONGEST_PATH, _LONGEST_QUERY, _MOST_VALUES = 140, 120, 8
_WORD = re.compile(r"[^\W_]+")
_ALNUM = re.compile(r"[A-Za-z0-9]+")
_YEAR = re.compile(r"(?:19|20)\d\d")
_DATE = re.compile(r"(?<!\d)(?:19|20)\d\d[-/]?(?:0?[1-9]|1[0-2])(?:[-/]?(?:0?[1-9]|[12]\d|3[01]))?(?!\d)")
_KEYS = re.compile(r"""\\?"[A-Za-z_]{1,24}\\?"\s*:|\b[01]\.\d{3,}""")
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])|(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")
_NEEDLESS = re.compile(r"%(?:25|2[dD]|2[eE]|3[0-9]|4[1-9a-fA-F]|5[0-9aA]|6[1-9a-fA-F]|7[0-9aA])")
_PADDED = re.compile(r"[A-Za-z0-9+/_-]{6,}(?:=|%3[dD]){1,2}(?:&|$)")
_PUBLIC = re.compile(
    r"\b(?:cve-\d{4}-\d{4,7}|rfc[ _/-]?\d{3,5}|pep[ _/-]?\d{3,4}|(?:iso|jis)[ _/-]?[a-z]?\d{3,5})\b"
    r"|\b\d{4}\.\d{5}\b"
)
"""Names of things that everybody knows: an address may hold one that a private text mentions."""

_SECRET = re.compile(
    r"(?:pass\w*|pin|code\w*|secret\w*|token|key|credential\w*|login|word|account|number)\b[^.\n]{0,25}?"
    r"(?:\bis\b|\bare\b|[:=])\s*([^\n.;]{2,40})"
    r"|(?:パスワード|暗証番号|合言葉|秘密|コード|番号|鍵)[^。\n]{0,8}?(?:は|:|=)\s*([^\n。、]{2,12})"
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def looks_encoded(parts: AddressParts, *, opaque: bool = False) -> bool:
    """Return whether an address is so long, or so odd, that it may hold a text that cannot be read.

    ``opaque``: it may hold the hash of a commit or an id, if that is no text in a usual encoding.
    """
    query = " ".join(parts.values)
    if len(parts.path) > _LONGEST_PATH or len(query) > _LONGEST_QUERY or len(parts.values) > _MOST_VALUES:
        return True
    if _NEEDLESS.search(parts.raw) or _PADDED.search(parts.raw) or "xn--" in parts.raw.lower():
        return True
    if "[" in parts.port or any(len(label) > 20 for label in parts.labels) or len(parts.labels) > 2:
        return True
    text = f"{' '.join(parts.labels)} {parts.path} {query}"
    tokens = _ALNUM.findall(text)
    numbers = _NUMBER.findall(_DATE.sub(" ", text))
    if len(numbers) > 3 or sum(map(len, numbers)) > 16 or sum(len(each) == 1 for each in tokens) > 3:
        return True
    if sum(each.lower() in SPELLING for each in tokens) > 2 or _NUMERALS.search(text):
        return True
    codes = filter(_is_encoded, tokens)
    if opaque:  # then only a code that is a text in hexadecimal digits, base64 or base32
        return any(text.isprintable() for code in codes for text in _decoded(code))
    return any(True for _ in codes)


def shape_of(address: str) -> str:
    """Return an address without the codes in it: two films of one site have the same shape."""
    return _ALNUM.sub(lambda token: "" if _is_encoded(token[0]) else token[0], address)


def shreds_of(parts: AddressParts) -> tuple[str, ...]:
    """Return the short pieces of an address: several addresses may spell a word with them."""
    text = " ".join((*parts.labels, parts.path, *parts.values))
    return tuple(each for each in _WORD.findall(_plain(text)) if len(each) < 5)


def _is_encoded(token: str) -> bool:
    """Return whether a run of letters and digits looks like a code, not like a word or a number."""
    switches = sum(
        one.isdigit() != other.isdigit() for one, other in itertools.pairwise(token)
    )  # fmt: skip
    rising = sum(one.islower() and other.isupper() for one, other in itertools.pairwise(token))
    if token.isdigit():
        return len(token) >= 6 and not set(token) - set("01")
    if len(token) >= 8 and (switches >= 3 or rising > 0.2 * len(token)):
        return True
    if len(token) >= 12 and switches and not set(token.lower()) - set("0123456789abcdef"):
        return True
    vowels = sum(each in "aeiouyAEIOUY" for each in token)
    return len(token) >= 24 or (len(token) >= 10 and not switches and vowels < 0.2 * len(token))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _decoded(token: str) -> Iterator[str]:
    """Yield what a token may mean as hexadecimal digits, base64 or base32, also backwards."""
    for each in (token, token[::-1]):
        for decode, length in ((bytes.fromhex, 1), (base64.urlsafe_b64decode, 4), (base64.b32decode, 8)):
            padded = each.upper() if length == 8 else each
            with contextlib.suppress(ValueError):
                yield decode(padded + "=" * (-len(padded) % length)).decode()


@functools.lru_cache(maxsize=8)
def private_words(private: str, said: str) -> PrivateWords:
    """Return the words of private results (JSON). Few are kept: they are larger than the texts.

    The names of members and scores are left out, because nobody wrote them.
    """
    return PrivateWords(unescaped(_KEYS.sub(" ", private)), said)


class PrivateWords:
    """The words of what a trail has read that is private, and those that its user had said before.

    ``whole``: False if a part of the private texts is gone. Then any word may be private.
    """

    def __init__(self, private: str, said: str) -> None:
        text = _plain(private)
        ordered = _WORD.findall(text)
        self.whole = True
        self._words = frozenset(ordered)
        self._spaced = f" {' '.join(ordered)} "
        self._compact = "".join(ordered)
        self._numbers = frozenset(
            re.sub(r"\D", "", each) for each in re.findall(r"\d[\d\-., :/]*\d", text)
        ) | frozenset(re.findall(r"\d+", text))
        self._public = frozenset(_PUBLIC.findall(text))
        self._secrets = frozenset(
            word for cue in _SECRET.findall(text) for word in _WORD.findall(" ".join(cue))[:4]
            if len(word) > 2 and word not in _ORDINARY_WORDS
        )  # fmt: skip
        self._said = _plain(said)
        self._said_words = frozenset(_WORD.findall(self._said))

    def are_in(self, parts: AddressParts) -> bool:
        """Return whether an address holds something private. A single word of its path may be a subject."""
        path = _plain(parts.path)
        for name in self._public:
            path = path.replace(name, " ")
        values = [_plain(value) for value in (*parts.values, *parts.labels)]
        if any(self._numbers_in(each) for each in (path, *values, "".join((path, *values)), parts.port)):
            return True
        if any(self._private(token) for each in values for token in _WORD.findall(each)):
            return True
        if any(self._unspaced_in(each, 2) for each in values) or self._unspaced_in(path, 5):
            return True
        if any(each in path if not each.isascii() else each in _WORD.findall(path) for each in self._secrets):
            return True
        if any(self._is_encoded_in(part) for part in (parts.path, *parts.values, *parts.labels)):
            return True
        tokens = _WORD.findall(path)
        if any(self._private(token) for token in tokens if not token.isalpha() and not token.isdigit()):
            return True
        for part in (*path.split("/"), *values):
            pieces = _WORD.findall(part)
            joined = "".join(pieces)
            if any(map(self._glued, pieces)) or (len(pieces) > 1 and self._private(joined)):
                return True
        together = any(
            all(map(self._private, pair)) and f" {' '.join(pair)} " in self._spaced
            for pair in itertools.pairwise(tokens)
        )
        repeated = any(
            any(map(self._private, three)) and f" {' '.join(three)} " in self._spaced
            for three in zip(tokens, tokens[1:], tokens[2:], strict=False)
        )
        return together or repeated or sum(map(self._private, set(tokens))) > 3

    def _is_encoded_in(self, part: str) -> bool:
        """Return whether a part holds a private word in a usual encoding, also in pieces."""
        pieces = _ALNUM.findall(part)
        return any(
            self._private(word)
            for token in dict.fromkeys((*pieces, "".join(pieces), "".join(pieces[1:])))
            if 5 < len(token) < 200
            for text in _decoded(token)
            for word in _WORD.findall(_plain(text))
            if self.whole or word in self._words
        )

    def has_word_in(self, path: str) -> bool:
        """Return whether a path has a word of a private text."""
        path = _plain(path)
        return any(map(self._private, _WORD.findall(path))) or self._unspaced_in(path, 3)

    def are_spelled(self, shreds: Sequence[Sequence[str]]) -> bool:
        """Return whether short pieces of several addresses are together a private word or number."""
        if len(shreds) < 2:
            return False
        joined = "".join(map("".join, shreds)) + " " + "".join(pieces[-1] for pieces in shreds)
        digits = re.sub(r"\D", "", joined.partition(" ")[0])
        single = {piece for pieces in shreds for piece in pieces}
        across = [each for each in (*self._numbers, *self._words) if len(each) > 3 and each not in single]
        return any(
            (each in digits if each.isdigit() else len(each) > 4 and each in joined) and self._private(each)
            for each in across
        )

    def _private(self, word: str) -> bool:
        """Return whether a word stood in a private text alone. Common words are never private."""
        least = 3 if any(each.isdigit() for each in word) else 4
        if len(word) < least or word in _ORDINARY_WORDS or word in self._said_words or _YEAR.fullmatch(word):
            return False
        return not self.whole or word in self._words

    def _glued(self, word: str) -> bool:
        """Return whether a word is words of a private text without their spaces, backwards or rotated."""
        if len(word) < 5 or not word.isascii() or word in self._words or word in self._said_words:
            return False
        if len(word) >= 9 and word in self._compact:
            return True
        other = (word[::-1], codecs.encode(word, "rot13"))
        return any(each in self._words and each not in self._said_words for each in other)

    def _numbers_in(self, text: str) -> bool:
        without_dates = _DATE.sub(" ", text)
        together = re.sub(r"\D", "", without_dates)
        for number in {*re.findall(r"\d+", without_dates), together}:
            if len(number) < 3 or number in self._said or _YEAR.fullmatch(number):
                continue
            if not self.whole or {number, number[::-1]} & self._numbers:
                return True
        return False

    def _unspaced_in(self, text: str, least: int) -> bool:
        """Return whether a script without spaces repeats that many characters of a private text."""
        for run in _UNSPACED.findall(text):
            for start in range(len(run) - least + 1):
                part = run[start : start + least]
                if part not in self._said and (not self.whole or part in self._compact):
                    return True
        return False
