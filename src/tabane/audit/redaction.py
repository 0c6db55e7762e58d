"""Arguments of calls without secrets, as one line of JSON of a limited size.

Members with a secret name are hidden at any depth, whatever they hold. Secrets of a known form are hidden in
every string, also in JSON inside a string. The text is read token by token, not as a tree: deep nesting,
double members and text that is no JSON cost no more than other text.

Work is bounded by the limit, not by the size of the arguments: only their first bytes are read.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tabane.audit.entry import NOTHING, PreparedArguments
from tabane.text.personal_numbers import FEWEST_DIGITS, has_personal_number
from tabane.text.secret_forms import (
    has_mixed_word,
    has_run,
    marks_of,
    may_have_phrase,
    may_name_secrets,
    only_mentions_secrets,
)
from tabane.text.secret_names import SecretNames, may_be_pair, may_hold_named
from tabane.text.secret_values import secret_spans

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

_FEW = 2
"""Digits of a number that is no code of any kind."""

_ESCAPES = frozenset(b"\\\n\r")

_any = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(msgspec.Raw)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


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
        """Return the arguments of a call that begins. Never raises.

        Short ones are redacted when they are taken, or before if there is time; long ones in a thread.
        """
        size = len(arguments)
        if not size or not self._limit:
            return NOTHING
        if size <= AT_ONCE:
            return PreparedArguments(arguments, size, self._redact_short, short=True)
        if size <= CHECKED and size <= self._limit and self._is_harmless(arguments):
            return PreparedArguments(arguments)
        window = bytes(memoryview(arguments)[: self._limit + LOOKAHEAD])
        prepared = PreparedArguments(window, size, self._redact_window)
        if self._thread is None:
            self._thread = _RedactionThread()
        self._thread.add(prepared)
        return prepared

    def _redact_short(self, arguments: bytes, size: int) -> tuple[bytes, int]:
        if size <= self._limit and self._is_harmless(arguments):
            return arguments, 0
        return self.redact(arguments)

    def redact(self, arguments: bytes, size: int = 0) -> tuple[bytes, int]:
        """Return the redacted JSON, and the number of bytes of the arguments if it is not all of them.

        ``size`` is their number if ``arguments`` are only the first of them.
        """
        return self._redact_window(arguments[: self._limit + LOOKAHEAD], size or len(arguments))

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.end()

    def _is_harmless(self, arguments: bytes) -> bool:
        """Return whether arguments can be taken as they are: JSON on one line that cannot hold a secret."""
        try:
            text = arguments.decode()
            value = _any.decode(arguments)
        except _UNREADABLE:
            return False
        signs = marks_of(arguments)
        few = not signs or (len(signs) <= _FEW and signs.isdigit() and not has_mixed_word(arguments))
        dashes = "-" in text
        if (
            (dashes and '"-' in text)
            or has_run(arguments)
            or not (few or signs.isdigit() or _ESCAPES.isdisjoint(signs))
        ):
            return False
        if self._short and any(short in text for short in self._short):
            return False
        if self._hide is not None and "%" in text:
            return False
        if type(value) is not dict:
            return False
        # The text has no escapes, so a quotation mark always begins or ends a string, and no string holds
        # JSON with names. If each colon follows a quotation mark, no string has a colon, except at its start.
        if len(signs) >= FEWEST_DIGITS and has_personal_number(arguments):
            return False
        if may_have_phrase(arguments):
            return False
        colons = text.count(":")
        beside = colons != len(value) and colons != text.count('":')  # a string has a colon
        plain = not may_name_secrets(text, not few or beside or (dashes and " -" in text))
        if plain and text.find("{", 1) < 0 and "[" not in text:
            return self._names.harmless.issuperset(value) or self._has_no_secret_name(value)
        return text.count("{") + text.count("[") <= MOST_DEPTH and self._harmless_parts(value, plain)

    def _harmless_parts(self, value: Any, plain: bool) -> bool:
        waiting = [value]
        for part in waiting:
            kind = type(part)
            if kind is dict:
                if not self._names.harmless.issuperset(part) and not self._has_no_secret_name(part):
                    return False
                if not plain and may_be_pair(part, self._names):
                    return False
                waiting.extend(part.values())
            elif kind is list:
                if not plain and may_hold_named(part, self._names):
                    return False
                waiting.extend(part)
            elif (
                kind is str
                and not (plain or only_mentions_secrets(part))
                and (len(part) > AT_ONCE or secret_spans(part, self._names))
            ):
                return False
        return True

    def _has_no_secret_name(self, names: Iterable[str]) -> bool:
        return not any(name in self._names for name in names)

    def _redact_window(self, window: bytes, size: int) -> tuple[bytes, int]:
        from tabane.audit.json_reading import JsonReading  # few arguments need it, and its patterns are large

        whole = size <= len(window)
        text = window.decode("utf-8", "replace")
        reading = JsonReading(self._names, self._hide)
        redacted = reading.read(text)
        if not whole:
            redacted = redacted[:-PARTIAL]
        line = redacted.encode("utf-8", "replace")
        if whole and len(line) <= self._limit and reading.deepest <= MOST_DEPTH:
            line = line.replace(b"\n", b" ").replace(b"\r", b" ")
            with contextlib.suppress(*_UNREADABLE):
                _raw.decode(line)
                return line, 0
        return msgspec.json.encode(line[: self._limit].decode("utf-8", "ignore")), size


class _RedactionThread:
    """Finishes prepared arguments one after the other, beside the event loop."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[PreparedArguments | None] = queue.SimpleQueue()
        threading.Thread(target=self._finish_all, name="audit-redaction", daemon=True).start()

    def add(self, prepared: PreparedArguments) -> None:
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put(prepared)

    def end(self) -> None:
        self._waiting.put(None)

    def _finish_all(self) -> None:
        while (prepared := self._waiting.get()) is not None:
            prepared.finish()
