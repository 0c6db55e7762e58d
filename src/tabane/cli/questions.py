"""`tabane questions`: what servers ask their users, and the answers."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.completion import completed
from tabane.cli.options import hub_options, option
from tabane.cli.output import Group, Terminal, examples, text
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient


def question_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the id of a question for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        return [row["id"] for row in hub.call("list_questions")["results"]]

    return completed(ctx, ask, incomplete)


@click.group(
    "questions",
    cls=Group,
    invoke_without_command=True,
    help=say("List and answer what servers ask you during a call. Default command: list."),
)
@hub_options
@click.pass_context
def questions(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        list_.invoke(ctx)


@questions.command(
    "list",
    help=say("List the questions that nobody has answered yet."),
    epilog=examples("tabane questions list", "tabane questions list --json"),
)
@hub_options
@click.pass_obj
def list_(terminal: Terminal) -> None:
    found = terminal.hub(start=False).call("list_questions")
    terminal.show(found, lambda: _print(terminal, found["results"]))


@questions.command(
    "answer",
    help=say(
        "Answer a question in place of the assistant. FIELD=VALUE fills in a form: true, false and numbers "
        "are read as JSON, everything else as text."
    ),
    epilog=examples(
        "tabane questions answer 3fa9c1 name=Ada newsletter=false",
        "tabane questions answer 3fa9c1 --decline",
    ),
)
@click.argument("id", metavar="ID", shell_complete=question_ids)
@click.argument("values", metavar="[FIELD=VALUE]...", nargs=-1)
@option("--content", metavar="JSON", help=say("The whole content of the answer, as JSON."))
@option("--decline", "action", flag_value="decline", help=say("Refuse to answer."))
@option("--cancel", "action", flag_value="cancel", help=say("Dismiss the question without a choice."))
@hub_options
@click.pass_obj
def answer(
    terminal: Terminal, id: str, values: tuple[str, ...], content: str | None, action: str | None
) -> None:
    hub = terminal.hub(start=False)
    given: dict[str, Any] = {"id": id, "action": action or "accept"}
    if action is None:
        given["content"] = _parsed(content) if content is not None else _form(values, _schema(hub, id))
    done = hub.call("answer_question", given)
    said = say("The answer was given to {server!n}.", server=done["server"])
    terminal.show(done, lambda: terminal.say(said))


def _schema(hub: HubClient, id: str) -> dict[str, Any]:
    """Return the schema of a form; {} for another question, or none."""
    for row in hub.call("list_questions")["results"]:
        if row["id"] == id:
            return row.get("schema") or {}
    return {}


def _parsed(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise click.BadParameter(text(say("--content: not JSON ({reason})", reason=str(error)))) from None


def _form(values: tuple[str, ...], schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the values of a form. A field that is text by its schema is not read as JSON."""
    properties = schema.get("properties") or {}
    found: dict[str, Any] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(text(say("{value}: write FIELD=VALUE", value=each)))
        kind = (properties.get(name) or {}).get("type")
        item = value if kind == "string" else _value(value)
        if kind == "array" and not isinstance(item, list):
            found.setdefault(name, []).append(item)
        else:
            found[name] = item
    return found or None


def _value(given: str) -> Any:
    try:
        return json.loads(given)
    except ValueError:
        return given


def _print(terminal: Terminal, rows: list[dict[str, Any]]) -> None:
    if not rows:
        terminal.note(say("No server is waiting for an answer."))
    headers = [say("id"), say("tool"), say("kind"), say("asked"), say("question"), say("client")]
    found = (
        (row["id"], row["tool"], row["kind"], _when(row["asked"]), _question(row), row["client"])
        for row in rows
    )
    terminal.table(headers, found)


def _question(row: dict[str, Any]) -> str:
    """Return the question in one line: the message, and the fields of a form or the URL."""
    fields = (row.get("schema") or {}).get("properties") or {}
    more = ", ".join(fields) or row.get("url") or ""
    message = " ".join(str(row["message"]).split())
    return f"{message} ({more})" if more else message


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
