"""Redaction of JSON token by token, also of text that is no JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tabane.text.secret_values import HIDDEN, PAIR_VALUES, SecretNames, hide_secrets

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


class JsonReading:
    """Reads a text token by token and builds its redacted form. ``deepest`` is the depth that it reached."""

    def __init__(self, names: SecretNames, hide: Callable[[str], str] | None, level: int = 0) -> None:
        self._names, self._hide, self._level = names, hide, level
        self._depth = self.deepest = 0
        self._hidden_from = -1  # depth outside of the container that is being hidden; -1 if there is none
        self._hide_next = self._pair_name = self._pair_is_secret = False

    def read(self, text: str) -> str:
        """Return the redacted text."""
        out: list[str] = []
        end = 0
        for token in _TOKEN.finditer(text):
            if self._hidden_from < 0:
                out.append(text[end : token.start()])
                out.append(self._redact_token(token))
            else:
                self._depth += (token["open"] is not None) - (token["close"] is not None)
                if self._depth <= self._hidden_from:
                    self._hidden_from = -1
            end = token.end()
        if self._hidden_from < 0:
            out.append(text[end:])
        return "".join(out)

    def _redact_token(self, token: re.Match[str]) -> str:
        if token["string"] is not None:
            return self._redact_name(token) if token["colon"] is not None else self._redact_string(token[0])
        if token["plain"] is not None:
            hides, self._hide_next = self._hide_next, False
            plain = token[0]
            if plain in ("null", "true", "false") or not (hides or self._hide_values(plain) != plain):
                return plain
            return _HIDDEN_TOKEN
        bracket, opens = token[0], token["open"] is not None
        hides, self._hide_next, self._pair_is_secret = self._hide_next, False, False
        self._depth += 1 if opens else -1
        self.deepest = max(self.deepest, self._depth)
        if not (opens and hides):
            return bracket
        self._hidden_from = self._depth - 1
        return _HIDDEN_TOKEN

    def _redact_name(self, token: re.Match[str]) -> str:
        name = _string_content(token["string"])
        self._pair_name = name.casefold() in _PAIR_NAMES
        is_pair_value = self._pair_is_secret and name.casefold() in PAIR_VALUES
        self._hide_next = is_pair_value or name in self._names
        return self._write_string(token["string"], name, self._hide_values(name)) + token["colon"]

    def _redact_string(self, token: str) -> str:
        hides, self._hide_next = self._hide_next, False
        if hides:
            return _HIDDEN_TOKEN
        text = _string_content(token)
        if self._pair_name:
            self._pair_name, self._pair_is_secret = False, text in self._names
        self._hide_next = text.startswith("-") and "=" not in text and text.lstrip("-") in self._names
        return self._write_string(token, text, self._redact_content(text))

    def _redact_content(self, text: str) -> str:
        """Return the redacted content of a string, which may be JSON itself."""
        if text.lstrip()[:1] not in ("{", "[", '"') or len(text) < 2:
            return self._hide_values(text)
        if self._level >= _MOST_LEVELS:
            return HIDDEN
        return self._hide_values(JsonReading(self._names, self._hide, self._level + 1).read(text))

    def _hide_values(self, text: str) -> str:
        if self._hide is not None:
            text = self._hide(text)
        return hide_secrets(text, self._names)

    @staticmethod
    def _write_string(token: str, text: str, redacted: str) -> str:
        return token if redacted == text else json.dumps(redacted, ensure_ascii=not redacted.isascii())


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
