"""Arguments of a call from the facts of a task, by names and types of the parameters; pure, without a model.

A parameter takes the fact of its name, else the unused fact whose name has the most words in common, else
the only unused fact of its type. Optional parameters take a fact of their own name only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tabane.cli.bench.answer_texts import ReadParameter

_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_MISSING = object()
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "any", "null"})


class UnfilledParameter(Exception):
    """The facts have no value for a required parameter."""


def arguments_for(parameters: Sequence[ReadParameter], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments. Raises UnfilledParameter."""
    left = dict(facts)
    found: dict[str, Any] = {}
    for step in (_by_name, _by_words, _by_type):
        for parameter in parameters:
            if parameter.name in found or (step is not _by_name and not parameter.required):
                continue
            key = step(parameter, left, [each for each in parameters if each.name not in found])
            if key is not None:
                found[parameter.name] = _value(parameter, left.pop(key))
    for parameter in parameters:
        if parameter.required and parameter.name not in found:
            found[parameter.name] = _composed(parameter, left)
    return {each.name: found[each.name] for each in parameters if each.name in found}


def _composed(parameter: ReadParameter, left: dict[str, Any]) -> Any:
    """Return an object, or a list of one object, whose members take the facts that are left."""
    if not parameter.members or not left:
        raise UnfilledParameter(parameter.name)
    value = arguments_for(parameter.members, left)
    return [value] if _is_list(parameter.type) else value


def _by_name(
    parameter: ReadParameter, left: Mapping[str, Any], open_parameters: Sequence[ReadParameter]
) -> str | None:
    wanted = _words(parameter.name)
    return next((key for key in left if _words(key) == wanted and _takes(parameter, left[key])), None)


def _by_words(
    parameter: ReadParameter, left: Mapping[str, Any], open_parameters: Sequence[ReadParameter]
) -> str | None:
    def common(key: str) -> float:
        mine, given = set(_words(parameter.name)), set(_words(key))
        return len(mine & given) / len(mine | given)

    fitting = [key for key in left if common(key) > 0 and _takes(parameter, left[key])]
    return max(fitting, key=common, default=None)


def _by_type(
    parameter: ReadParameter, left: Mapping[str, Any], open_parameters: Sequence[ReadParameter]
) -> str | None:
    fitting = [key for key in left if _takes(parameter, left[key])]
    rivals = (
        [each for each in open_parameters if each.required and _takes(each, left[fitting[0]])]
        if fitting
        else []
    )
    return fitting[0] if len(fitting) == len(rivals) == 1 else None


def _takes(parameter: ReadParameter, value: Any) -> bool:
    """Return whether a parameter of this type takes the value, alone or as the only item of a list."""
    return _cast(parameter, value) is not _MISSING


def _value(parameter: ReadParameter, value: Any) -> Any:
    return _cast(parameter, value)


def _cast(parameter: ReadParameter, value: Any) -> Any:
    kind = parameter.type
    if _is_list(kind):
        items = value if isinstance(value, list) else [value]
        item = ReadParameter(parameter.name, kind[:-2], True, parameter.members)
        cast = [_cast(item, each) for each in items]
        return _MISSING if _MISSING in cast else cast
    if isinstance(value, dict):
        return _object(parameter, value)
    options = kind.split("|")
    return value if any(_fits(option.strip(), value) for option in options) else _MISSING


def _object(parameter: ReadParameter, value: Mapping[str, Any]) -> Any:
    if not parameter.members:
        return dict(value) if parameter.type.startswith(("object", "{", "any")) else _MISSING
    try:
        return arguments_for(parameter.members, value)
    except UnfilledParameter:
        return _MISSING


def _fits(kind: str, value: Any) -> bool:
    """Return whether a value has that type. A word that is no type is the value of an enum."""
    if kind not in _TYPES:
        return str(value) == kind.strip('"')
    if isinstance(value, bool):
        return kind in ("boolean", "any")
    if isinstance(value, int):
        return kind in ("integer", "number", "any")
    if isinstance(value, float):
        return kind in ("number", "any")
    return isinstance(value, str) and kind in ("string", "any")


def _is_list(kind: str) -> bool:
    return kind.endswith("[]")


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name))
