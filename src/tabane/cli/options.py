"""Options of commands, their values, and the completion of names that the hub knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from tabane.cli.output import Terminal, text
from tabane.errors import ConfigurationError, TabaneError
from tabane.messages import Message, say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from msgspec import Struct

    from tabane.hub.local.client import HubClient
    from tabane.settings import Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]

URL_HELP = say(
    "Use another hub: unix:/path/to/its/TABANE_HOME, ws://host:port or wss://host. Its API key is in "
    "TABANE_TOKEN, its certificate authority in the file TABANE_CA, and your client certificate in the "
    "file TABANE_CERT."
)


def option(*declarations: str, help: Message, **own: Any) -> Decorator:
    """Return a click option with help in the user's language."""
    return click.option(*declarations, help=text(help), **own)


def parameter_option(
    params: type[Struct], name: str, *declarations: str, help: Message | None = None, **own: Any
) -> Decorator:
    """Return the click option of an operation's parameter.

    Type, range, choices and default come from ``params``, the help too unless ``help`` is given. The name of
    its value in the help, and its completion, are those of all parameters of that name.
    ``declarations`` are flags and a name as click takes them; the default is the flag ``--like-this``.
    ``own`` are other arguments of click.option, which override the derived ones.
    """
    schema = _properties(params)[name]
    flag = f"--{name.replace('_', '-')}"
    derived = _type_of(schema) | {"help": text(help) if help else schema.get("description")}
    derived |= _OF_NAMES.get(name, {})
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


def words(name: str, metavar: str, **own: Any) -> Decorator:
    """Return the argument for several words that are one text."""
    return click.argument(
        name, nargs=-1, required=True, metavar=metavar, callback=lambda *given: " ".join(given[-1]), **own
    )


def combined(options: Iterable[Decorator]) -> Callable[[Decorated], Decorated]:
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


def absolute(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the paths of an argument or option as the hub needs them: click's callback for those."""
    if isinstance(value, tuple):
        return tuple(map(absolute_path, value))
    return None if value is None else absolute_path(value)


def keep(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the callback of an option whose value the Terminal keeps under that name."""

    def kept(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value:
            setattr(ctx.ensure_object(Terminal), name, value)
        return value

    return kept


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


config_option = option(
    "--config", metavar="FILE", type=click.Path(), expose_value=False, callback=keep("config"),
    help=say("The settings file."),
)  # fmt: skip
"""Adds ``--config FILE``, which the Terminal keeps."""

file_option = combined(
    (
        option(
            "--servers", "file", metavar="FILE", type=click.Path(),
            help=say("The servers file. Default: the running hub's file, or your own."),
        ),
        config_option,
    )
)  # fmt: skip
"""Adds ``--servers FILE`` as the parameter ``file``, and ``--config FILE``, which the Terminal keeps."""


agreed_option = option("--yes", "-y", "agreed", is_flag=True, help=say("Do not ask for confirmation."))
"""Adds ``--yes`` as the parameter ``agreed``."""

dry_run_option = option(
    "--dry-run", is_flag=True, help=say("Show what would be done, without changing anything.")
)
"""Adds ``--dry-run``."""


def mode_option(**own: Any) -> Decorator:
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


def with_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the Terminal to the function of a command, which has ``--json``."""
    return json_option(click.pass_obj(function))


def with_hub(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the Terminal to the function of a command, which has ``--json`` and ``--url``."""
    return hub_options(click.pass_obj(function))


COMPLETION_LIMIT = 3.0
"""Longest wait for the hub after a user pressed Tab, in seconds."""

MOST_NAMES = 1_000
"""Names that are offered at most."""

VARIABLE = "_TABANE_COMPLETE"
"""The environment variable by which the script asks for completions."""


def completed(ctx: click.Context, ask: Callable[[HubClient], Iterable[str]], incomplete: str) -> list[str]:
    """Return the names from the hub that begin with ``incomplete``, or nothing if no hub runs."""
    terminal = ctx.ensure_object(Terminal)
    try:
        return [name for name in ask(terminal.hub(start=False)) if name.startswith(incomplete)]
    except TabaneError:
        return []
    finally:
        terminal.close()


def names_of(
    operation: str, key: str, **params: Any
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes names for the shell, if a hub runs: those of an operation's rows."""

    def ask(hub: HubClient) -> list[str]:
        return [row[key] for row in hub.call(operation, params, limit=COMPLETION_LIMIT)["results"]]

    return lambda ctx, parameter, incomplete: completed(ctx, ask, incomplete)


def client_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an assistant that Tabane knows for the shell."""
    from click.shell_completion import CompletionItem

    from tabane.servers.assistants.table import CLIENTS

    return [CompletionItem(c.name, help=c.title) for c in CLIENTS if c.name.startswith(incomplete)]


key_names = names_of("keys_list", "name", limit=MOST_NAMES)


def profile_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a profile of the settings file for the shell."""
    from tabane.access.profiles import read_profiles

    try:
        names = read_profiles(_settings(config=ctx.params.get("config")).config)
    except TabaneError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def tier_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a tier of rate limits for the shell."""
    try:
        tiers = _settings(config=ctx.params.get("config")).limits.tiers
    except TabaneError:
        return []
    return [name for name in tiers if name.startswith(incomplete)]


def server_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a server for the shell."""
    return [name for name in configured_servers(ctx.params.get("file")) if name.startswith(incomplete)]


def configured_servers(file: str | None = None) -> list[str]:
    """Return the names of the servers in the servers file; none if it cannot be read."""
    from tabane.servers.configuration import written_definitions

    try:
        return list(written_definitions(_settings(servers=file).servers))
    except ConfigurationError:
        return []


def _settings(**flags: str | None) -> Settings:
    """Return the settings, for the shell and for advice. Raises ConfigurationError."""
    from tabane.settings import load_settings  # the help reads no settings

    return load_settings(flags, os.environ)


_OF_NAMES: Mapping[str, Mapping[str, Any]] = {
    **{name: {"metavar": "PATTERN"} for name in ("allow", "deny")},
    **{name: {"metavar": "TIME"} for name in ("start", "end")},
    **{name: {"metavar": "NAME"} for name in ("tool", "client", "category", "collection", "encoding")},
    "cursor": {"metavar": "CURSOR"},
    "expires": {"metavar": "WHEN"},
    "file_type": {"metavar": "TYPE"},
    "id_prefix": {"metavar": "PREFIX", "default": ""},
    "ignore": {"metavar": "GLOB"},
    "key": {"metavar": "NAME", "shell_complete": key_names},
    "limit": {"metavar": "COUNT"},
    "profile": {"metavar": "PROFILE", "shell_complete": profile_names},
    "server": {"metavar": "NAME", "shell_complete": server_names},
    "tags": {"metavar": "TAG"},
    "tier": {"metavar": "TIER", "shell_complete": tier_names},
}
"""Attributes of options, by the names of their parameters."""
