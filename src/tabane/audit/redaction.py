"""Arguments of calls without secrets, as one line of JSON of a limited size.

Members with a secret name are hidden at any depth, whatever they hold. Secrets of a known form are hidden in
every string, also in JSON inside a string. The text is read token by token, not as a tree: deep nesting,
double members and text that is no JSON cost no more than other text.

Work is bounded by the limit, not by the size of the arguments: only their first bytes are read.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tabane.audit.secret_names import SecretNames
from tabane.audit.secret_patterns import HIDDEN, has_run, hide_secrets, may_name_secrets

CHECKED = 2 << 10
"""Bytes of arguments that are checked on the event loop, and taken as they are if they are harmless."""

AT_ONCE = 512
"""Bytes of arguments that are redacted on the event loop; longer ones in a thread."""

LOOKAHEAD = 1 << 10
"""Bytes that are read beyond the limit, so that a secret at the cut is recognized."""

PARTIAL = 256
"""Characters at the end of a cut text that are dropped: they may be the beginning of a secret."""

MOST_WAITING = 1000
"""Arguments that wait for the thread; further ones are redacted when their call ends."""

MOST_DEPTH = 200
"""Depth up to which arguments stay JSON; deeper ones are a string, which every reader can parse."""

_MOST_LEVELS = 4
"""Levels of JSON inside a string that are read; deeper ones are hidden."""

_HIDDEN_TOKEN = f'"{HIDDEN}"'
_TOKEN = re.compile(
    r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*(?P<end>"?))(?P<colon>\s*:)?|(?P<open>[{\[])|(?P<close>[}\]])'
    r"|(?P<plain>[^\s\"{}\[\],:]+)",
    re.DOTALL,
)
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PAIR_NAMES = frozenset({"name", "key", "header", "field", "variable", "env"})
_PAIR_VALUES = frozenset({"value", "values", "val"})

_any = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(msgspec.Raw)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


RedactionWork = Callable[[], tuple[bytes, int]]
"""Returns redacted JSON, and the number of bytes that were sent if it is not all of them."""


class PreparedArguments:
    """Redacted arguments of one call, or the work that makes them. :meth:`take` returns them."""

    __slots__ = ("_size", "_text", "_work")

    def __init__(self, text: bytes, size: int = 0, work: RedactionWork | None = None) -> None:
        self._text, self._size, self._work = text, size, work

    def take(self) -> tuple[bytes, int]:
        """Return the JSON, empty for none, and the number of bytes that were sent if it is not all of them.

        Bounded: what the thread has not finished is done here.
        """
        if self._work is not None:
            self.finish()
        return self._text, self._size

    def finish(self) -> None:
        """Do the work if it is not done. Two threads may do so at once: both get the same result."""
        work = self._work
        if work is not None:
            self._text, self._size = work()
            self._work = None


NOTHING = PreparedArguments(b"")


class ArgumentRedactor:
    """Redacts arguments. ``limit`` is the most bytes of them in an entry, 0 for none.

    ``names`` are further names of members with secrets. :meth:`hide` sets values that are known to be secret.
    """

    def __init__(self, limit: int, names: Iterable[str] = ()) -> None:
        self._limit = limit
        self._names = SecretNames(names)
        self._hide: Callable[[str], str] | None = None
        self._short: tuple[str, ...] = ()
        self._thread: _RedactionThread | None = None

    def use(self, limit: int, names: Iterable[str]) -> None:
        """Apply changed settings from now on."""
        self._limit, self._names = limit, SecretNames(names)

    def hide(self, values: Iterable[str], hide: Callable[[str], str]) -> None:
        """Hide these values from now on. ``hide`` replaces them in a text, in all of their spellings."""
        known = list(values)
        self._hide = hide if known else None
        self._short = tuple(value for value in known if not has_run(value.encode("utf-8", "replace")))

    def prepare(self, arguments: bytes) -> PreparedArguments:
        """Return the arguments of a call that begins. Never raises; long ones are redacted in a thread."""
        size = len(arguments)
        if not size or not self._limit:
            return NOTHING
        if size <= CHECKED and size <= self._limit and self._is_harmless(arguments):
            return PreparedArguments(arguments)
        if size <= AT_ONCE:
            return PreparedArguments(*self.redact(arguments))
        window = bytes(memoryview(arguments)[: self._limit + LOOKAHEAD])
        prepared = PreparedArguments(b"", size, lambda: self._redact(window, size))
        if self._thread is None:
            self._thread = _RedactionThread()
        self._thread.add(prepared)
        return prepared

    def redact(self, arguments: bytes) -> tuple[bytes, int]:
        """Return the redacted JSON, and the number of bytes of the arguments if it is not all of them."""
        return self._redact(arguments[: self._limit + LOOKAHEAD], len(arguments))

    def close(self) -> None:
        if self._thread is not None:
            self._thread.end()

    def _is_harmless(self, arguments: bytes) -> bool:
        """Return whether arguments can be taken as they are: JSON on one line that cannot hold a secret."""
        try:
            text = arguments.decode()
            value = _any.decode(arguments)
        except _UNREADABLE:
            return False
        if "\\" in text or "\n" in text or "\r" in text or has_run(arguments) or '"-' in text:
            return False
        if self._short and any(short in text for short in self._short):
            return False
        if self._hide is not None and "%" in text:
            return False
        return self._harmless_members(value, text)

    def _harmless_members(self, value: Any, text: str) -> bool:
        """Return whether no name is secret and no string needs to be read closely.

        The text has no escapes, so a quotation mark always begins or ends a string, and no string holds JSON
        with names. If each colon follows a quotation mark, no string has a colon, except as its first
        character.
        """
        if type(value) is not dict:
            return False
        plain = "=" not in text and text.count('":') == text.count(":") and not _may_have_scheme(text)
        if not text.isascii() and "：" in text:
            plain = False
        containers = text.count("{") + text.count("[")
        if containers == 1 and plain:
            return self._names.harmless.issuperset(value) or self._learn(value)
        return containers <= MOST_DEPTH and self._harmless_parts(value, plain)

    def _harmless_parts(self, value: Any, plain: bool) -> bool:
        waiting = [value]
        for part in waiting:
            kind = type(part)
            if kind is dict:
                if not self._names.harmless.issuperset(part) and not self._learn(part):
                    return False
                waiting.extend(part.values())
            elif kind is list:
                waiting.extend(part)
            elif kind is str and not plain and _is_suspect(part):
                return False
        return True

    def _learn(self, names: Iterable[str]) -> bool:
        return not any(name in _PAIR_VALUES or name in self._names for name in names)

    def _redact(self, window: bytes, size: int) -> tuple[bytes, int]:
        whole = size <= len(window)
        text = window.decode("utf-8", "replace")
        reading = _JsonReading(self._names, self._hide)
        redacted = reading.read(text)
        if not whole:
            redacted = redacted[:-PARTIAL]
        line = redacted.encode("utf-8", "replace")
        if whole and len(line) <= self._limit and reading.deepest <= MOST_DEPTH:
            line = line.replace(b"\n", b" ").replace(b"\r", b" ")
            if _is_json(line):
                return line, 0
        return msgspec.json.encode(line[: self._limit].decode("utf-8", "ignore")), size


def _is_suspect(text: str) -> bool:
    """Return whether a string needs to be read more closely."""
    if ":" in text or "=" in text or "：" in text:
        return "@" in text or may_name_secrets(text)
    return _may_have_scheme(text)


def _may_have_scheme(text: str) -> bool:
    """Return whether ``Bearer`` or ``Basic`` may precede credentials in a text."""
    if " " not in text:
        return False
    return "earer" in text or "asic" in text or "EARER" in text or "ASIC" in text


def _is_json(line: bytes) -> bool:
    try:
        _raw.decode(line)
    except _UNREADABLE:
        return False
    return True


class _JsonReading:
    """Reads a text token by token and builds its redacted form. ``deepest`` is the depth that it reached."""

    def __init__(self, names: SecretNames, hide: Callable[[str], str] | None, level: int = 0) -> None:
        self._names, self._hide, self._level = names, hide, level
        self._depth = self.deepest = 0
        self._hidden_from = -1  # depth outside of the container that is being hidden; -1 if there is none
        self._hide_next = self._pair_name = self._pair_is_secret = False

    def read(self, text: str) -> str:
        out: list[str] = []
        end = 0
        for token in _TOKEN.finditer(text):
            if self._hidden_from < 0:
                out.append(text[end : token.start()])
                out.append(self._token(token))
            else:
                self._skip(token)
            end = token.end()
        if self._hidden_from < 0:
            out.append(text[end:])
        return "".join(out)

    def _token(self, token: re.Match[str]) -> str:
        if token["string"] is not None:
            return self._name(token) if token["colon"] is not None else self._string(token[0])
        if token["plain"] is not None:
            return self._plain(token[0])
        return self._bracket(token[0], opens=token["open"] is not None)

    def _skip(self, token: re.Match[str]) -> None:
        self._depth += (token["open"] is not None) - (token["close"] is not None)
        if self._depth <= self._hidden_from:
            self._hidden_from = -1

    def _bracket(self, bracket: str, *, opens: bool) -> str:
        hides, self._hide_next, self._pair_is_secret = self._hide_next, False, False
        self._depth += 1 if opens else -1
        self.deepest = max(self.deepest, self._depth)
        if not (opens and hides):
            return bracket
        self._hidden_from = self._depth - 1
        return _HIDDEN_TOKEN

    def _plain(self, plain: str) -> str:
        hides, self._hide_next = self._hide_next, False
        if plain in ("null", "true", "false"):
            return plain
        return _HIDDEN_TOKEN if hides or self._hidden(plain) != plain else plain

    def _name(self, token: re.Match[str]) -> str:
        name = _content(token["string"])
        self._pair_name = name.casefold() in _PAIR_NAMES
        is_pair_value = self._pair_is_secret and name.casefold() in _PAIR_VALUES
        self._hide_next = is_pair_value or name in self._names
        return self._written(token["string"], name, self._hidden(name)) + token["colon"]

    def _string(self, token: str) -> str:
        hides, self._hide_next = self._hide_next, False
        if hides:
            return _HIDDEN_TOKEN
        text = _content(token)
        if self._pair_name:
            self._pair_name, self._pair_is_secret = False, text in self._names
        self._hide_next = text.startswith("-") and "=" not in text and text.lstrip("-") in self._names
        return self._written(token, text, self._within(text))

    def _within(self, text: str) -> str:
        """Return the redacted content of a string, which may be JSON itself."""
        if text.lstrip()[:1] not in ("{", "[", '"') or len(text) < 2:
            return self._hidden(text)
        if self._level >= _MOST_LEVELS:
            return HIDDEN
        return self._hidden(_JsonReading(self._names, self._hide, self._level + 1).read(text))

    def _hidden(self, text: str) -> str:
        if self._hide is not None:
            text = self._hide(text)
        return hide_secrets(text, self._names)

    @staticmethod
    def _written(token: str, text: str, redacted: str) -> str:
        return token if redacted == text else json.dumps(redacted, ensure_ascii=not redacted.isascii())


def _content(token: str) -> str:
    """Return the text of a JSON string, also of one that is cut or has escapes that JSON does not know."""
    inner = token[1:-1] if len(token) > 1 and token.endswith('"') else token[1:]
    if "\\" not in inner:
        return inner
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        return _ESCAPE.sub(_unescaped, inner)


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return _ESCAPED.get(found[2], found[2])


class _RedactionThread:
    """Finishes prepared arguments one after the other, beside the event loop."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[PreparedArguments | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="audit-redaction", daemon=True).start()

    def add(self, prepared: PreparedArguments) -> None:
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put(prepared)

    def end(self) -> None:
        self._waiting.put(None)

    def _work(self) -> None:
        while (prepared := self._waiting.get()) is not None:
            prepared.finish()
