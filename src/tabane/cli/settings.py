"""`tabane settings`: the settings of the running hub, listed and changed."""

from __future__ import annotations

from typing import Any

import click

from tabane.cli.operation_command import default_group, operation_command
from tabane.cli.options import option, with_hub
from tabane.cli.output import Terminal, examples
from tabane.messages import Message, say
from tabane.settings import OPTIONS
from tabane.settings.option import shown


def setting_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a setting for the shell."""
    return [each.name for each in OPTIONS if each.in_file and each.name.startswith(incomplete)]


def _setting_values(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the value of a setting for the shell: its choices, true and false, or its default."""
    found = next((each for each in OPTIONS if each.name == ctx.params.get("name")), None)
    if found is None:
        return []
    values = ("true", "false") if found.kind == "switch" else found.choices or (shown(found, found.default),)
    return [value for value in values if value.startswith(incomplete)]


settings = default_group(
    "settings", help=say("List the settings, and change them in tabane.toml. Default command: list.")
)


_name = click.argument("name", metavar="NAME", shell_complete=setting_names)


@settings.command(
    "list",
    help=say("List each setting with its value and its source."),
    epilog=examples("tabane settings list", "tabane settings list --changed", "tabane settings list --json"),
)
@option("--changed", is_flag=True, help=say("Only those that are not the default."))
@with_hub
def list_(terminal: Terminal, changed: bool) -> None:
    found = terminal.hub().call("list_settings")
    if changed:
        found["results"] = [row for row in found["results"] if row["source"] != "default"]
    if terminal.show_json(found):
        return
    terminal.table(
        [say("setting"), say("value"), say("source"), say("next start")],
        [
            (row["name"],
             " ".join(filter(None, (row["value"], row["unit"] if row["kind"] != "bytes" else None))),
             " ".join(filter(None, (row["source"], row["where"]))),
             row.get("pending"))
            for row in found["results"]
        ],
    )  # fmt: skip
    if found["problem"]:
        terminal.note(found["problem"])


def _name_and_value(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of ``NAME VALUE`` or ``NAME=VALUE``. Raises UsageError if there is no value."""
    if "value" in options:
        return options
    name, equals, value = options.pop("name").partition("=")
    if not equals:
        ctx = click.get_current_context()
        value_argument = next(each for each in ctx.command.params if each.name == "value")
        raise click.MissingParameter(ctx=ctx, param=value_argument)
    return {"name": name.strip(), "value": value.strip()}


def _print_change(terminal: Terminal, done: dict[str, Any]) -> Message | None:
    name, value = done["setting"]["name"], done["setting"].get("pending", done["setting"]["value"])
    if done["applies"] == "unchanged":
        return say("{name} is {value} already.", name=name, value=value)
    if done["problem"]:
        terminal.note(say("The change was written, but is not in use: {problem}", problem=done["problem"]))
        return None
    if done["applies"] == "restart":
        return say(
            "{name} is {value} from the next start of the hub on: tabane restart", name=name, value=value
        )
    return say("{name} is {value} now.", name=name, value=value)


operation_command(
    settings, "set", "change_setting", _name,
    click.argument("value", metavar="VALUE", required=False, shell_complete=_setting_values),
    help=say("Set a setting in tabane.toml. Comments and everything else in the file stay."),
    epilog=examples(
        "tabane settings set list_wait 5",
        "tabane settings set lang=ja",
        "tabane settings set log_size '64 MiB'",
    ),
    params=_name_and_value,
    text=_print_change,
)  # fmt: skip

operation_command(
    settings, "unset", "change_setting", _name,
    help=say("Remove a setting from tabane.toml, so that its default applies."),
    epilog=examples("tabane settings unset list_wait"),
    params=lambda options: options | {"value": None},
    text=_print_change,
)  # fmt: skip
