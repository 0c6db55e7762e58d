"""Every parameter of every method, given wrongly: -32602 that names it, and the connection lives on.

What is wrong is made of the methods' own types, so that a new operation needs no test of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from websockets.sync.client import ClientConnection, connect

from tabane.hub.http.door import HttpDoor
from tabane.hub.process.administration import HubAdministration, table_of, whole_table
from tabane.operations import Face, Operation, OperationTable
from tests.harness.patience import LONG
from tests.harness.running_hub import running_hub
from tests.hub.rpc.methods_page import rpc_page

SCALARS: dict[str, list[Any]] = {
    "string": ["x", "束", ""],
    "integer": [0, 7, -1, 1 << 70],
    "number": [0.5, -1e300],
    "boolean": [True, False],
    "array": [[], [1], [[]], [{}]],
    "object": [{}, {"x": 1}],
    "null": [None],
}
"""Values of each type of JSON Schema."""


class Wrong(NamedTuple):
    """Parameters that do not fit, and the one that is at fault."""

    method: str
    params: dict[str, Any]
    parameter: str


class Shape(NamedTuple):
    """An operation's parameters as JSON Schema, and the structs within them."""

    operation: Operation
    body: dict[str, Any]
    parts: dict[str, Any]

    @property
    def required(self) -> list[str]:
        return list(self.body.get("required", ()))

    def options(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """What a value may be, references followed."""
        return [self.parts[one["$ref"]] if "$ref" in one else one for one in schema.get("anyOf", [schema])]

    def kinds(self, schema: dict[str, Any]) -> set[str]:
        """The types that it lets through; all of them where it says nothing."""
        found: set[str] = set()
        for option in self.options(schema):
            if "enum" in option:
                found |= {
                    "null" if one is None else "integer" if isinstance(one, int) else "string"
                    for one in option["enum"]
                }
            elif "type" in option:
                found |= {option["type"]}
            else:
                return set(SCALARS)
        return found | ({"integer"} if "number" in found else set())

    def good(self, schema: dict[str, Any]) -> Any:
        """A value that fits."""
        option = self.options(schema)[0]
        if "enum" in option:
            return option["enum"][0]
        return {
            "string": "x" * max(1, option.get("minLength", 1)),
            "integer": option.get("minimum", 1),
            "number": option.get("minimum", 1),
            "boolean": True,
            "array": [self.good(option["items"])] * option.get("minItems", 0) if option.get("items") else [],
            "object": {name: self.good(option["properties"][name]) for name in option.get("required", ())},
            "null": None,
        }[option.get("type", "object")]

    def all_good(self) -> dict[str, Any]:
        return {name: self.good(self.body["properties"][name]) for name in self.required}


def shape_of(operation: Operation) -> Shape:
    (schema,), parts = msgspec.json.schema_components([operation.params], ref_template="{name}")
    return Shape(operation, parts[schema["$ref"]], parts)


def wrong_values(shape: Shape, schema: dict[str, Any]) -> list[Any]:
    """Values that do not fit: of another type, out of range, too long, none of the choice."""
    kinds = shape.kinds(schema)
    found = [value for kind, values in SCALARS.items() if kind not in kinds for value in values]
    if kinds == set(SCALARS):
        return found
    for option in shape.options(schema):
        found += [
            value
            for value in _outside(shape, option)
            if kinds <= {option.get("type", "string"), "null", "integer"}
        ]
    return found


def _outside(shape: Shape, option: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    if "enum" in option:
        return ["", "x" * 1000, "束ね"]
    for name, step in (("minimum", -1), ("maximum", 1)):
        if name in option:
            found += [option[name] + step, option[name] + step * 10**9]
    if "minLength" in option:
        found.append("x" * (option["minLength"] - 1))
    if option.get("maxLength", 1 << 30) < 1 << 20:
        found += ["x" * (option["maxLength"] + 1), "束" * (option["maxLength"] + 1)]
    if option.get("type") == "array":
        good = shape.good(option["items"]) if option.get("items") else None
        found += [[good] * (option["maxItems"] + 1)] if "maxItems" in option else []
        found += [[]] if option.get("minItems") else []
        found += [[value] for value in wrong_values(shape, option["items"])] if option.get("items") else []
    return found


def mistakes(shape: Shape) -> st.SearchStrategy[Wrong]:
    """One thing wrong with the parameters of an operation."""
    name, properties, good = shape.operation.name, shape.body.get("properties", {}), shape.all_good()
    given = [
        Wrong(name, {**good, parameter: value}, parameter)
        for parameter, schema in properties.items()
        for value in wrong_values(shape, schema)
    ]
    missing = [Wrong(name, {k: v for k, v in good.items() if k != lost}, lost) for lost in shape.required]
    # Capitals are how names were spelled once: see Operation.camel_case.
    letters = st.characters(min_codepoint=33, exclude_categories=["Cs", "Lu"])
    unknown = st.text(letters, min_size=1, max_size=20)
    strategies: list[st.SearchStrategy[Wrong]] = [
        unknown.filter(lambda one: one not in properties).map(lambda one: Wrong(name, {**good, one: 1}, one))
    ]
    if given or missing:
        strategies.append(st.sampled_from([*given, *missing]))
    return st.one_of(strategies)


TABLE = asyncio.run(whole_table())
METHODS = TABLE.with_face(Face.RPC)


class Served(NamedTuple):
    """A hub with everything that programs can ask for, in a thread of its own."""

    port: int
    token: str

    def connect(self) -> ClientConnection:
        headers = {"authorization": f"Bearer {self.token}"}
        return connect(f"ws://127.0.0.1:{self.port}/", additional_headers=headers, proxy=None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found: list[Served] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        folder = tmp_path_factory.mktemp("served")
        folder.chmod(0o700)
        async with running_hub(folder, {}, http=True, port=0) as here:
            door = HttpDoor(here.hub, table=OperationTable(list(table_of(here.hub, HubAdministration()))))
            door.open()
            found.append(Served(door.port, str(door.token)))
            ready.set()
            await asyncio.to_thread(ended.wait)
            await door.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(LONG)
    yield found[0]
    ended.set()
    thread.join()


def asked(client: ClientConnection, method: str, params: Any) -> Any:
    client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    return json.loads(client.recv(timeout=60))


@pytest.mark.parametrize("operation", METHODS, ids=lambda operation: operation.name)
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_parameter_that_does_not_fit_is_named(
    served: Served, operation: Operation, data: st.DataObject
) -> None:
    strategy = mistakes(shape_of(operation))
    wrongs = data.draw(st.lists(strategy, min_size=1, max_size=6))
    with served.connect() as client:
        for wrong in wrongs:
            answer = asked(client, wrong.method, wrong.params)
            if operation.refused is not None:  # the tools of documents answer with their JSON
                refused = answer["result"]
                assert (refused["status"], refused["error_type"]) == ("error", "ValidationError"), (
                    wrong,
                    refused,
                )
                continue
            error = answer["error"]
            assert error["code"] == -32602, (wrong, error)
            named = error["data"]["parameter"].rstrip("…")
            assert wrong.parameter.startswith(named.partition("[")[0].partition(".")[0]), (wrong, error)
            assert error["message"].startswith(named), error
        assert asked(client, "list_jobs", {})["result"] is not None


@pytest.mark.parametrize("operation", METHODS, ids=lambda operation: operation.name)
def test_parameters_by_position_are_refused(served: Served, operation: Operation) -> None:
    with served.connect() as client:
        answer = asked(client, operation.name, [1])
        if operation.refused is not None:
            assert answer["result"]["error_type"] == "ValidationError"
        else:
            assert answer["error"]["code"] == -32602


def test_docs_rpc_has_every_method_as_it_is() -> None:
    page = Path(__file__).parents[3] / "docs" / "rpc.md"
    assert page.read_text() == rpc_page(page.read_text(), TABLE), (
        "python -m tests.hub.rpc.methods_page docs/rpc.md"
    )
    with pytest.raises(ValueError, match="no line"):
        rpc_page("# JSON-RPC", TABLE)
