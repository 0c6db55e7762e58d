"""`tabane approve` and `questions`: calls and questions of servers that wait for a person.

A command whose call has to be approved asks the person at the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from tabane.cli.arguments import read_object, read_pairs
from tabane.cli.operation_command import Column, default_group, operation_command, print_rows
from tabane.cli.options import names_of, option, with_hub
from tabane.cli.output import Command, Terminal, emit, examples, lang, local_second, text
from tabane.cli.terminal_text import wrapped
from tabane.errors import CallerError, TabaneError, UnknownName
from tabane.hub.local.client import read_result
from tabane.messages import say
from tabane.wire.json import decode, encode

if TYPE_CHECKING:
    from tabane.guard.approvals.letter import Letter
    from tabane.hub.local.client import HubClient

LONGEST_CELL = 200
"""Characters of arguments in the list. `tabane approve ID --show` has all that a hub keeps."""


@click.command(
    "approve",
    cls=Command,
    help=say(
        "List the calls that wait until a person approves them, or decide about one. A call that was "
        "approved is made once, with exactly these arguments. Why calls wait: tabane manual asking"
    ),
    epilog=examples(
        "tabane approve",
        "tabane approve 3fa9c1d2e4 --show",
        "tabane approve 3fa9c1d2e4",
        "tabane approve 3fa9c1d2e4 --refuse",
    ),
)
@click.argument("id", metavar="[ID]", required=False, shell_complete=names_of("list_approvals", "id"))
@option("--show", is_flag=True, help=say("Show the whole call, and decide nothing."))
@option("--refuse", is_flag=True, help=say("Refuse the call. The same call is refused for ten minutes."))
@option("--remember", is_flag=True, help=say("Allow the same for later calls too, where that is offered."))
@with_hub
def approve(terminal: Terminal, id: str | None, show: bool, refuse: bool, remember: bool) -> None:
    if id is None:
        if show or refuse or remember:
            raise click.UsageError(text(say("Name the approval: tabane approve lists all.")))
        found = terminal.hub(start=False).call("list_approvals")
        if not terminal.show_json(found):
            rows = read_result(found, _Waiting).results
            if not rows:
                terminal.note(say("No call waits for an approval."))
            print_rows(terminal, _COLUMNS, rows)
        return
    if show + refuse + remember > 1:
        raise click.UsageError(text(say("--show, --refuse and --remember exclude each other.")))
    hub = terminal.hub(start=False)
    if show:
        found = hub.call("list_approvals", {"id": id})
        if not (rows := read_result(found, _Waiting).results):
            raise UnknownName(say("No call waits for approval {id}. List all with: tabane approve", id=id))
        if not terminal.show_json(found):
            for line in _letter_lines(rows[0]):
                terminal.say(line)
        return
    if refuse:
        done = hub.call("refuse_call", {"id": id})
        said = say("The call of {tool} is refused.", tool=read_result(done, WaitingCall).tool)
    else:
        done = hub.call("approve_call", {"id": id, "remember": remember})
        said = say("The call of {tool} is approved, once.", tool=read_result(done, WaitingCall).tool)
    terminal.show(done, said)


class WaitingCall(Struct):
    """A call that a person has to approve, as list_approvals and next_approval have it.

    Hubs of earlier versions send no letter.
    """

    id: str
    tool: str
    state: str
    asked: float
    reasons: tuple[str, ...]
    arguments: str
    pairs: tuple[str, ...] = ()
    holder: str = ""
    label: str = ""
    client: str = ""
    letter: dict[str, Any] | None = None
    may_approve: bool = False

    def read_letter(self) -> Letter | None:
        """Return its letter; None if the hub sends none."""
        from tabane.guard.approvals.letter import Letter  # the help needs none

        return None if self.letter is None else read_result(self.letter, Letter)

    @property
    def reason(self) -> str:
        """The first reason. `tabane approve ID --show` has all."""
        letter = self.read_letter()
        return next(iter((*letter.against, *letter.reasons) if letter else self.reasons), "")

    @property
    def given(self) -> str:
        """The arguments on one line, recipients first."""
        import json  # the help prints none

        letter = self.read_letter()
        if letter is None:
            shown, is_whole = " ".join(self.arguments.split()), True
        else:
            named = (f"{each.name}={json.dumps(each.value, ensure_ascii=False)}" for each in letter.fields)
            shown, is_whole = " ".join(named), letter.whole
        return shown if is_whole and len(shown) <= LONGEST_CELL else f"{shown[:LONGEST_CELL]}…"


class _Waiting(Struct):
    results: tuple[WaitingCall, ...]


_COLUMNS = (
    Column(say("id"), lambda row: row.id),
    Column(say("tool"), lambda row: row.tool),
    Column(say("state"), lambda row: row.state),
    Column(say("asked"), lambda row: local_second(row.asked)),
    Column(say("reason"), lambda row: row.reason),
    Column(say("arguments"), lambda row: row.given),
    Column(say("client"), lambda row: row.client or row.label or row.holder),
)


LONGEST_VALUE = 1_200
"""Characters of a value before a question: what comes first should still be on the screen."""


def approved_call(terminal: Terminal, method: str, params: Mapping[str, Any]) -> bytes:
    """Call an operation, and return its result as JSON. Raises as HubClient.call.

    If a person has to approve the call, or a call of a script, whoever sits at the terminal is asked. Without
    a terminal, a note says what the call waits for. An answer elsewhere counts too, whichever comes first.
    """
    hub = terminal.hub()
    asks = encode({"asks": terminal.asks})
    watch = hub.begin("next_approval", asks)
    call = hub.begin(method, encode(params))
    while hub.first_of((call, watch)) == watch:
        try:
            row = read_result(decode(hub.result_of(watch)), WaitingCall)
        except TabaneError:  # a hub of an earlier version does not say what waits
            break
        # before anybody answers: then a script goes on to its next call
        watch = hub.begin("next_approval", asks)
        if terminal.asks and row.may_approve:
            _ask(terminal, hub, call, row)
        else:
            _show(terminal, row)
            terminal.note(
                say(
                    "The call waits. Approve it on the web page (tabane open /approvals) or with: tabane "
                    "approve {id}. Ctrl+C cancels it.",
                    id=row.id,
                )
            )
    return hub.result_of(call)


def _ask(terminal: Terminal, hub: HubClient, call: bytes, row: WaitingCall) -> None:
    """Ask the person at the terminal, unless somebody decides elsewhere before."""
    _show(terminal, row)
    if row.pairs:
        terminal.note(say("y approves it, n refuses it, and a also allows the same from now on."))
    emit(text(say("Approve this call?")), " [y/N/a]: " if row.pairs else " [y/N]: ", err=True, nl=False)
    try:
        first = hub.first_of((call,), sys.stdin.fileno())
    except TabaneError:  # the hub has ended: what it says begins on a line of its own
        emit(err=True)
        raise
    if first == call:
        emit(err=True)
        terminal.note(say("The call was decided elsewhere."))
        return
    typed = sys.stdin.readline()
    if not typed:
        raise click.Abort
    answer = typed.strip().lower()
    remember = bool(row.pairs) and answer in ("a", "always")
    try:
        if remember or answer in ("y", "yes"):
            hub.call("approve_call", {"id": row.id, "remember": remember})
        else:
            hub.call("refuse_call", {"id": row.id})
    except CallerError:
        return  # it was decided elsewhere meanwhile: the call's own answer says what became of it


def _show(terminal: Terminal, row: WaitingCall) -> None:
    terminal.note(say("A person has to approve this call of {tool} first.", tool=row.tool))
    terminal.note("")
    for line in _letter_lines(row, LONGEST_VALUE):
        terminal.note(line)
    terminal.note("")


def _letter_lines(row: WaitingCall, longest: int = 1 << 30) -> Iterator[str]:
    """Yield the lines of the letter of an approval, none of them wider than the terminal."""
    import shutil

    from tabane.guard.approvals.letter import letter_text  # the help needs none

    letter = row.read_letter()
    if letter is None:
        yield from (*row.reasons, row.given)
        return
    columns = shutil.get_terminal_size().columns
    for line in letter_text(letter, lang(), columns, longest).split("\n"):
        indent = "  " if line.startswith(("- ", "! ")) else ""
        first, *more = wrapped(line, columns - len(indent))
        yield from (first, *(indent + each for each in more))


def _question(row: dict[str, Any]) -> str:
    """Return the question in one line: the message, and the fields of a form or the URL."""
    fields = (row.get("schema") or {}).get("properties") or {}
    more = ", ".join(fields) or row.get("url") or ""
    message = " ".join(str(row["message"]).split())
    return f"{message} ({more})" if more else message


questions = default_group(
    "questions", help=say("List and answer what servers ask you during a call. Default command: list.")
)

operation_command(
    questions, "list", "list_questions",
    help=say("List the questions that nobody has answered yet."),
    epilog=examples("tabane questions list", "tabane questions list --json"),
    start=False,
    columns=(
        Column(say("id"), "id"),
        Column(say("tool"), "tool"),
        Column(say("kind"), "kind"),
        Column(say("asked"), lambda row: local_second(row["asked"])),
        Column(say("question"), _question),
        Column(say("client"), "client"),
    ),
    empty=say("No server is waiting for an answer."),
)  # fmt: skip


@questions.command(
    "answer",
    help=say(
        "Answer a question in place of the assistant. FIELD=VALUE fills in a form: true, false and numbers "
        "are read as JSON, everything else as text."
    ),
    epilog=examples(
        "tabane questions answer 3fa9c1 name=Ada newsletter=false", "tabane questions answer 3fa9c1 --decline"
    ),
)
@click.argument("id", metavar="ID", shell_complete=names_of("list_questions", "id"))
@click.argument("values", metavar="[FIELD=VALUE]...", nargs=-1)
@option("--content", metavar="JSON", help=say("The whole content of the answer, as JSON."))
@option("--decline", "action", flag_value="decline", help=say("Refuse to answer."))
@option("--cancel", "action", flag_value="cancel", help=say("Dismiss the question without a choice."))
@with_hub
def answer(
    terminal: Terminal, id: str, values: tuple[str, ...], content: str | None, action: str | None
) -> None:
    hub = terminal.hub(start=False)
    given: dict[str, Any] = {"id": id, "action": action or "accept"}
    if action is None and content is not None:
        given["content"] = read_object(content, "--content")
    elif action is None:
        if wrong := next((each for each in values if "=" not in each), None):
            raise click.UsageError(text(say("{value}: write FIELD=VALUE", value=wrong)))
        rows = hub.call("list_questions")["results"]
        # a question of another kind has no schema
        schema = next((row.get("schema") for row in rows if row["id"] == id), None)
        given["content"] = read_pairs(values, schema or {}) or None
    done = hub.call("answer_question", given)
    said = say("The answer was given to {server!n}.", server=done["server"])
    terminal.show(done, said)
