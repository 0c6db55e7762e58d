"""`tabane docs`: the commands that put, search and read documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.arguments import read_object, read_pairs
from tabane.cli.completion import COMPLETION_LIMIT, completed
from tabane.cli.docs.files import add, import_chroma, watch
from tabane.cli.options import absolute_path, given, hub_options, option, parameter_option
from tabane.cli.output import FAILED, WRONG_USAGE, Group, Terminal, emit, examples
from tabane.cli.terminal_text import StyledText
from tabane.documents import document_names
from tabane.documents.parameters import LONGEST_PART, ListDocuments, PutDocument, SearchDocuments
from tabane.errors import BadArguments, HubError
from tabane.messages import Message, say
from tabane.text.encodings import decode_strictly, is_encoding

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

_PAGE = 1000
_COMPLETED = 100  # ids that are offered to the shell at most


def document_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the id of a document for the shell, if a hub runs."""

    def ask(hub: HubClient) -> list[str]:
        wanted = {"limit": _COMPLETED} | ({"prefix": incomplete} if incomplete else {})
        found = hub.call("list_documents", wanted, limit=COMPLETION_LIMIT)
        return [row["filepath"] for row in found.get("documents", ())]

    return completed(ctx, ask, incomplete)


@click.group("docs", cls=Group, help=say("Save documents, and search them by keywords and by meaning."))
def docs() -> None: ...


@docs.command(
    help=say(
        "Save a text under its id, replacing the text that has this id. FILE is a text "
        "file; - is standard input. For PDF, HTML, DOCX and folders use: tabane docs add"
    ),
    epilog=examples(
        "tabane docs put notes.md",
        "tabane docs put notes.md --id notes/today.md --metadata author=alice --metadata year=2026",
        "git log -20 | tabane docs put - --id project/log --file-type log",
    ),
)
@click.argument("file", metavar="FILE|-", type=click.Path())
@option("--id", "filepath", metavar="ID", help=say("Id of the document. Default: the path of the file."))
@parameter_option(PutDocument, "file_type", metavar="TYPE", help=say("Type of the document, for filters."))
@option(
    "--metadata",
    metavar="KEY=VALUE",
    multiple=True,
    help=say("Your own metadata, for filters; repeat a key to make a list."),
)
@option("--encoding", metavar="NAME", help=say("Encoding of the text if it is not Unicode."))
@hub_options
@click.pass_obj
def put(
    terminal: Terminal,
    file: str,
    filepath: str | None,
    file_type: str | None,
    metadata: Sequence[str],
    encoding: str | None,
) -> None:
    if file == "-" and filepath is None:
        raise BadArguments(say("Set the id of the document with --id ID."), "--id")
    wanted: dict[str, Any] = {"text": _text(file, encoding), "filepath": filepath or absolute_path(file)}
    wanted |= given({"file_type": file_type or None, "metadata": read_pairs(metadata, {}) or None})
    answer = asked(terminal, "put_document", wanted)
    terminal.show(answer, lambda: _tell_of_put(terminal, answer["details"]))


docs.add_command(add)


