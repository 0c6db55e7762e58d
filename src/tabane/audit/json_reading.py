"""Redaction of JSON token by token, also of text that is no JSON.

A secret may be named by its member, by another member beside it (``{"name": "password", "value": …}``), by
the string before it (``["password", …]``, ``["--token", …]``), or by the head of its
column in rows of a table.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable

from tabane.text.command_secrets import MOST_WORDS, secrets_of_words
from tabane.text.secret_forms import is_random, phrases_of_words
from tabane.text.secret_names import PAIR_NAMES, PAIR_VALUES, WEAK_PAIR_VALUES, SecretNames, names_secret
from tabane.text.secret_values import HIDDEN, SecretSearch, hide_secrets

_MOST_LEVELS = 4
"""Levels of JSON inside a string that are read; deeper ones are hidden."""

_MOST_PENDING = 4
"""Values of an object that are remembered until a member beside them may name them."""

_HIDDEN_TOKEN = f'"{HIDDEN}"'
_TOKEN = re.compile(
    r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*(?P<end>"?))(?P<colon>\s*:)?|(?P<open>[{\[])|(?P<close>[}\]])'
    r"|(?P<plain>[^\s\"{}\[\],:]+)",
    re.DOTALL,
)
_JSON_WITHIN = re.compile(r'[{\[]\s{0,20}(?:["{]|\[["{])')
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_COMMAND_NAMES = frozenset(
    ("command", "cmd", "program", "executable", "exe", "bin", "binary", "file", "run", "entrypoint", "tool")
)
"""Members with a program whose arguments are a list beside it."""

_SCHEMA = re.compile(r"\{[^{}]{1,600}\}")
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_VALUES_OF_SCHEMAS = frozenset(("default", "const", "enum", "example", "examples", "value", "values"))

_LONGEST_HEAD = 60
_WORDLIKE = re.compile(r"[A-Za-z]+(?:[_ -][A-Za-z]+)*\Z")


class _Container:
    """An open object or list: what is known of the values in it."""

    __slots__ = (
        "arguments",
        "columns",
        "command",
        "is_command",
        "is_list",
        "pair_is_secret",
        "pending",
        "start",
        "values",
        "words",
    )

    def __init__(self, is_list: bool, start: int, is_command: bool = False) -> None:
        self.is_list, self.start, self.is_command = is_list, start, is_command
        self.pair_is_secret = False
        self.pending: list[tuple[int, int, bool]] = []  # parts of what is written: start, end, whether weak
        self.words: list[str] | None = [] if is_list else None  # None as soon as it holds more than scalars
        self.values: list[int] = []  # where each of the words is written
        self.command: list[str] = []  # what a member names as the program that gets a list of arguments
        self.arguments: _Container | None = None  # the list that was read last
        self.columns: tuple[int, list[int]] | None = None  # of a list of rows: their length, secret columns


class JsonReading:
    """Reads a text token by token and builds its redacted form. ``deepest`` is the depth that it reached."""

    def __init__(
        self,
        names: SecretNames,
        hide: Callable[[str], str] | None,
        level: int = 0,
        search: SecretSearch | None = None,
    ) -> None:
        self._names, self._hide, self._level = names, hide, level
        self._search = search or SecretSearch(names)
        self._depth = self.deepest = 0
        self._hidden_from = -1  # depth outside of the container that is being hidden; -1 if there is none
        self._hide_next = False
        self._pair = ""  # "name", "value" or "weak": what the member that was read last is of a pair
        self._open: list[_Container] = []
        self._out: list[str] = []

    def read(self, text: str) -> str:
        """Return the redacted text."""
        out = self._out = []
        end = 0
        for token in _TOKEN.finditer(text):
            if self._hidden_from < 0:
                out.append(text[end : token.start()])
                self._redact_token(token)
            else:
                self._depth += (token["open"] is not None) - (token["close"] is not None)
                if self._depth <= self._hidden_from:
                    self._hidden_from = -1
            end = token.end()
        if self._hidden_from < 0:
            out.append(text[end:])
        while self._open:  # of a text that is cut
            self._close(self._open.pop())
        return "".join(out)

    def _redact_token(self, token: re.Match[str]) -> None:
        out, parent = self._out, self._open[-1] if self._open else None
        if token["string"] is not None:
            if token["colon"] is not None:
                out.append(self._redact_name(token, parent))
                return
            if parent is not None and parent.pair_is_secret and self._pair == "value":
                self._hide_next = True
            content, redacted = self._redact_string(token[0], parent)
            out.append(redacted)
            if parent is not None and parent.words is not None:
                parent.words.append(content)
                parent.values.append(len(out) - 1)
            self._end_value(parent, content)
        elif token["plain"] is not None:
            if parent is not None and parent.pair_is_secret and self._pair == "value":
                self._hide_next = True
            out.append(self._redact_plain(token[0]))
            if parent is not None and parent.words is not None:
                parent.words.append(token[0])
                parent.values.append(len(out) - 1)
            self._end_value(parent, token[0])
        elif token["open"] is not None:
            if self._hide_next and token[0] == "{" and _is_schema(token):
                self._hide_next = False
            self._begin_container(token[0], parent)
        else:
            self._depth -= 1
            out.append(token[0])
            if self._open:
                self._close(closed := self._open.pop())
                parent = self._open[-1] if self._open else None
                if parent is not None and parent.pending and parent.pending[-1][0] == closed.start:
                    start, _, weak = parent.pending.pop()
                    if not weak:
                        parent.pending.append((start, len(out), False))

    def _redact_plain(self, plain: str) -> str:
        hides, self._hide_next = self._hide_next, False
        if plain in ("null", "true", "false") or not (hides or self._hide_values(plain) != plain):
            return plain
        return _HIDDEN_TOKEN

    def _begin_container(self, bracket: str, parent: _Container | None) -> None:
        hides, self._hide_next = self._hide_next, False
        if parent is not None:
            hides = hides or (parent.pair_is_secret and self._pair == "value")
            parent.words = None
            if self._pair in ("value", "weak") and len(parent.pending) < _MOST_PENDING:
                parent.pending.append((len(self._out), len(self._out), self._pair == "weak"))
        is_command = self._pair == "command" and bracket == "["
        self._pair = ""
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        if hides:
            self._hidden_from = self._depth - 1
            if parent is not None and parent.pending and parent.pending[-1][0] == len(self._out):
                parent.pending.pop()
            self._out.append(_HIDDEN_TOKEN)
            return
        self._open.append(_Container(bracket == "[", len(self._out), is_command))
        self._out.append(bracket)

    def _redact_name(self, token: re.Match[str], parent: _Container | None) -> str:
        name = _string_content(token["string"])
        folded = name.casefold()
        self._pair = (
            "name" if folded in PAIR_NAMES
            else "type" if folded == "type"
            else "value" if folded in PAIR_VALUES
            else "weak" if folded in WEAK_PAIR_VALUES
            else "command" if folded in _COMMAND_NAMES else ""
        )  # fmt: skip
        self._hide_next = name in self._names
        if parent is not None:
            parent.words = None
        return self._write_string(token["string"], name, self._hide_values(name)) + token["colon"]

    def _end_value(self, parent: _Container | None, content: str) -> None:
        """Note a scalar value: it may name those beside it, or be named by them."""
        pair, self._pair = self._pair, ""
        if parent is None or parent.is_list or not pair:
            return
        at = len(self._out) - 1
        if pair == "command":
            parent.command = content.split()[:8]
            if parent.arguments is not None:
                self._hide_words(parent.arguments, parent.arguments.words or [], parent.command)
        elif pair in ("name", "type"):
            if (pair == "name" or "pass" in content.lower()) and names_secret(content, self._names):
                parent.pair_is_secret = True
                for start, end, _ in reversed(parent.pending):
                    self._out[start:end] = [_HIDDEN_TOKEN, *("" for _ in range(start + 1, end))]
                parent.pending.clear()
        elif pair == "value" or len(content.split()) <= 3:
            if parent.pair_is_secret:
                self._out[at] = _HIDDEN_TOKEN
            elif len(parent.pending) < _MOST_PENDING:
                parent.pending.append((at, at + 1, pair == "weak"))

    def _redact_string(self, token: str, parent: _Container | None) -> tuple[str, str]:
        """Return the content of a string, and how it is written."""
        hides, self._hide_next = self._hide_next, False
        text = _string_content(token)
        if hides:
            return text, _HIDDEN_TOKEN
        return text, self._write_string(token, text, self._redact_content(text))

    def _close(self, closed: _Container) -> None:
        """Hide what a list that ends has named."""
        words, parent = closed.words, self._open[-1] if self._open else None
        if not words:
            return
        command = parent.command if parent is not None and not parent.is_list else []
        self._hide_words(closed, words, command)
        if parent is None:
            return
        if not parent.is_list:
            if closed.is_command:
                parent.command = words
                if parent.arguments is not None:
                    self._hide_words(parent.arguments, parent.arguments.words or [], words)
            else:
                parent.arguments = closed
        named = [at for at, word in enumerate(words) if names_secret(word, self._names)]
        rows = parent.columns if parent.is_list else None
        if rows is None and parent.is_list and len(self._open) > 1:
            rows = self._open[-2].columns  # the head is beside the list of rows
        if rows is not None and rows[0] == len(words) and not len(named) == len(rows[1]) == len(words):
            for column in rows[1]:
                self._hide_word(closed, column)
        elif (
            named
            and len(words) > 1
            and all(len(word) <= _LONGEST_HEAD and not is_random(word) for word in words)
        ):
            parent.columns = len(words), named
        if len(words) == 2 and named == [0]:
            value = words[1]
            if (
                (parent.is_list and not _WORDLIKE.match(value))
                or is_random(value)
                or (parent.is_list and parent.columns is None)
            ):
                self._hide_word(closed, 1)

    def _hide_words(self, closed: _Container, words: list[str], command: list[str]) -> None:
        """Hide what follows a flag or a name in a list of words, such as the arguments of a command."""
        for first, last in phrases_of_words(words):
            for at in range(first, last):
                self._hide_word(closed, at)
        for found, offset in secrets_of_words([*command, *words], self._names):
            at = found - len(command)
            if at < 0:
                continue
            if offset and offset < len(words[at]):
                self._out[closed.values[at]] = json.dumps(words[at][:offset] + HIDDEN, ensure_ascii=False)
            else:
                self._hide_word(closed, at)
        for at, word in enumerate(words[:MOST_WORDS]):
            if at + 1 < len(words) and names_secret(word, self._names):
                far = at + 2 < len(words) and (words[at + 1] in ("=", ":", "is") or word.lower() == "auth")
                for beside in (at + 1, at + 2) if far else (at + 1,):
                    if is_random(words[beside]):
                        self._hide_word(closed, beside)

    def _hide_word(self, closed: _Container, at: int) -> None:
        if closed.words is not None and closed.words[at] not in ("null", "true", "false"):
            self._out[closed.values[at]] = _HIDDEN_TOKEN

    def _redact_content(self, text: str) -> str:
        """Return the redacted content of a string, which may be JSON itself."""
        if text.lstrip()[:1] not in ("{", "[", '"') or len(text) < 2:
            if self._level < _MOST_LEVELS and _JSON_WITHIN.search(text):
                text = self._read_within(text)
            return self._hide_values(text)
        if self._level >= _MOST_LEVELS:
            return HIDDEN
        return self._hide_values(self._read_within(text))

    def _read_within(self, text: str) -> str:
        return JsonReading(self._names, self._hide, self._level + 1, self._search).read(text)

    def _hide_values(self, text: str) -> str:
        if self._hide is not None:
            text = self._hide(text)
        return hide_secrets(text, self._search)

    @staticmethod
    def _write_string(token: str, text: str, redacted: str) -> str:
        return token if redacted == text else json.dumps(redacted, ensure_ascii=not redacted.isascii())


def _is_schema(token: re.Match[str]) -> bool:
    """Return whether an object that begins describes a field, without a value of it."""
    whole = _SCHEMA.match(token.string, token.start())
    with contextlib.suppress(ValueError):
        schema = json.loads(whole[0]) if whole else {}
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return set(_TYPES).issuperset(kinds) and _VALUES_OF_SCHEMAS.isdisjoint(schema)
    return False


def _string_content(token: str) -> str:
    """Return the text of a JSON string, also of one that is cut or has escapes that JSON does not know."""
    inner = token[1:-1] if len(token) > 1 and token.endswith('"') else token[1:]
    if "\\" not in inner:
        return inner
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        return _ESCAPE.sub(_unescape, inner)


def _unescape(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return _ESCAPED.get(found[2], found[2])
