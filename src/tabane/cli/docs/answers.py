"""What the document store answers, for commands; and how a command ends where that is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tabane.cli.output import FAILED, WRONG_USAGE, Terminal
from tabane.errors import HubError
from tabane.messages import Message

_LONGEST = 200_000  # characters of a document in one answer
_PAGE = 1000


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
