"""What the document store answers, for commands; and how a command ends where that is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tabane.cli.output import FAILED, WRONG_USAGE, Terminal
from tabane.errors import HubError, TabaneError
from tabane.messages import Message

_LONGEST = 200_000  # characters of a document in one answer
_PAGE = 1000

COMPLETION_LIMIT = 3.0
"""Seconds that somebody who pressed the tabulator waits for the hub."""

_COMPLETED = 100  # ids that the shell is told at most


def document_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes the id of a document for the shell; nothing where no hub runs."""
    terminal = ctx.ensure_object(Terminal)
    wanted: dict[str, Any] = {"limit": _COMPLETED} | ({"prefix": incomplete} if incomplete else {})
    try:
        answer = terminal.hub(start=False).call("list_documents", wanted, limit=COMPLETION_LIMIT)
    except TabaneError:
        return []
    finally:
        terminal.close()
    return [row["filepath"] for row in answer.get("documents", ())]


def asked(terminal: Terminal, operation: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer. Where it is a failure, the command ends: with the answer for a program, else a line."""
    answer = terminal.hub().call(operation, params)
    assert isinstance(answer, dict)
    if answer.get("status") != "error":
        return answer
    if terminal.json:
        terminal.print_json(answer)
    terminal.warn(HubError(Message(str(answer["message"]).replace("{", "{{").replace("}", "}}"))))
    raise click.exceptions.Exit(WRONG_USAGE if answer.get("error_type") == "ValidationError" else FAILED)


def whole(terminal: Terminal, filepath: str) -> dict[str, Any]:
    """A document with all of its text, read in parts."""
    answer = asked(terminal, "get_document", {"filepath": filepath, "length": _LONGEST})
    texts, cursor = [answer["document"]], answer["next_cursor"]
    while cursor is not None:
        more = asked(terminal, "get_document", {"filepath": filepath, "length": _LONGEST, "cursor": cursor})
        texts.append(more["document"])
        cursor = more["next_cursor"]
    return {**answer, "document": "".join(texts), "end": answer["length"], "next_cursor": None}


def listed(terminal: Terminal, params: dict[str, Any], limit: int | None) -> Iterator[dict[str, Any]]:
    """Documents in order of their names, page by page; all where there is no limit."""
    cursor: str | None = None
    count = 0
    while limit is None or count < limit:
        wanted = min(_PAGE, limit - count) if limit is not None else _PAGE
        answer = asked(terminal, "list_documents", {**params, "limit": wanted, "cursor": cursor})
        yield from answer["documents"]
        count += len(answer["documents"])
        cursor = answer["next_cursor"]
        if cursor is None:
            return
