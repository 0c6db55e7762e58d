"""Options of commands agree with the parameters of the operations that they call."""

from __future__ import annotations

import ast
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner
from msgspec import Meta, Struct

from tabane.catalog.operations.table import SearchTools, ServerLogs
from tabane.cli.main import main
from tabane.cli.options import given, parameter_option
from tabane.hub.sources.search_everything import SearchEverything
from tabane.messages import say
from tabane.operations import input_schema
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


class Wanted(Struct, frozen=True):
    count: Annotated[int, Meta(ge=1, le=9, extra_json_schema={"default": 4})] | None = None
    order: Literal["near", "far", "all"] | None = None
    name_of: Annotated[str, Meta(description="What it is called.")] | None = None
    links: Annotated[bool, Meta(extra_json_schema={"default": True})] | None = None
    again: bool = False
    tags: list[Annotated[str, Meta(max_length=5)]] = []


@click.command()
@parameter_option(Wanted, "count", "-c", "--count", help=say("How many."))
@parameter_option(Wanted, "order", default="far")
@parameter_option(Wanted, "name_of", metavar="NAME")
@parameter_option(Wanted, "links", "--links/--no-links")
@parameter_option(Wanted, "again")
@parameter_option(Wanted, "tags", "--tag", "tags")
def shown(**options: Any) -> None:
    click.echo(repr(given(options)))


@pytest.mark.parametrize(
    ("arguments", "values"), CASES["an_option_has_the_type_and_default_of_its_parameter"]
)
def test_an_option_has_the_type_and_default_of_its_parameter(
    arguments: list[str], values: dict[str, Any]
) -> None:
    assert ast.literal_eval(CliRunner().invoke(shown, arguments).output) == values


@pytest.mark.parametrize("arguments", [["-c", "10"], ["-c", "x"], ["--order", "middle"]])
def test_a_value_that_the_parameter_does_not_allow_is_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(shown, arguments).exit_code == 2


def test_the_help_has_range_and_choices_in_their_order_and_the_description() -> None:
    page = CliRunner().invoke(shown, ["--help"]).output
    assert "How many.  [default: 4; 1<=x<=9]" in page
    assert "--order [near|far|all]" in page
    assert "What it is called." in page


@pytest.mark.parametrize(
    ("path", "option", "params", "name"),
    [
        ("tools search", "limit", SearchTools, "limit"),
        ("tools search", "match", SearchTools, "match"),
        ("servers logs", "lines", ServerLogs, "lines"),
        ("logs", "lines", ServerLogs, "lines"),
        ("search", "top_k", SearchEverything, "top_k"),
    ],
)
def test_an_option_that_is_declared_by_hand_agrees_with_its_parameter(
    path: str, option: str, params: type[Struct], name: str
) -> None:
    command: click.Command | None = main
    for word in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    (found,) = (each for each in command.params if each.name == option)
    schema = input_schema(params)["properties"][name]
    assert found.default == schema["default"]
    if isinstance(found.type, click.IntRange):
        assert (found.type.min, found.type.max) == (schema["minimum"], schema["maximum"])
    else:
        assert isinstance(found.type, click.Choice)
        assert set(found.type.choices) == set(schema["enum"])
