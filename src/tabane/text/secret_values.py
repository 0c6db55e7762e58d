"""Values that look like secrets: by their form, or by a name beside them, in texts of any kind.

A text is searched in several views: as it is, and without the escapes of JSON, URLs and HTML. Full-width
letters count as ordinary ones. The work grows with the length of the text alone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.personal_numbers import Span
from tabane.text.secret_forms import announced_secrets, may_name_secrets, private_keys, secrets_of_forms
from tabane.text.secret_names import SecretNames, plain_name

HIDDEN = "***"

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_ENCODED = lazy_pattern(
    r"(?:%[0-9A-Fa-f]{2})+|&(?:quot|apos|amp|lt|gt|#\d{2,3}|#x[0-9A-Fa-f]{2});"
    r"|(?<!\\)\\++(?:u[0-9A-Fa-f]{4}|[\"'/nrt])"
)
CHUNK, OVERLAP = 16 << 10, 2 << 10
"""Characters of a long text that are searched at once, and of those before them that are searched again.

No expression holds the interpreter for longer than it needs for these. Columns of tables and private keys,
which are longer, are looked for in the whole text.
"""

_MOST_LEVELS = 3
"""Levels of escapes and quotation marks in a text; there are more levels of JSON in ``json_reading``."""

_QUOTED = lazy_pattern(
    r'"((?:[^"\\]|\\.)*+)(?:"|\Z)|<!\[CDATA\[(.*?)(?:\]\]>|\Z)|>([^<>]{8,})<|[?&][\w.-]{1,60}=([^&#\s"\'<>]{8,})',
    re.DOTALL,
)
_BACKSLASHED = {"n": "\n", "r": "\r", "t": "\t"}


def _decoded(text: str) -> tuple[str, list[int]] | None:
    """Return a text without escapes of URLs, HTML and JSON, and the position of each character before."""
    if "%" not in text and "&" not in text and "\\" not in text:
        return None
    parts: list[str] = []
    positions: list[int] = []
    at = 0
    for found in _ENCODED.finditer(text):
        plain = _unescaped(found[0])
        parts += (text[at : found.start()], plain)
        positions += range(at, found.start())
        step = len(found[0]) / max(len(plain), 1)
        positions += (found.start() + int(index * step) for index in range(len(plain)))
        at = found.end()
    if not at:
        return None
    positions += range(at, len(text) + 1)
    return "".join((*parts, text[at:])), positions


def _unescaped(escaped: str) -> str:
    if escaped[0] == "%":
        return bytes.fromhex(escaped.replace("%", "")).decode("utf-8", "replace")
    if escaped[0] == "&":
        return html.unescape(escaped)
    inner = escaped.lstrip("\\")
    return chr(int(inner[1:], 16)) if inner[0] == "u" else _BACKSLASHED.get(inner, inner)


MOST_STEPS, CHARACTERS_OF_STEP = 8_000, 16
"""Steps of one search, and characters of a long text for each further one.

