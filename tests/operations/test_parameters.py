"""Parameters of operations: parsing and errors."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from tabane.errors import BadArguments
from tabane.operations import Caller, Face, Operation, Privilege
from tabane.operations.door import decode_params


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    limit: Annotated[int, Meta(ge=1, le=50)] = 5


async def nothing(caller: Caller, params: Wanted) -> None: ...


OPERATION = Operation("wanted", "", Wanted, nothing, frozenset({Face.RPC}), Privilege.READ)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ('{"name": "a"}', Wanted("a")),
        ('{"name": "a", "limit": 50}', Wanted("a", limit=50)),
        ('{"name": "a", "arguments": {"x": "\\ud83d"}}', Wanted("a", {"x": "\ud83d"})),
        ('{"name": "\\udc00", "arguments": {"x": [Infinity]}}', Wanted("\udc00", {"x": [float("inf")]})),
        (
            '{"name": "a", "arguments": {"x": 123456789012345678901}}',
            Wanted("a", {"x": 123456789012345678901}),
        ),
    ],
)
def test_whatever_passes_the_data_plane_is_read(text: str, params: Wanted) -> None:
    assert decode_params(OPERATION, text.encode()) == params


@pytest.mark.parametrize(
    ("text", "parameter", "words"),
    [
        ("", "name", "missing required field"),
        ('{"name": ""}', "name", "name: "),
        ('{"name": "a", "limit": 51}', "limit", "limit: "),
        ('{"name": "\\ud83d", "limit": 51}', "limit", "limit: "),
        ('{"name": "a", "limit": NaN}', "limit", "limit: "),
        ('{"name": "a", "limti": 5}', "limti", "unknown field"),
        ("{}", "name", "missing required field"),
        ('{"name": "a", "limit": 51}', "limit", "(allowed: 1 to 50)"),
        (json.dumps({"n" * 300: 1, "name": "a"}), f"{'n' * 100}…", "unknown field"),
        ("[]", None, "wanted: "),
        ("[NaN]", None, "wanted: "),
        ('{"name": "a"', None, "wanted: the parameters are not readable JSON"),
        ('{"name": "\\ud83d"', None, "wanted: the parameters are not readable JSON"),
        ('{"arguments": {"x": ' + "[" * 100_000, None, "wanted: "),
    ],
)
def test_what_does_not_fit_is_named(text: str, parameter: str | None, words: str) -> None:
    with pytest.raises(BadArguments) as caught:
        decode_params(OPERATION, text.encode())
    assert caught.value.parameter == parameter
    assert words in str(caught.value)
