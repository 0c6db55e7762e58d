"""Invalid arguments: the error names the parameter, the problem, and the line of the schema."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.tools.tool import Tool
from tabane.catalog.tools.validation import MOST_COMPILED, ArgumentValidator, ValidationPool
from tabane.errors import BadArguments
from tabane.workers.pool import Budget
from tests.catalog.tools.test_disclosure import JSON, SCHEMAS
from tests.catalog.tools.tools import tool
from tests.harness.cases import cases_beside
from tests.harness.patience import LONG

CASES = cases_beside(__file__)

EDIT = {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "mode": {"enum": ["read", "write"]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "edits": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/Edit"}},
        "ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"Edit": EDIT},
}


def with_schema(schema: Any) -> Tool:
    return tool("t", inputSchema=schema)


def fault(arguments: Any, schema: Any = SCHEMA) -> BadArguments:
    raw = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    with pytest.raises(BadArguments) as caught:
        check(with_schema(schema), raw)
    return caught.value


def passes(arguments: bytes, schema: Any = SCHEMA) -> None:
    check(with_schema(schema), arguments)


def check(tool: Tool, arguments: bytes) -> None:
    """Judge at once, or in the process if the schema is not proven to be cheap."""

    async def whole() -> None:
        validator = ArgumentValidator(
            ValidationPool(dict(os.environ), budget=Budget(seconds=60, deadline=100))
        )
        try:
            judgment = validator.check(tool, arguments)
            if judgment is not None:
                await judgment
        finally:
            await validator.close()

    asyncio.run(whole())


def test_arguments_that_fit_pass() -> None:
    passes(b'{"path": "/x", "limit": 5, "mode": "read", "when": null, "edits": [{"old": "a"}], "ratio": 0.5}')


@pytest.mark.parametrize(
    ("arguments", "parameter", "message"), CASES["a_fault_is_named_with_the_schema_line"]
)
def test_a_fault_is_named_with_the_schema_line(arguments: Any, parameter: str, message: str) -> None:
    error = fault(arguments)
    assert (error.parameter, str(error)) == (parameter, message)
    assert error.code == -32602


@pytest.mark.parametrize(("name", "value", "words"), CASES["every_limit_has_its_words"])
def test_every_limit_has_its_words(name: str, value: Any, words: str) -> None:
    assert words in str(fault({"path": "x", name: value}))


def test_several_faults_are_named_at_once_and_what_is_missing_first() -> None:
    lines = str(fault({"limit": 5000, "mode": "x", "name": "a"})).splitlines()
    assert [line.split(":")[0] for line in lines] == ["path", "limit", "mode"]


def test_arguments_that_are_no_object_are_named_as_a_whole() -> None:
    error = fault([])
    assert error.parameter == "arguments"
    assert str(error).startswith("arguments: [] is not of type object.")


def test_a_long_value_and_a_long_schema_are_cut() -> None:
    schema = {"properties": {"a": {"type": "integer", "description": "word " * 1000}}}
    assert len(str(fault({"a": "x" * 100_000}, schema))) < 400


def test_values_are_not_coerced() -> None:
    assert fault({"path": "x", "limit": "5"}).parameter == "limit"


def test_formats_are_left_to_the_upstream() -> None:
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"at": {"format": "date"}}}
    passes(b'{"at": "tomorrow"}', draft7)


def test_the_dialect_that_a_schema_names_is_honoured() -> None:
    limit = {"properties": {"a": {"type": "integer", "maximum": 5, "exclusiveMaximum": True}}}
    fault({"a": 5}, {"$schema": "http://json-schema.org/draft-04/schema#", **limit})
    passes(b'{"a": 5}', limit)  # no schema of 2020-12: what does not compile is not held against anyone


@pytest.mark.parametrize("schema", CASES["a_schema_that_does_not_compile_lets_everything_pass"])
def test_a_schema_that_does_not_compile_lets_everything_pass(schema: Any) -> None:
    passes(b'{"a": 1}', schema)


@pytest.mark.parametrize(
    "raw",
    [b'{"path": "\\ud800"}', b'{"path": NaN}', b'{"limit": ' + b"9" * 5000 + b"}", b"not JSON", b"[" * 5000],
)
def test_arguments_that_cannot_be_judged_pass(raw: bytes) -> None:
    passes(raw)


def test_a_regular_expression_that_runs_away_judges_nothing() -> None:
    schema = {"properties": {"a": {"pattern": "^(?=x|a)(a|aa)+c(?!d)$"}}}
    passes(json.dumps({"a": "a" * 5000 + "!"}).encode(), schema)


def test_a_remote_reference_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        # In a thread, so that a fetch could not keep the test from noticing it.
        check = threading.Thread(target=passes, args=(b'{"a": 1}', {"properties": {"a": {"$ref": address}}}))
        check.start()
        check.join(LONG)
        assert not check.is_alive()
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_definition_that_changed_is_compiled_anew() -> None:
    validator = ArgumentValidator()
    validator.check(with_schema({"properties": {"a": {"type": "string"}}}), b'{"a": "x"}')
    with pytest.raises(BadArguments):
        validator.check(with_schema({"properties": {"a": {"type": "integer"}}}), b'{"a": "x"}')


def test_only_so_many_compiled_schemas_are_kept() -> None:
    validator = ArgumentValidator()
    for number in range(MOST_COMPILED + 50):
        validator.check(tool(f"t{number}", inputSchema=SCHEMA), b'{"path": "x"}')
    assert len(validator._known) == MOST_COMPILED


@pytest.mark.parametrize(
    ("schema", "parameter"),
    [({"additionalProperties": False}, "arguments"), ({"properties": {"a": False}}, "a")],
)
def test_what_may_not_be_given_at_all_is_said_so(schema: Any, parameter: str) -> None:
    assert str(fault({"a": 1}, schema)) == f"{parameter}: not accepted here."


@given(st.dictionaries(st.text(min_size=1, max_size=10), JSON, min_size=1))
def test_any_unknown_parameter_is_named(arguments: dict[str, Any]) -> None:
    error = fault(arguments, {"properties": {}, "additionalProperties": False})
    assert error.parameter
    assert "there is no such parameter. Parameters: –." in str(error)


@given(SCHEMAS, JSON)
def test_any_schema_judges_any_value_or_lets_it_pass(schema: Any, value: Any) -> None:
    with contextlib.suppress(BadArguments):
        ArgumentValidator().check(with_schema(schema), json.dumps(value).encode())
