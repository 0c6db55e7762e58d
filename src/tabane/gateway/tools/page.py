"""The compact page of a tool: its description, then a line a parameter, in TypeScript's manner.

``path: string — Absolute path.`` is required, ``limit?: integer 1..1000 = 100 — …`` optional with its
range and default; members of objects are indented below them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from tabane.gateway.tools.schemas import (
    FLAT,
    WHOLE,
    Detail,
    Parameter,
    Root,
    Schema,
    literal,
    parameters,
    resolved,
    type_of,
)
from tabane.search.sentences import one_line
from tabane.text.cutting import shortened
from tabane.wire.json import InvalidJson, decode, fields

if TYPE_CHECKING:
    from tabane.gateway.tools.tool import Tool

_DESCRIPTION = 1500
_HINT = 180
_LONGEST_HINT = 4_000
_BRIEF_HINT = 90  # of a tool with many parameters, and of nested members
_MANY = 16
_DEEPEST = 3
_MOST_LINES = 80
_TYPE = 600
_RESULT = 300
_LONGEST_RESULT = 100_000  # bytes of JSON that are read for it
# What JavaScript calls a safe integer is what generators write for "no limit".
_MOST = 2**53 - 1
_MORE = "(more: detail full)"


def page(tool: Tool) -> str:
    """A tool as text, some 150 tokens: what a model needs to call it right the first time."""
    lines = [f"{tool.alias}{_traits(tool)}"]
    if description := one_line(tool.description or tool.title):
        whole = len(description) <= _DESCRIPTION
        lines.append(description if whole else f"{shortened(description, _DESCRIPTION)} {_MORE}")
    lines.extend(_arguments(tool.schema))
    if result := _result(tool):
        lines.append(result)
    return "\n".join(lines)


def _arguments(schema: Schema) -> list[str]:
    # References may make endless members: no more are read than are shown.
    members = list(islice(_members(schema, Root(schema), 0), _MOST_LINES + 1))
    if len(members) > _MOST_LINES:
        members[-1] = f"… {_MORE}"
    if members:
        return members
    return ["(any arguments)" if schema.get("additionalProperties") else "(no arguments)"]


def _traits(tool: Tool) -> str:
    if tool.read_only:
        return " [read-only]"
    try:
        raw = fields(tool.definition).get("annotations", b"null")
        annotations = decode(raw) if len(raw) <= _LONGEST_RESULT else None
    except InvalidJson:
        annotations = None
    idempotent = isinstance(annotations, dict) and annotations.get("idempotentHint") is True
    traits = [name for name, has in (("destructive", tool.destructive), ("idempotent", idempotent)) if has]
    return f" [{', '.join(traits)}]" if traits else ""


def _members(schema: Any, root: Root, level: int) -> Iterator[str]:
    found = parameters(schema, root)
    most = _BRIEF_HINT if level or len(found) > _MANY else _HINT
    for parameter in found:
        inner = _inner(parameter.schema, root) if level < _DEEPEST else None
        kind = _kind(parameter.schema, root, inner, WHOLE if level < _DEEPEST else FLAT)
        yield "  " * level + _line(parameter, kind, most)
        if inner is not None:
            yield from _members(inner, root, level + 1)


def _inner(schema: Schema, root: Root) -> Schema | None:
    """The object whose members are shown below a parameter: its own, or those of its items."""
    if isinstance(schema.get("items"), dict):
        schema = resolved(schema["items"], root)
    return schema if isinstance(schema.get("properties"), dict) and schema["properties"] else None


def _kind(schema: Schema, root: Root, inner: Schema | None, detail: Detail) -> str:
    if inner is None:
        return shortened(type_of(schema, root, detail), _TYPE)
    return "object[]" if isinstance(schema.get("items"), dict) else "object"


def _line(parameter: Parameter, kind: str, most: int) -> str:
    schema = parameter.schema
    text = f"{parameter.name}{'' if parameter.required else '?'}: {kind}{limits(schema)}"
    if schema.get("default") is not None:
        text += f" = {literal(schema['default'])}"
    hint = schema.get("description")
    hint = shortened(one_line(hint[:_LONGEST_HINT]), most) if isinstance(hint, str) else ""
    return f"{text} — {hint}" if hint else text


def limits(schema: Schema) -> str:
    """The limits of a value: `` 1..1000``, `` ≥ 0``, `` (≤ 40000 chars)``, `` /^[A-Z]{2}$/``, `` <uri>``."""
    found = [
        _range(schema.get("minimum"), schema.get("maximum")),
        _range(schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"), strict=True),
        _counted(schema.get("minLength"), schema.get("maxLength"), "chars"),
        _counted(schema.get("minItems"), schema.get("maxItems"), "items"),
    ]
    if isinstance(step := schema.get("multipleOf"), int | float) and abs(step) < _MOST:
        found.append(f"multiple of {step}")
    if isinstance(pattern := schema.get("pattern"), str):
        found.append(f"/{shortened(pattern, 120)}/")
    if isinstance(form := schema.get("format"), str):
        found.append(f"<{shortened(form, 40)}>")
    return "".join(f" {part}" for part in found if part)


def _range(low: Any, high: Any, *, strict: bool = False) -> str:
    low, high = _bound(low), _bound(high)
    if low and high and not strict:
        return f"{low}..{high}"
    equal = "" if strict else "="
    return " ".join(part for part in (low and f">{equal}{low}", high and f"<{equal}{high}") if part)


def _bound(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return ""
    return "" if abs(value) >= _MOST else str(value)


def _counted(low: Any, high: Any, unit: str) -> str:
    text = _range(low or None, high)
    return f"({text} {unit})" if text else ""


def _result(tool: Tool) -> str:
    """What comes back, where the upstream says it."""
    try:
        raw = fields(tool.definition).get("outputSchema", b"null")
        schema = decode(raw) if len(raw) <= _LONGEST_RESULT else None
    except InvalidJson:
        return ""
    if not isinstance(schema, dict) or not schema:
        return ""
    return "→ " + shortened(type_of(schema, Root(schema), WHOLE), _RESULT)
