"""The texts of a definition that a model may read: every string and every name of its own, at any depth."""

from __future__ import annotations

from typing import Any, NamedTuple

from tabane.wire.json import InvalidJson, decode

MOST_BYTES = 1 << 20
"""Bytes of a definition that are read; what is behind them is not scanned, which is a finding."""

MOST_CHARACTERS = 64 << 10
"""Characters of all texts of a definition that are scanned."""

MOST_DEPTH = 64

_WORDS_OF_JSON_SCHEMA = frozenset(
    {
        *("type", "properties", "required", "description", "title", "default", "enum", "const", "items"),
        *("anyOf", "oneOf", "allOf", "not", "format", "pattern", "examples", "minimum", "maximum", "$ref"),
        *("minLength", "maxLength", "minItems", "maxItems", "additionalProperties", "$schema", "$defs"),
        *("definitions", "name", "inputSchema", "outputSchema", "annotations", "readOnlyHint", "uri"),
        *("destructiveHint", "idempotentHint", "openWorldHint", "_meta", "arguments", "mimeType", "icons"),
        *("uriTemplate", "size", "exclusiveMinimum", "exclusiveMaximum", "propertyNames", "execution"),
    }
)


class DefinitionTexts(NamedTuple):
    """Texts of a definition, texts and names of its parameters, and whether these are all."""

    texts: tuple[str, ...]
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    complete: bool


def definition_texts(definition: bytes) -> DefinitionTexts:
    """Return the texts and the names of properties of a definition. What is no JSON is one text."""
    cut = definition[:MOST_BYTES]
    collected = _Texts()
    deep = _collect(_read(cut), collected)
    complete = collected.left > 0 and not deep and len(cut) == len(definition)
    return DefinitionTexts(
        tuple(collected.texts), tuple(collected.parameters), tuple(collected.names), complete
    )


class _Texts:
    """The texts collected so far, and how many characters of further ones are taken."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.parameters: list[str] = []
        self.names: dict[str, None] = {}
        self.left = MOST_CHARACTERS

    def add(self, text: str, of_parameter: bool) -> None:
        if self.left > 0 and not _is_picture(text):
            (self.parameters if of_parameter else self.texts).append(text[: self.left])
            self.left -= len(text) + _EACH

    def name(self, name: str) -> None:
        if self.left > 0 and name not in _WORDS_OF_JSON_SCHEMA:
            self.names[name[: self.left]] = None
            self.left -= len(name) + _EACH


_EACH = 8
"""Characters that each text counts in addition, so that there are not too many of them."""


def _is_picture(text: str) -> bool:
    return text.startswith("data:image/") and ";base64," in text[:80] and " " not in text


def _read(definition: bytes) -> Any:
    if definition[:1] in (b"{", b"[", b'"'):
        try:
            return decode(definition)
        except InvalidJson:
            pass
    return definition.decode("utf-8", "replace")


def _collect(value: Any, into: _Texts) -> bool:
    """Collect strings and names; return whether some are too deep. There is no recursion."""
    waiting: list[tuple[Any, int, bool]] = [(value, 0, False)]
    deep = False
    while waiting and into.left > 0:
        one, depth, of_parameter = waiting.pop()
        if isinstance(one, str):
            into.add(one, of_parameter)
        elif isinstance(one, dict | list):
            deep = deep or depth >= MOST_DEPTH
            if depth < MOST_DEPTH:
                waiting.extend(
                    (each, depth + 1, of_parameter or key in _PARAMETERS) for key, each in _parts(one, into)
                )
    return deep


_PARAMETERS = ("properties", "arguments")


def _parts(value: dict[str, Any] | list[Any], into: _Texts) -> list[tuple[str, Any]]:
    """Return the parts of a value, the last first, with their names."""
    if isinstance(value, list):
        return [("", each) for each in reversed(value)]
    for name in value:
        into.name(name)
    return list(reversed(value.items()))
