"""Servers and settings files without their secrets: each is replaced by a variable such as ``${API_KEY}``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from tabane.servers.commented_json import blank_comments, read_document
from tabane.servers.configuration import TABLES
from tabane.servers.json_edits import NotAnObject, UnsafeJsonEdit, has_comments, with_member
from tabane.servers.masking import masked_text
from tabane.servers.redaction import Redactor, is_secret_name
from tabane.servers.variables import NAME, names_in
from tabane.settings.editing import UnsafeTextEdit, without_value
from tabane.text.secret_names import SecretNames
from tabane.text.secret_values import HIDDEN, hide_secrets

_REFERENCE = re.compile(r"(\$\{[^{}]*\})")
_SCHEME = re.compile(r"(?i)\s*(?:(?:bearer|basic|token)\s+)?")
_INSERTED = re.compile(r"(?i)\s*(?:(?:bearer|basic|token)\s+)?(?:\$\{[^{}]*\}\s*)+")
_NAMED = re.compile(r"([A-Za-z][\w-]*)\\*[\"']?\s*[:=]\s*\\*[\"']?\Z")
_QUERY = re.compile(r"[?&]([^=&#]+)=\Z")
_COMMENT = re.compile(r"(^|\s)#.*$", re.MULTILINE)
_LONGEST_NAME = 100


class TextWithoutSecrets(NamedTuple):
    """``names`` are the new variables, ``values`` what they replace, ``removed`` settings that are gone."""

    text: str
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def servers_without_secrets(text: str, kept: Collection[str]) -> TextWithoutSecrets:
    """Return the text of a servers file without secrets, comments kept if that is possible.

    ``kept`` are names of other secrets, which are not used again. Raises JsonSyntaxError.
    """
    root = read_document(text.removeprefix("\ufeff")).value
    references = _References({*kept, *names_in(root)})
    after = references.replaced_root(root)
    values = tuple(references.names)
    if after != root:
        text = _rewritten(text, root, after)
    text = _comments_hidden(text)
    if any(len(value) >= 4 and value in text for value in values):  # as in a repeated key, or in a comment
        text = json.dumps(after, indent=2, ensure_ascii=False) + "\n"
    return TextWithoutSecrets(Redactor(values).text(text), tuple(references.names.values()), values)


def settings_without_secrets(text: str) -> TextWithoutSecrets:
    """Return the text of ``tabane.toml`` without values that hold a secret. Raises TOMLDecodeError."""
    names = SecretNames()
    values, removed = [], []
    for path, value in list(_leaves(tomllib.loads(text))):
        if not _REFERENCE.fullmatch(value) and hide_secrets(masked_text(value, Redactor()), names) != value:
            values.append(value)
            removed.append(path)
    for path in dict.fromkeys(removed):
        text = _without(text, path)
    text = _COMMENT.sub(lambda found: _hidden_comment(text, found, names), text)
    shown = tuple(dict.fromkeys(".".join(path) for path in removed))
    return TextWithoutSecrets(Redactor(values).text(text), (), tuple(values), shown)


class _References:
    """Replaces secrets by variables. ``names`` has the variable of each value."""

    def __init__(self, taken: set[str]) -> None:
        self._taken, self._secret_names = taken, SecretNames()
        self.names: dict[str, str] = {}

    def replaced_root(self, root: Any) -> Any:
        if not isinstance(root, dict):
            return root
        return {
            key: self._servers(value) if key in TABLES else self._within("", key, value)
            for key, value in root.items()
        }

    def _servers(self, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        return {name: self._within(name, "", definition) for name, definition in table.items()}

    def _within(self, server: str, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._within(server, key, part) for key, part in value.items()}
        if isinstance(value, list):
            return self._items(server, name, value)
        if not isinstance(value, str):
            return value
        return self._value(server, name, value) if self._is_secret(name) else self._text(server, name, value)

    def _items(self, server: str, name: str, items: list[Any]) -> list[Any]:
        """Replace the values of flags such as ``--api-key``, and secrets that are recognized by form."""
        found: list[Any] = []
        before = ""
        for item in items:
            if not isinstance(item, str):
                found.append(self._within(server, name, item))
                continue
            flag, equals, value = item.partition("=")
            if equals and flag.startswith("-") and self._is_secret(flag.lstrip("-")):
                found.append(f"{flag}={self._value(server, flag, value)}")
            elif before.startswith("-") and self._is_secret(before.lstrip("-")) and not item.startswith("-"):
                found.append(self._value(server, before, item))
            else:
                found.append(self._text(server, "", item))
            before = item
        return found

    def _is_secret(self, name: str) -> bool:
        return is_secret_name(name) or name in self._secret_names

    def _text(self, server: str, hint: str, text: str) -> str:
        """Replace the parts of a text that look like secrets."""
        spans = self._spans(text)
        if spans is None:
            return self._value(server, hint, text)
        done, at = [], 0
        for start, end in spans:
            named = (_QUERY if hint else _NAMED).search(text[:start])
            done += [text[at:start], self._value(server, named[1] if named else hint, text[start:end])]
            at = end
        result = "".join([*done, text[at:]])
        left = self._spans(result)
        if left is None or not all(_INSERTED.fullmatch(result[start:end]) for start, end in left):
            return self._value(server, hint, text)
        return result

    def _spans(self, text: str) -> list[tuple[int, int]] | None:
        """Return the parts of a text that look like secrets; None if they cannot be separated."""
        hidden = hide_secrets(masked_text(text, Redactor()), self._secret_names)
        if hidden == text:
            return []
        between = [re.escape(part) for part in hidden.split(HIDDEN)]
        parts = re.fullmatch("(.+?)".join(between), text, re.DOTALL)
        if parts is None:
            return None
        return [_whole(text, *parts.span(number)) for number in range(1, len(between))]

    def _value(self, server: str, hint: str, value: str) -> str:
        """Replace all of a secret value, except references to variables and a scheme such as Bearer."""
        parts = _REFERENCE.split(value)
        return "".join(
            _without_default(part) if index % 2 else self._plain(server, hint, part)
            for index, part in enumerate(parts)
        )

    def _plain(self, server: str, hint: str, part: str) -> str:
        scheme = _SCHEME.match(part)
        begin = scheme.end() if scheme else 0
        secret = part[begin:].rstrip()
        if not secret or secret == HIDDEN:
            return part
        return part[:begin] + "${" + self._name(server, hint.lstrip("-"), secret) + "}"

    def _name(self, server: str, hint: str, value: str) -> str:
        if value not in self.names:
            name = self._free(server, hint)
            self._taken.add(name)
            self.names[value] = name
        return self.names[value]

    def _free(self, server: str, hint: str) -> str:
        if NAME.fullmatch(hint) and hint.isupper() and hint not in self._taken:
            return hint
        full = _identifier(f"{server}_{hint or 'secret'}")
        number = 1
        while (name := full if number == 1 else f"{full}_{number}") in self._taken:
            number += 1
        return name


def _identifier(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()[:_LONGEST_NAME] or "SECRET"
    return f"_{name}" if name[0].isdigit() else name


def _whole(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a part of a text, longer by the rest of a reference that it cuts."""
    cut = text.rfind("${", start, end)
    if cut >= 0 and "}" not in text[cut:end] and (close := text.find("}", end)) >= 0:
        return start, close + 1
    return start, end


