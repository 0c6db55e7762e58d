"""Arguments of a tool as typed: ``key=value`` pairs read by the tool's schema, or a JSON object; pure."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from tabane.errors import BadArguments
from tabane.messages import Message, say

Schema = dict[str, Any]

_DEPTH = 8
"""References, or alternatives inside alternatives, that are followed: a schema may lead in a circle."""


def read_pairs(pairs: Iterable[str], schema: Schema) -> dict[str, Any]:
    """Return the arguments of ``key=value`` pairs, each with the type that ``schema`` gives its key.

    A repeated key makes a list if its type is one. The value of a key that is not in the schema is read as
    JSON if it is JSON, else as text; the hub decides whether the key is allowed. Raises BadArguments that
    names the key and its type.
    """
    values: dict[str, list[str]] = {}
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found or not key:
            raise _no_pair(pair)
        values.setdefault(key, []).append(value)
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {key: _argument(key, texts, known.get(key), schema) for key, texts in values.items()}


def check_pairs(pairs: Sequence[str]) -> None:
    """Raise BadArguments for what is no ``key=value``. It says what ``key: value`` is here."""
    for number, pair in enumerate(pairs):
        if "=" in pair.lstrip("="):
            continue
        key, colon, value = pair.partition(":")
        value = value.strip() or " ".join(pairs[number + 1 : number + 2])
        if key and colon and value:
            right = shlex.quote(f"{key.strip()}={value}")
            raise BadArguments(say("{pair}: arguments are written as {right}", pair=pair, right=right))
        raise _no_pair(pair)


def _no_pair(pair: str) -> BadArguments:
    return BadArguments(
        say(
            "{pair}: arguments must be key=value. To give JSON, use --args, or - to read it "
            "from standard input.",
            pair=pair,
        )
    )


def completed_pairs(schema: Schema, given: Iterable[str], incomplete: str) -> list[str]:
    """Return what a shell offers for ``incomplete``: ``key=`` for keys, required ones first, or with values.

    A key of ``given`` pairs is offered again only if it is a list. Values are those that the schema names.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    key, found, _ = incomplete.partition("=")
    if found:
        return [f"{key}={value}" for value in _known_values(known.get(key), schema)]
    taken = {pair.partition("=")[0] for pair in given}
    required = schema.get("required")
    first = [name for name in required if name in known] if isinstance(required, list) else []
    return [
        f"{name}="
        for name in dict.fromkeys((*first, *known))
        if name not in taken or "array" in _types(_resolved(known[name], schema), schema)
    ]


def _known_values(part: object, whole: Schema) -> list[str]:
    """Return the values that a schema names for a key: choices, true and false, examples, the default."""
    part = _resolved(part, whole)
    parts = [part, *_options(part, whole), _resolved(part.get("items"), whole)]
    values = [choice for each in parts for choice in _choices(each)]
    if not values and "boolean" in _types(part, whole):
        values = [True, False]
    examples = part.get("examples")
    values += [
        *(examples if isinstance(examples, list) else ()),
        *([part["default"]] if "default" in part else []),
    ]
    shown = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values)
    return list(dict.fromkeys(shown))


def read_object(text: str | bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object. ``where`` names its source in errors. Raises BadArguments."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadArguments(
            say("{where}: not JSON: {detail}", where=where, detail=_json_error(error))
        ) from None
    if not isinstance(value, dict):
        raise BadArguments(say('{where}: expected a JSON object, such as {{"query": "cats"}}', where=where))
    return value


def _json_error(error: Exception) -> Message:
    """Return an error of Python's JSON parser as a message that can be translated."""
    if not isinstance(error, json.JSONDecodeError):
        return say("nested too deeply") if isinstance(error, RecursionError) else Message(str(error))
    known = {message.template: message for message in _JSON_ERRORS}
    return say(
        "{why}: line {line} column {column} (char {place})",
        why=known.get(error.msg, error.msg), line=error.lineno, column=error.colno, place=error.pos,
    )  # fmt: skip


_JSON_ERRORS = (
    say("Expecting value"),
    say("Expecting property name enclosed in double quotes"),
    say("Expecting ':' delimiter"),
    say("Expecting ',' delimiter"),
    say("Extra data"),
    say("Unterminated string starting at"),
    say("Invalid control character at"),
    say("Invalid \\escape"),
    say("Invalid \\uXXXX escape"),
    say("Illegal trailing comma before end of object"),
    say("Illegal trailing comma before end of array"),
)


def _argument(key: str, texts: list[str], part: object, whole: Schema) -> Any:
    part = _resolved(part, whole)
    types = _types(part, whole)
    if len(texts) > 1:
        if types and "array" not in types:
            raise BadArguments(
                say(
                    "{key} was given {count} {count:time|times}, but it is not a list.",
                    key=key,
                    count=len(texts),
                )
            )
        return [_element(key, text, part, whole) for text in texts]
    text = texts[0]
    if "array" in types and "string" not in types and not text.lstrip().startswith("["):
        return [_element(key, text, part, whole)]
    return _value(key, text, part, types)


def _element(key: str, text: str, part: Schema, whole: Schema) -> Any:
    for option in (part, *_options(part, whole)):
        if "items" in option:
            item = _resolved(option["items"], whole)
            return _value(key, text, item, _types(item, whole))
    return _value(key, text, {}, frozenset())


def _value(key: str, text: str, part: Schema, types: frozenset[str]) -> Any:
    named = [
        choice
        for choice in _choices(part)
        if text == (choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False))
    ]
    if named:
        return named[0]
    value, kind = _parsed(text)
    if types == {"string"} or (not types and kind == "invalid"):
        return text
    if not types or kind in types or (kind == "integer" and "number" in types):
        return value
    if "integer" in types and kind == "number" and value == int(value):
        return int(value)
    if "string" in types:
        return text
    raise BadArguments(
        say(
            "{key}: {types} is required, not {given}",
            key=key,
            types=" | ".join(sorted(types)),
            given=text[:80],
        ),
        key,
    )


def _parsed(text: str) -> tuple[Any, str]:
    """Return the text as JSON, and its type in JSON Schema."""
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError):
        return text, "invalid"
    return value, _KINDS[type(value)]


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_KINDS = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _types(part: Schema, whole: Schema, depth: int = 0) -> frozenset[str]:
    """Return the types that a value may have, also those in anyOf and oneOf; empty if any type is allowed."""
    named = part.get("type")
    if isinstance(named, str):
        return frozenset((named,))
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))
    if depth > _DEPTH:
        return frozenset()
    options = [_types(option, whole, depth + 1) for option in _options(part, whole)]
    if options:
        return frozenset().union(*options) if all(options) else frozenset()
    return frozenset(_KINDS[type(choice)] for choice in _choices(part) if type(choice) in _KINDS)


def _options(part: Schema, whole: Schema) -> list[Schema]:
    found = part.get("anyOf") or part.get("oneOf")
    return [_resolved(option, whole) for option in found] if isinstance(found, list) else []


def _choices(part: Schema) -> list[Any]:
    if "const" in part:
        return [part["const"]]
    choices = part.get("enum")
    return choices if isinstance(choices, list) else []


def _resolved(part: object, whole: Schema) -> Schema:
    """Return the schema that a local ``$ref`` refers to; {} if it refers to nothing or to itself."""
    for _ in range(_DEPTH):
        if not isinstance(part, dict):
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return part
        if not reference.startswith("#/"):
            part = {}
            continue
        part = whole
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            part = part.get(step) if isinstance(part, dict) else None
    return {}
