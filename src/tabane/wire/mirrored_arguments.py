"""Arguments of tools that are mirrored into HTTP headers: the marks ``x-mcp-header`` of schemas; pure.

Source: the specification 2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters". One
invalid mark makes the whole tool invalid: a client on HTTP leaves it out of the list and logs why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tabane.wire.json import InvalidJson, decode

MARK = "x-mcp-header"

_KINDS = ("string", "integer", "boolean")
_token = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch

# Keywords of JSON Schema 2020-12 whose values are schemas. What else a schema holds (default, enum,
# const, examples) is data, in which a mark means nothing; a $ref is not followed.
_HOLD_ONE = frozenset(("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames"))
_HOLD_ONE |= {"unevaluatedProperties", "not", "if", "then", "else", "contentSchema"}
_HOLD_LIST = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_HOLD_NAMED = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))

_Path = tuple[str, ...] | None


class _SchemaStep(NamedTuple):
    """A property on the path to a schema. Paths are linked, since a copy at each level would be large."""

    above: _SchemaStep | None
    name: str


_ELSEWHERE = _SchemaStep(None, "")
"""A step into a part of the schema that no path of property names reaches."""


class HeaderMirror(NamedTuple):
    """An argument that is also sent as a header. ``header`` is the name after ``Mcp-Param-``.

    ``path`` are the keys that lead to it in the arguments; ``kind`` is its type in JSON Schema:
    string, integer or boolean.
    """

    header: str
    path: tuple[str, ...]
    kind: str


def mirrors(definition: bytes) -> tuple[HeaderMirror, ...]:
    """Return the arguments that a tool's definition marks; none if any mark is invalid."""
    if MARK.encode() not in definition:
        return ()
    return _read_mirrors(definition)[0]


def mirror_fault(definition: bytes) -> str | None:
    """Return why a tool's marks make it unusable over HTTP, for a log; None if they are valid."""
    if MARK.encode() not in definition:
        return None
    return _read_mirrors(definition)[1]


def _read_mirrors(definition: bytes) -> tuple[tuple[HeaderMirror, ...], str | None]:
    try:
        tool = decode(definition)
    except InvalidJson:
        return (), None
    found: dict[str, HeaderMirror] = {}
    for step, schema in _positions(tool.get("inputSchema") if isinstance(tool, dict) else None):
        if MARK in schema:
            mirror = _mirror_of(_path(step), schema)
            if isinstance(mirror, str):
                return (), mirror
            first = found.setdefault(mirror.header.lower(), mirror)
            if first is not mirror:
                pair = " and ".join(sorted((".".join(first.path), ".".join(mirror.path))))
                return (), f"{MARK}: {pair} have the same header, {mirror.header}"
    return tuple(found.values()), None


def _mirror_of(path: _Path, schema: dict[str, Any]) -> HeaderMirror | str:
    """Return the mirror for a marked position, or what is wrong with it."""
    if not path:
        return f"{MARK}: a mark stands where no chain of properties alone leads"
    where, header, kind = ".".join(path), schema[MARK], schema.get("type")
    if not isinstance(header, str) or not _token(header):
        return f"{MARK}: {where}: the value must be the name of a header"
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"{MARK}: {where}: the type must be one of {', '.join(_KINDS)}"
    return HeaderMirror(header, path, kind)


def _path(step: _SchemaStep | None) -> _Path:
    """Return the names on the path to a schema; None if anything but properties is on it."""
    if step is _ELSEWHERE:
        return None
    names = []
    while step is not None:
        names.append(step.name)
        step = step.above
    return tuple(reversed(names))


def _positions(root: Any) -> Iterator[tuple[_SchemaStep | None, dict[str, Any]]]:
    """Yield each schema within a schema, with the last of the properties on its path.

    No recursion: the peer chooses the depth.
    """
    waiting: list[tuple[_SchemaStep | None, Any]] = [(None, root)]
    for step, schema in waiting:  # which grows as it is read
        if not isinstance(schema, dict):
            continue
        yield step, schema
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                waiting.extend(
                    (_ELSEWHERE if step is _ELSEWHERE else _SchemaStep(step, name), part)
                    for name, part in value.items()
                )
            else:
                waiting.extend((_ELSEWHERE, part) for part in _schemas_in(keyword, value))


def _schemas_in(keyword: str, value: Any) -> list[Any]:
    if keyword in _HOLD_ONE:
        return [value]
    if keyword in _HOLD_LIST and isinstance(value, list):
        return value
    if keyword in _HOLD_NAMED and isinstance(value, dict):
        return list(value.values())
    return []
