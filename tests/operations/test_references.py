"""Places of handlers and texts: every one that a hub declares exists, and takes the declared parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from tabane.hub.process.administration import whole_table
from tabane.operations import Lazy, NoParameters, Operation, OperationTable, Reference, bound
from tabane.operations.operation import BoundReference


def texts(operation: Operation) -> Iterator[Reference]:
    """Yield the functions on results of an operation that are named by their place."""
    for value in structs.astuple(operation):
        if isinstance(value, Reference):
            yield value


async def test_every_handler_is_at_its_place_and_takes_the_declared_parameters() -> None:
    count = 0
    for operation in await whole_table():
        handler: Any = operation.handler
        if isinstance(handler, BoundReference):
            count += 1
            place, _, path = handler.reference.place.partition(":")
            owner = Reference(f"{place}:{path.partition('.')[0]}")
            assert isinstance(handler.answering(), owner.found), operation.name
            handler = handler.found
        _, params, *progress = inspect.signature(handler).parameters.values()
        assert str(params.annotation).rpartition(".")[2] == operation.params.__name__, operation.name
        assert len(progress) == (operation.kind == "job"), operation.name
        assert all(callable(text.found) for text in texts(operation))
    assert count > 80


@pytest.mark.parametrize(
    "place", ["operations.nowhere:Door", "operations.door:Door.nothing", "operations.door"]
)
def test_a_place_that_does_not_exist_is_an_import_error_of_tabane(place: str) -> None:
    with pytest.raises(ImportError) as caught:
        Reference(place)("given")
    assert str(caught.value.name).startswith("tabane.operations")


def test_nothing_is_opened_before_the_first_call() -> None:
    opened = []

    @Lazy
    def door() -> list[int]:
        opened.append("door")
        return [3]

    (operation,) = bound([Operation("count", "", NoParameters, "builtins:list.count")], list=door)
    assert (opened, door.opened) == ([], None)
    handler: Any = operation.handler
    assert (handler(3), handler(4)) == (1, 0)
    assert (opened, door.opened) == (["door"], [3])


def test_a_failed_opening_is_tried_again() -> None:
    tries = []

    @Lazy
    def late() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return len(tries)

    with pytest.raises(ValueError, match="not yet"):
        late()
    assert (late(), late()) == (2, 2)


def test_an_operation_that_nothing_answers_is_refused() -> None:
    operation = Operation("count", "", NoParameters, "builtins:list.count")
    with pytest.raises(ValueError, match=r"nothing answers for builtins:list\.count"):
        bound([operation])
    with pytest.raises(ValueError, match="'count' is not bound"):
        OperationTable([operation])


def test_an_operation_that_names_no_privilege_is_for_administrators() -> None:
    operation = Operation("count", "", NoParameters, "builtins:list.count")
    assert (operation.target.source, operation.read_only) == ("admin", False)
