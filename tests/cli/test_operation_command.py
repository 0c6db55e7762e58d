"""Commands that are one call of an operation: what they call, and what they print of its result."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tabane.cli.main import main
from tabane.cli.operation_command import (
    Column,
    OperationCommand,
    default_group,
    not_empty,
    operation_command,
    unchanged,
)
from tabane.cli.output import Terminal
from tabane.errors import HubError
from tabane.hub.process.administration import whole_table
from tabane.messages import say
from tabane.operations import OperationTable, input_schema


class AnsweredHub:
    """A hub that gives one answer to all calls, which it keeps."""

    def __init__(self, answer: Any, warning: str = "") -> None:
        self.answer, self.warning = answer, warning
        self.calls: list[tuple[str, Any]] = []

    def call(self, method: str, params: Any) -> Any:
        self.calls.append((method, params))
        return self.answer


class AnsweredTerminal(Terminal):
    """A terminal that is connected to such a hub."""

    def __init__(self, answered: AnsweredHub) -> None:
        super().__init__()
        self.answered, self.started = answered, True

    def hub(self, *, start: bool = True) -> Any:
        self.started = start
        return self.answered


def run(command: click.Command, hub: AnsweredHub, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(command, arguments, obj=AnsweredTerminal(hub))
    return done.exit_code, done.stdout, done.stderr


def rooms(**own: Any) -> click.Command:
    return operation_command(
        None, "rooms", "list_rooms", click.option("--floor", type=int), click.option("--tag", multiple=True),
        help=say("List rooms."), epilog="", **own,
    )  # fmt: skip


TABLE = (Column(say("name"), "name"), Column("size", lambda row: f"{row['size']} m²"))
ROWS = {"results": [{"name": "hall", "size": 40}], "total": 1}


def test_options_that_were_given_are_the_parameters_and_the_result_is_a_table() -> None:
    hub = AnsweredHub(ROWS)
    assert run(rooms(columns=TABLE), hub, "--floor", "2", "--tag", "a", "--tag", "b") == (
        0,
        "hall\t40 m²\n",
        "",
    )
    assert run(rooms(columns=TABLE), hub)[0] == 0
    assert hub.calls == [("list_rooms", {"floor": 2, "tag": ["a", "b"]}), ("list_rooms", {})]


def test_with_json_the_result_is_printed_as_it_is() -> None:
    status, out, err = run(rooms(columns=TABLE), AnsweredHub(ROWS), "--json")
    assert (status, json.loads(out), err) == (0, ROWS, "")
    assert json.loads(run(rooms(), AnsweredHub(ROWS))[1]) == ROWS


def test_an_empty_list_rows_that_are_left_out_problems_and_warnings_are_notes() -> None:
    own = {"columns": TABLE, "empty": say("No rooms."), "more": say("{count} more")}
    empty = AnsweredHub({"results": [], "total": 0, "problem": "The lift is broken."}, "Beware.")
    assert run(rooms(**own), empty) == (0, "", "Beware.\nNo rooms.\nThe lift is broken.\n")
    assert run(rooms(**own), AnsweredHub(ROWS | {"total": 5})) == (0, "hall\t40 m²\n", "4 more\n")


def test_a_seldom_column_is_there_if_a_row_has_it() -> None:
    columns = (Column("name", "name"), Column("hub", "hub", seldom=True))
    assert run(rooms(columns=columns), AnsweredHub(ROWS))[1] == "hall\n"
    two = {"results": [{"name": "hall", "hub": "east"}, {"name": "attic"}]}
    assert run(rooms(columns=columns), AnsweredHub(two))[1] == "hall\teast\nattic\t\n"


def test_a_sentence_gets_its_fields_from_the_parameters_and_the_result() -> None:
    said = say("{name} is on floor {floor}.")
    assert run(rooms(text=said), AnsweredHub({"name": "hall"}), "--floor", "1")[1] == "hall is on floor 1.\n"
    told = rooms(text=lambda _, found: say("{name!n} is closed.") if found["closed"] else None)
    assert run(told, AnsweredHub({"name": "hall", "closed": True}))[1] == "hall is closed.\n"
    assert run(told, AnsweredHub({"name": "hall", "closed": False}))[1] == ""


def test_a_result_that_failed_is_an_exit_status() -> None:
    command = rooms(text=say("Closed: {closed}"), failed=lambda found: bool(found["closed"]))
    assert run(command, AnsweredHub({"closed": 1})) == (1, "Closed: 1\n", "")
    assert run(command, AnsweredHub({"closed": 0}))[0] == 0


def test_no_hub_is_started_for_a_command_that_wants_a_running_one() -> None:
    terminal = AnsweredTerminal(AnsweredHub(ROWS))
    CliRunner().invoke(rooms(columns=TABLE, start=False), [], obj=terminal)
    assert not terminal.started


def _commands(command: click.Command) -> Iterator[OperationCommand]:
    if isinstance(command, OperationCommand):
        yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found)


@pytest.fixture(scope="module")
def table() -> OperationTable:
    return asyncio.run(whole_table())


def test_each_command_calls_an_operation_of_its_kind_with_parameters_that_it_has(
    table: OperationTable,
) -> None:
    found = list(_commands(main))
    assert len(found) > 40
    for command in found:
        operation = table.get(command.call.operation)
        assert operation is not None, command.call.operation
        assert (operation.kind == "job") == command.call.job, operation.name
        if command.call.params in (unchanged, not_empty):
            names = {each.name for each in command.params if each.expose_value}
            assert names <= input_schema(operation.params)["properties"].keys(), operation.name


class AbsentHub(AnsweredHub):
    """A hub that is not there."""

    def call(self, method: str, params: Any) -> Any:
        raise HubError(say("No hub is running."))


def test_a_group_without_a_command_runs_its_default_one_and_says_its_errors() -> None:
    group = default_group("rooms", help=say("Rooms."))
    operation_command(group, "list", "list_rooms", help=say("List rooms."), epilog="", columns=TABLE)
    assert run(group, AnsweredHub(ROWS)) == run(group, AnsweredHub(ROWS), "list") == (0, "hall\t40 m²\n", "")
    help_line = "Help: tabane manual troubleshooting#the-hub-does-not-start-or-answer\n"
    assert run(group, AbsentHub(ROWS)) == (1, "", f"Error: No hub is running.\n{help_line}")


def sent(*arguments: str) -> Any:
    """Return the parameters of the one call that a command makes."""
    hub = AnsweredHub({"results": [], "total": 0, "pages": [], "policy": "off", "allowed": {}})
    run(main, hub, *arguments)
    ((_, params),) = hub.calls
    return params


@pytest.mark.parametrize("arguments", [("tasks", "list", "--server", ""), ("manual", "")])
def test_an_empty_filter_counts_as_not_given(arguments: tuple[str, ...]) -> None:
    assert "" not in sent(*arguments).values()


def test_an_empty_path_is_the_working_folder() -> None:
    assert sent("policy", "trails", "--cwd", "") == {"cwd": os.getcwd()}
    assert sent("docs", "watch", "--remove", "")["path"] == os.getcwd()
