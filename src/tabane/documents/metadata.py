"""The user's metadata as strings for filters: ``key NUL kind value``; pure.

Numbers are encoded so that their texts sort like numbers: the bits of a double as 16 hexadecimal digits. All
bits are inverted if it is negative, otherwise only the first bit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tabane.documents.document import Own
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.records import EXACT, encodable

RESERVED = frozenset({"filepath", "file_type", "updated_at"})
"""Names of members that every document has. Filters use these names too."""

MOST_KEYS = 64
MOST_VALUES = 500  # of a document
LONGEST_KEY = 200  # bytes
LONGEST_VALUE = 3_000  # bytes
LARGEST = 16_000  # bytes of all as JSON: every chunk carries them

STRING, NUMBER, BOOLEAN = "s", "n", "b"


def checked(metadata: Mapping[str, Any]) -> dict[str, Own]:
    """Return the normalized metadata, without null values.

    Raises :class:`BadArguments` that names the key.
    """
    found = {key: _value(key, value) for key, value in metadata.items() if value is not None}
    if len(found) > MOST_KEYS:
        raise BadArguments(say("metadata: it has at most {most} {most:key|keys}", most=MOST_KEYS), "metadata")
    if sum(len(value) if isinstance(value, list) else 1 for value in found.values()) > MOST_VALUES:
        raise BadArguments(
            say("metadata: it has at most {most} {most:value|values}", most=MOST_VALUES), "metadata"
        )
    if len(msgspec.json.encode(found)) > LARGEST:
        raise BadArguments(say("metadata: it has at most {most} {most:byte|bytes}", most=LARGEST), "metadata")
    return found


def encoded(metadata: Mapping[str, Own]) -> tuple[str, ...]:
    """Return the strings of a record for filters, each once, in order of keys."""
    return tuple(dict.fromkeys(_strings(metadata)))


def _strings(metadata: Mapping[str, Own]) -> Iterator[str]:
    for key in sorted(metadata):
        value = metadata[key]
        for each in value if isinstance(value, list) else (value,):
            yield element(key, each)


def element(key: str, value: str | int | float | bool) -> str:
    """Return the string of one value under its key."""
    return beginning(key, kind_of(value)) + spelt(value)


def beginning(key: str, kind: str) -> str:
    """Return the common prefix of the strings of a key, for values of one kind."""
    return f"{key}\0{kind}"


def kind_of(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return BOOLEAN
    return STRING if isinstance(value, str) else NUMBER


def spelt(value: str | int | float | bool) -> str:
    """Return a value as a string that sorts like the values of its kind."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else _ordered(value)


def _ordered(number: int | float) -> str:
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))  # -0.0 + 0.0 is 0.0
    turned = bits ^ (2**64 - 1 if bits >> 63 else 1 << 63)
    return f"{turned:016x}"


def checked_key(key: str, parameter: str) -> str:
    """Return a valid key. Raises :class:`BadArguments`."""
    size = len(encodable(key, parameter).encode())
    if not 0 < size <= LONGEST_KEY or "\0" in key or key.startswith("$"):
        message = say(
            "{parameter}: a key has 1 to {most} {most:byte|bytes}, no NUL, and does not begin with $",
            parameter=parameter,
            most=LONGEST_KEY,
        )
        raise BadArguments(message, parameter)
    return key


def checked_scalar(value: object, parameter: str) -> str | int | float | bool:
    """Return a string, number or boolean. Raises :class:`BadArguments`."""
    if isinstance(value, str):
        if len(encodable(value, parameter).encode()) > LONGEST_VALUE:
            raise BadArguments(
                say(
                    "{parameter}: a string has at most {most} {most:byte|bytes}",
                    parameter=parameter,
                    most=LONGEST_VALUE,
                ),
                parameter,
            )
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= EXACT:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise BadArguments(
        say("{parameter}: it must be a string, a number up to 2**53, true or false", parameter=parameter),
        parameter,
    )


def _value(key: str, value: object) -> Own:
    path = f"metadata.{checked_key(key, 'metadata')}"
    if key in RESERVED:
        raise BadArguments(say("{parameter}: this name is reserved", parameter=path), path)
    if not isinstance(value, list | tuple):
        return checked_scalar(value, path)
    if not all(isinstance(each, str) for each in value):
        raise BadArguments(say("{parameter}: a list can contain only strings", parameter=path), path)
    return [str(checked_scalar(each, path)) for each in value]