A name or a secret is a step; what comes after too many of them is hidden as a whole.
"""

_VIEWED_IN_STEP = 192
"""Characters of a view that cost as much as a step: escapes and quotes in one another give many views."""


class _SpentError(Exception):
    """A search has looked at as many names as it may."""


class SecretSearch(SecretNames):
    """Names for one search, or for those of all strings of one JSON text, which share its steps."""

    def __init__(self, names: SecretNames, length: int = 0) -> None:
        self._names, self._left = names, max(MOST_STEPS, length // CHARACTERS_OF_STEP)

    def __contains__(self, name: str) -> bool:
        self.step()
        return name in self._names

    def step(self, steps: int = 1) -> None:
        """Count steps. Raises ``_SpentError`` if there are too many."""
        self._left -= steps
        if self._left < 0:
            raise _SpentError


def hide_secrets(text: str, names: SecretNames) -> str:
    """Return a text with the secrets that are recognized in it replaced by ``***``.

    If it has more of them, or of their names, than :data:`MOST_STEPS`, its rest is one ``***``.
    """
    if len(text) < SHORTEST:
        return text
    spans = secret_spans(text, names)
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], HIDDEN)
        at = end
    return "".join((*parts, text[at:]))


def secret_spans(text: str, names: SecretNames) -> list[Span]:
    """Return where a text has secrets, in their order, none within or beside another."""
    search = names if isinstance(names, SecretSearch) else SecretSearch(names, len(text))
    spans: list[Span] = []
    begun = 0
    try:
        for at in range(0, max(len(text) - OVERLAP, 1), CHUNK):
            part = text[begun : at + CHUNK + OVERLAP]
            for start, end in _spans_of(part, search, _MOST_LEVELS):
                search.step()
                spans.append((begun + start, begun + end))
            begun = at + CHUNK
        if len(text) > CHUNK + OVERLAP:
            spans += (*_finders().columns(text, search), *private_keys(text))
    except _SpentError:
        return _merged([*spans, (begun, len(text))], text)
    return _merged(spans, text)


def _spans_of(text: str, names: SecretSearch, levels: int) -> Iterator[Span]:
    """Yield the secrets of a text, of what it is without escapes, and of the texts that it quotes."""
    names.step(len(text) // _VIEWED_IN_STEP)
    if not text.isascii():
        text = text.translate(_FULL_WIDTH)
    yield from _spans_in(text, names)
    if levels and (decoded := _decoded(text)):
        view, positions = decoded
        for start, end in _spans_of(view, names, levels - 1):
            yield positions[start], positions[end]
    if levels:
        for quoted in _QUOTED.finditer(text):
            start, inner = quoted.start(quoted.lastindex or 0), quoted[quoted.lastindex or 0]
            if 8 <= len(inner) < len(text) and may_name_secrets(inner):
                for first, last in _spans_of(inner, names, levels - 1):
                    yield start + first, start + last


_STANDS_FOR_VALUE = lazy_pattern(
    r"(?:(?i:bearer|basic|token|digest|apikey)\s+)?(?:[*•●x]{3,}|\.{3,}|…|<[\w .|/-]{2,60}>"
    r"|\{\{[^{}]{1,80}\}\}"
    r"|\$?\{[A-Za-z_][\w.:-]{0,80}\}|\$\{\{[^{}]{1,80}\}\}|\$\([^()]{1,80}\)|\$\d|(?i:your|my)[_-](?i:[a-z]{2,10}[_-])?(?i:token|key|password|secret)|\$(?:env:)?[A-Z][A-Z0-9_]{1,60}"
    r"|\$(?:[a-z]\w{0,20})?(?:[tT]oken|[pP]ass(?:word|wd)?|[sS]ecret|[kK]ey)|%[A-Z][A-Z0-9_]{1,60}%"
    r"|\[[A-Z_ -]{3,40}\]|(?:op|vault|env|secret|keychain)://?[\w./ -]{3,200})"
    r"|(?i:bearer|basic|digest|negotiate)\s*"
)
"""A variable or a place of one, stars, or a reference: what people write so as not to write a secret."""


def _merged(spans: Iterable[Span], text: str) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if start >= end or ((stand := _STANDS_FOR_VALUE.match(text, start)) and stand.end() >= end):
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


class _Finders(NamedTuple):
    """What finds secrets beside their names."""

    commands: Callable[[str, SecretNames], Iterator[Span]]
    tables: Callable[[str, str, SecretNames], Iterator[Span]]
    columns: Callable[[str, SecretNames], Iterator[Span]]
    sentences: Callable[[str, str, SecretNames], Iterator[Span]]


@cache
def _finders() -> _Finders:
    from tabane.text import command_secrets, secret_sentences, secret_tables  # a hub starts without them

    return _Finders(
        command_secrets.secrets_of_commands,
        secret_tables.secrets_of_tables,
        secret_tables.secrets_of_columns,
        secret_sentences.secrets_of_sentences,
    )


def _spans_in(text: str, names: SecretNames) -> Iterator[Span]:
    yield from secrets_of_forms(text)
    if not may_name_secrets(text):
        return
    find = _finders()
    low = text.lower()
    if len(low) != len(text):  # a few letters are longer in lower case
        low = "".join(lower if len(lower := character.lower()) == 1 else character for character in text)
    yield from announced_secrets(text, low)
    if (
        " -" in text
        or text[:1] == "-"
        or "\n-" in text
        or " /" in text
        or "login" in low
        or "setx" in low
        or "add_user" in low
        or "mysqladmin" in low
    ):
        yield from find.commands(text, names)
    yield from find.tables(text, low, names)
    yield from find.sentences(text, low, names)


# -- one value with its name --------------------------------------------------------------------------

SHORTEST = 4
"""Characters of a secret. A shorter one could not be hidden in logs: it would be found everywhere."""

_LONGEST_NAME = 200

_WHOLE_WORDS = frozenset(
    (
        *(
            "true",
            "false",
            "yes",
            "no",
            "on",
            "off",
            "none",
            "null",
            "nil",
            "auto",
            "default",
            "always",
            "never",
        ),
        *("enabled", "disabled", "required", "optional", "changeme", "header", "cookie"),
        *("bearer", "basic", "digest", "oauth", "oauth2", "token", "apikey", "api_key", "api-key", "jwt"),
        *("key", "secret"),
    )
)
"""Values that say how something is done, or that somebody still has to fill in."""

_PLACEHOLDER = lazy_pattern(
    r"\*+|x+|\.+|…|<[^<>]*>|[\[{]+[\w .-]+[\]}]+|\$[A-Za-z_]\w*|%\w+%"
    r"|(?:your|insert|enter|replace|put|add)[-_ ].*(?:key|token|secret|password|here|value)"
    r"|.*[-_ ]here",
    re.IGNORECASE,
)
"""Texts that stand for a value, as in the examples of a README."""

_FACT = lazy_pattern(
    r"(?:file|filename|path|dir|directory|folder|url|uri|endpoint|host|hostname|port|type|mode|method|region"
    r"|ttl|expiry|expires|expiration|timeout|header|header_?name|prefix|name|algorithm|format|enabled|scopes?"
    r"|issuer|audience|provider)$"
)
"""Ends of names that say something about a secret: API_KEY_FILE, TOKEN_TTL."""

_WEAK = re.compile(r"(?:^|_)(?:keys?|sid|credentials?|secret)(?:_|$)")
"""Names of secrets, and of much else: KEY, SORT_KEY."""

_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_FOLDERS = lazy_pattern(
    r"(?:~|\.{1,2}|\$HOME)/\S*|[A-Za-z]:[\\/].*"
    r"|/(?:app|data|etc|home|mnt|opt|private|root|run|secrets|srv|tmp|Users|usr|var|Volumes|workspaces?)"
    r"(?:/.*)?",
    re.DOTALL,
)
"""Paths: relative ones, and those in folders that machines have. A key in base64 may begin with a slash."""

_RANDOM = lazy_pattern(r"(?=.*[0-9])(?=.*[A-Za-z])\S{12,}|\S{24,}")


def looks_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable, header, flag or query is likely to be a secret.

    The value has no variables of the servers file. Words such as "true", placeholders such as
    ``YOUR_API_KEY`` and paths are none.
    """
    text = value.strip()
    if len(text) < SHORTEST or text.casefold() in _WHOLE_WORDS or _PLACEHOLDER.fullmatch(text):
        return False
    if has_secret(text):
        return True
    name = name[:_LONGEST_NAME]
    plain = plain_name(name)
    if _FACT.search(plain) or _ADDRESS.fullmatch(text) or _FOLDERS.fullmatch(text):
        return False
    if name in _names():
        return True
    return _WEAK.search(plain) is not None and _RANDOM.fullmatch(text) is not None


def has_secret(text: str) -> bool:
    """Return whether a text has a secret of a known form: a service's key, a password in a URL, a JWT."""
    return hide_secrets(text, _names()) != text


@cache
def _names() -> SecretNames:
    return SecretNames()