@docs.command(
    help=say("Find documents, and show the passages that match."),
    epilog=examples(
        "tabane docs search 'how do we release'",
        "tabane docs search 'release -draft' --file-type spec --mode lexical",
        'tabane docs search budget --filters \'{"year": {"gte": 2025}}\' --top-k 10',
    ),
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@parameter_option(
    SearchDocuments, "top_k", "--top-k", "--limit", "top_k", help=say("Maximum number of results.")
)
@parameter_option(SearchDocuments, "file_type", metavar="TYPE", help=say("Only documents of this type."))
@option(
    "--filters",
    metavar="JSON",
    help=say("Only documents whose metadata match: eq, ne, gt, gte, lt, lte, in, nin, $and, $or, $not."),
)
@parameter_option(
    SearchDocuments,
    "mode",
    default="hybrid",
    show_default=True,
    help=say("Search by keywords and meaning (hybrid), by meaning, or by keywords."),
)
@hub_options
@click.pass_obj
def search(
    terminal: Terminal, /, query: Sequence[str], filters: str | None, file_type: str | None, **options: Any
) -> None:
    wanted = given({"query": " ".join(query), "file_type": file_type or None, **options})
    wanted |= {"filters": read_object(filters, "--filters")} if filters else {}
    with terminal.working(say("Searching")):
        answer = asked(terminal, "search_documents", {**wanted, "include_documents": False})
    if answer.get("warning"):
        terminal.note(answer["warning"])
    terminal.show(answer, lambda: _print_found(terminal, answer["results"]))


@docs.command(
    help=say("Print the text of a document."),
    epilog=examples("tabane docs get notes/today.md", "tabane docs get notes/today.md --json"),
)
@click.argument("filepath", metavar="ID", shell_complete=document_ids)
@hub_options
@click.pass_obj
def get(terminal: Terminal, filepath: str) -> None:
    answer = whole(terminal, filepath)
    terminal.show(answer, lambda: _print_text(answer["document"]))


@docs.command(
    "list",
    help=say("List all documents, or those whose ids start with PREFIX."),
    epilog=examples("tabane docs list", "tabane docs list notes/ --file-type markdown --all"),
)
@click.argument("prefix", required=False, default="", shell_complete=document_ids)
@parameter_option(ListDocuments, "file_type", metavar="TYPE", help=say("Only documents of this type."))
@option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help=say("Maximum number of results.")
)
@option("--all", "everything", is_flag=True, help=say("All of them."))
@hub_options
@click.pass_obj
def list_(terminal: Terminal, prefix: str, file_type: str | None, limit: int, everything: bool) -> None:
    wanted = given({"prefix": prefix or None, "file_type": file_type or None})
    rows = list(listed(terminal, wanted, None if everything else limit))
    if not rows and not terminal.json:
        terminal.note(say("There are no such documents. Add some with: tabane docs add PATH"))
    headers = [say("id"), say("type"), say("characters"), say("put"), say("title")]
    shown = (
        [row["filepath"], row["file_type"], row["length"], row["updated_at"], row["title"]] for row in rows
    )
    terminal.show({"documents": rows, "count": len(rows)}, lambda: terminal.table(headers, shown))


@docs.command(
    help=say("Delete documents. The files that they were made from are kept."),
    epilog=examples("tabane docs delete notes/today.md", "tabane docs delete --prefix notes/ --yes"),
)
@click.argument("filepaths", nargs=-1, metavar="[ID]…", shell_complete=document_ids)
@option("--prefix", metavar="PREFIX", help=say("All documents whose ids start with PREFIX."))
@option("--yes", "-y", "agreed", is_flag=True, help=say("Do not ask for confirmation."))
@hub_options
@click.pass_obj
def delete(terminal: Terminal, filepaths: Sequence[str], prefix: str | None, agreed: bool) -> None:
    names = list(filepaths)
    if prefix:
        names += [row["filepath"] for row in listed(terminal, {"prefix": prefix}, None)]
        if names and not (agreed or _agreed(terminal, len(names))):
            raise BadArguments(say("Nothing was deleted. To delete them, add --yes."), "--yes")
    elif not names:
        raise BadArguments(say("Give the id of a document, or use --prefix."), "ID")
    deleted = sum(asked(terminal, "delete_document", {"filepath": name})["deleted_count"] for name in names)
    terminal.show(
        {"deleted": deleted},
        lambda: terminal.say(say("{count} {count:document|documents} deleted", count=f"{deleted:,}")),
    )


@docs.command(
    help=say("Show the number of documents, and how many of their chunks are embedded."),
    epilog=examples("tabane docs stats"),
)
@hub_options
@click.pass_obj
def stats(terminal: Terminal) -> None:
    found = asked(terminal, "get_document_stats", {})
    terminal.show(found, lambda: _print_stats(terminal, found))


docs.add_command(watch)
docs.add_command(import_chroma)


