"""Values of scripts as JSON; pure."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Mapping
from typing import Any

_MOST_DEPTH = 64

_FEW, _SHORT = 50, 2_000


class NoJson(Exception):
    """A value that cannot be returned. The text says why."""


def is_small(value: Any) -> bool:
    """Return whether a value takes no time to speak of. Looks at a few members at most."""
    if isinstance(value, str):
        return len(value) <= _SHORT
    if isinstance(value, dict):
        return len(value) <= _FEW and all(map(_is_short, value)) and all(map(_is_short, value.values()))
    if isinstance(value, list | tuple):
        return len(value) <= _FEW and all(map(_is_short, value))
    return _is_short(value)


def _is_short(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return value is None or isinstance(value, float) or (isinstance(value, str) and len(value) <= _SHORT)


def as_json(value: Any, depth: int = 0) -> Any:
    """Return a value of a script in types of JSON. Raises NoJson if it is nested too deeply.

    Sets and tuples become lists, bytes base64, times ISO 8601. What has attributes becomes an object.
    """
    if depth > _MOST_DEPTH:
        raise NoJson(f"the result is nested more than {_MOST_DEPTH} levels deep. Return less of it.")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_key(key): as_json(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(member, depth + 1) for member in value]
    return _other(value, depth)


def _other(value: Any, depth: int) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    attributes = getattr(value, "attributes", None)  # an instance of a class of the script
    return as_json(attributes, depth + 1) if isinstance(attributes, dict) else str(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(key)
