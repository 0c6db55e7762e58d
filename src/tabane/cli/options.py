"""Options of commands: those that many commands share, and those of an operation's parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from tabane.cli.output import Terminal, text
from tabane.messages import Message, say

if TYPE_CHECKING:
    from msgspec import Struct

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_Decorator = Callable[[Any], Any]

URL_HELP = say(
    "Use another hub: unix:/path/to/its/TABANE_HOME, ws://host:port or wss://host. Its API key is in "
    "TABANE_TOKEN, its certificate authority in the file TABANE_CA, and your client certificate in the "
    "file TABANE_CERT."
)


def option(*declarations: str, help: Message, **own: Any) -> _Decorator:
    """Return a click option with help in the user's language."""
    return click.option(*declarations, help=text(help), **own)


def parameter_option(
    params: type[Struct], name: str, *declarations: str, help: Message | None = None, **own: Any
) -> _Decorator:
    """Return the click option of an operation's parameter.

    Type, range, choices and default come from ``params``, the help too unless ``help`` is given.
    ``declarations`` are flags and a name as click takes them; the default is the flag ``--like-this``.
    ``own`` are other arguments of click.option, which override the derived ones.
    """
    schema = _properties(params)[name]
    flag = f"--{name.replace('_', '-')}"
    derived = _type_of(schema) | {"help": text(help) if help else schema.get("description")}
    if schema.get("default") not in (None, "", [], False):
        derived |= {"default": schema["default"], "show_default": schema.get("type") != "boolean"}
    return click.option(*(declarations or (flag,)), **(derived | own))


@lru_cache
def _properties(params: type[Struct]) -> Mapping[str, dict[str, Any]]:
    """Return the JSON Schema of each parameter, its choices in the order of their declaration."""
    from tabane.operations.operation import input_schema

    properties: dict[str, dict[str, Any]] = input_schema(params)["properties"]
    for name, hint in get_type_hints(params).items():
        if "enum" in properties.get(name, {}):
            properties[name]["enum"] = _choices(hint)
    return properties


def _choices(hint: Any) -> list[str]:
    """Return the values of the Literal in a type hint, such as ``Literal["a", "b"] | None``."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [choice for part in get_args(hint) for choice in _choices(part)]


def _type_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of click.option for values of a JSON Schema."""
    if "enum" in schema:
        return {"type": click.Choice(schema["enum"])}
    if schema.get("type") == "array":
        return _type_of(schema["items"]) | {"multiple": True}
    if schema.get("type") == "boolean":
        return {"is_flag": True}
    if schema.get("type") == "integer":
        return {"type": click.IntRange(schema.get("minimum"), schema.get("maximum"))}
    return {}


def combined(options: Iterable[_Decorator]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds options to a command, in the order of its help."""

    def add(function: Decorated) -> Decorated:
        for option in reversed(list(options)):
            function = option(function)
        return function

    return add


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that were given: without None and empty sequences, and tuples as lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in params.items()
        if value not in (None, (), [])
    }


def absolute_path(path: str) -> str:
    """Return the path as the hub needs it: the hub has another working directory."""
    return os.path.abspath(os.path.expanduser(path))


def json_option(function: Decorated) -> Decorated:
    """Add ``--json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        callback=keep("json"),
        help=text(say("Print the result as JSON.")),
    )(function)


def mode_option(**own: Any) -> _Decorator:
    """Return ``--mode``: how tools are shown to an assistant."""
    help = text(say("How tools are shown to this client."))
    return click.option("--mode", type=click.Choice(["search", "light", "full", "code"]), help=help, **own)


def detach_option(function: Decorated) -> Decorated:
    """Add ``--detach`` to commands that follow a job."""
    return click.option(
        "--detach",
        is_flag=True,
        expose_value=False,
        callback=keep("detach"),
        help=text(say("Do not wait. The job continues in the hub, and tabane jobs shows it.")),
    )(function)


def hub_options(function: Decorated) -> Decorated:
    """Add ``--json`` and ``--url`` (``--websocket``, TABANE_URL), which every command of a client has."""
    url = click.option(
        "--url",
        "--websocket",
        envvar="TABANE_URL",
        metavar="URL",
        expose_value=False,
        callback=keep("url"),
        help=text(URL_HELP),
    )
    return json_option(url(function))


def keep(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the callback of an option whose value the Terminal keeps under that name."""

    def kept(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value:
            setattr(ctx.ensure_object(Terminal), name, value)
        return value

    return kept