def asked(terminal: Terminal, operation: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the answer. If it is a failure, print it and end the command."""
    answer = terminal.hub().call(operation, params)
    assert isinstance(answer, dict)
    if answer.get("status") != "error":
        return answer
    if terminal.json:
        terminal.print_json(answer)
    terminal.warn(HubError(Message(str(answer["message"]).replace("{", "{{").replace("}", "}}"))))
    raise click.exceptions.Exit(WRONG_USAGE if answer.get("error_type") == "ValidationError" else FAILED)


def whole(terminal: Terminal, filepath: str) -> dict[str, Any]:
    """Return a document with its whole text, which is read in parts."""
    answer = asked(terminal, "get_document", {"filepath": filepath, "length": LONGEST_PART})
    texts, cursor = [answer["document"]], answer["next_cursor"]
    while cursor is not None:
        more = asked(
            terminal, "get_document", {"filepath": filepath, "length": LONGEST_PART, "cursor": cursor}
        )
        texts.append(more["document"])
        cursor = more["next_cursor"]
    return {**answer, "document": "".join(texts), "end": answer["length"], "next_cursor": None}


def listed(terminal: Terminal, params: dict[str, Any], limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield documents in order of their ids, page by page; all of them if ``limit`` is None."""
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


def _text(file: str, encoding: str | None) -> str:
    """Return the text of a file or of standard input. Raises BadArguments if it is not text."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(absolute_path(file), "rb") as opened:
                data = opened.read()
    except OSError as error:
        raise BadArguments(
            say("{path} cannot be read: {detail}", path=file, detail=error.strerror or str(error)), "FILE"
        ) from None
    if file != "-" and document_names.is_converted(file, data):
        raise BadArguments(say("{path} needs conversion. Use: tabane docs add {path}", path=file), "FILE")
    if encoding is not None and not is_encoding(encoding):
        raise BadArguments(
            say("Unknown encoding: {encoding}. Examples: shift_jis, euc_jp, latin-1", encoding=encoding),
            "--encoding",
        )
    found = decode_strictly(data, encoding)
    if found is None:
        raise BadArguments(
            say(
                "{path} is not text, or its encoding cannot be detected. Set the encoding with --encoding.",
                path=file,
            ),
            "FILE",
        )
    return found.text


def _tell_of_put(terminal: Terminal, details: dict[str, Any]) -> None:
    kept = {"id": details["filepath"], "count": details["chunks"]}
    if details["unchanged"]:
        terminal.say(say("{id}: unchanged, {count} {count:chunk|chunks}", **kept))
    elif details["updated"]:
        terminal.say(say("{id}: updated, {count} {count:chunk|chunks}", **kept))
    else:
        terminal.say(say("{id}: saved, {count} {count:chunk|chunks}", **kept))
    if details.get("warning"):
        terminal.note(details["warning"])


def _print_text(document: str) -> None:
    """Print the text, with a newline at its end. ``--json`` has it unchanged."""
    emit(document, nl=not document.endswith("\n"))


def _print_found(terminal: Terminal, results: Sequence[dict[str, Any]]) -> None:
    if not sys.stdout.isatty():
        terminal.table(
            [""] * 4,
            ([row["score"], row["filepath"], _place(row), row["passages"][0]["text"]] for row in results),
        )
        return
    terminal.say(say("🔍 Documents found: {count}", count=len(results)))
    for rank, row in enumerate(results, 1):
        best = row["passages"][0]
        emit(f"\n{rank}. [{row['score']:.3f}] {row['filepath']}")
        if place := _place(row):
            emit(StyledText(f"   {place}", "dim"))
        for line in filter(str.strip, best["text"].splitlines()[:6]):
            emit(f"   {line}")


def _place(row: dict[str, Any]) -> str:
    return " › ".join(row["passages"][0].get("heading") or ())


def _print_stats(terminal: Terminal, found: dict[str, Any]) -> None:
    span = found["updated"]
    facts = [
        (say("documents"), f"{found['documents']:,}"),
        (say("chunks"), f"{found['chunks']:,}"),
        (say("embedded"), f"{found['embedded_chunks']:,}"),
        (say("model"), found["model"]),
        (say("types"), ", ".join(f"{name} {count:,}" for name, count in found["file_types"].items())),
        (say("period"), f"{span['earliest']} – {span['latest']}" if span["earliest"] else None),
    ]
    terminal.pairs((name, value) for name, value in facts if value)


def _agreed(terminal: Terminal, count: int) -> bool:
    return terminal.asks and terminal.agreed(say("Delete {count} {count:document|documents}?", count=count))