def _without_default(reference: str) -> str:
    name, found, _ = reference.partition(":-")
    return f"{name}}}" if found else reference


# -- the texts of the files ----------------------------------------------------------------------------


def _rewritten(text: str, before: Any, after: Any) -> str:
    """Return the text with the values of ``after``; without comments if they cannot be kept."""
    try:
        for path, value in _differences((), before, after):
            if has_comments(text, path):
                raise UnsafeJsonEdit("/".join(path))
            text = with_member(text, path, value)
    except (NotAnObject, UnsafeJsonEdit):
        return json.dumps(after, indent=2, ensure_ascii=False) + "\n"
    return text


def _differences(path: tuple[str, ...], before: Any, after: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in after.items():
        if isinstance(value, dict) and isinstance(before[key], dict):
            yield from _differences((*path, key), before[key], value)
        elif value != before[key]:
            yield (*path, key), value


def _comments_hidden(text: str) -> str:
    """Return JSON with the secrets in its comments hidden."""
    blanked, names, done, at = blank_comments(text), SecretNames(), [], 0
    for found in re.finditer(r"[^\r\n]+", text):
        line, rest = found.group(), blanked[found.start() : found.end()]
        begin = next(
            (index for index, (one, two) in enumerate(zip(line, rest, strict=True)) if one != two), None
        )
        if begin is not None:
            start = found.start() + begin
            done += [text[at:start], _comment_hidden(line[begin:], rest[begin:], names)]
            at = found.end()
    return "".join([*done, text[at:]])


def _comment_hidden(line: str, blanked: str, names: SecretNames) -> str:
    """Return the rest of a line from a comment on. What follows a closed comment stays."""
    code = blanked.lstrip()
    end = len(line) - len(code) if code else len(line)
    return hide_secrets(line[:end], names) + line[end:]


def _leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, str):
                    yield (*path, key), item


def _without(text: str, path: tuple[str, ...]) -> str:
    try:
        return without_value(text, path)
    except (UnsafeTextEdit, KeyError, TypeError):
        return text  # its value is hidden at the end


def _hidden_comment(text: str, found: re.Match[str], names: SecretNames) -> str:
    """Hide secrets in a comment, if this is one and no part of a text with ``#`` in it."""
    hidden = hide_secrets(found.group(), names)
    if hidden == found.group():
        return hidden
    changed = text[: found.start()] + hidden + text[found.end() :]
    try:
        return hidden if tomllib.loads(changed) == tomllib.loads(text) else found.group()
    except tomllib.TOMLDecodeError:
        return found.group()
