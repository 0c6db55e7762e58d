"""The commands of `tabane docs` that put, find and read documents."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from tabane.cli.arguments import read_object, read_pairs
from tabane.cli.blocks import readable
from tabane.cli.docs.answers import asked, document_ids, listed, whole
from tabane.cli.docs.taking import add, import_chroma, watch, whole_path
from tabane.cli.output import Group, Terminal, examples, hub_options, text
from tabane.documents.files import kinds
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.text.encodings import decode_strictly, is_encoding

_MODES = ("hybrid", "vector", "lexical")


@click.group("docs", cls=Group, help=text(say("Keep documents, and find them by words and by meaning.")))
def docs() -> None: ...


@docs.command(
    help=text(
        say(
            "Put a text, in place of what is there under its id. FILE is a text file, - is standard input. "
            "For PDF, HTML, DOCX and folders use: tabane docs add"
        )
    ),
    epilog=examples(
        "tabane docs put notes.md",
        "tabane docs put notes.md --id notes/today.md --metadata author=alice --metadata year=2026",
        "git log -20 | tabane docs put - --id project/log --file-type log",
    ),
)
@click.argument("file", metavar="FILE|-", type=click.Path())
@click.option("--id", "filepath", metavar="ID", help=text(say("Its id; by default the path of the file.")))
@click.option("--file-type", metavar="TYPE", help=text(say("Its type, to filter by.")))
@click.option(
    "--metadata",
    metavar="KEY=VALUE",
    multiple=True,
    help=text(say("Metadata of your own, to filter by; a key that is repeated makes a list.")),
)
@click.option("--encoding", metavar="NAME", help=text(say("What the text is in, where it is not Unicode.")))
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
        raise BadArguments(say("Name the document with --id ID."), "--id")
    wanted: dict[str, Any] = {"text": _text(file, encoding), "filepath": filepath or whole_path(file)}
    wanted |= {"file_type": file_type} if file_type else {}
    wanted |= {"metadata": read_pairs(metadata, {})} if metadata else {}
    answer = asked(terminal, "put_document", wanted)
    terminal.show(answer, lambda: _tell_of_put(terminal, answer["details"]))


docs.add_command(add)


@docs.command(
    help=text(say("Find documents, with the passages that answer.")),
    epilog=examples(
        "tabane docs search 'how do we release'",
        "tabane docs search 'release -draft' --file-type spec --mode lexical",
        'tabane docs search budget --filters \'{"year": {"gte": 2025}}\' --top-k 10',
    ),
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option(
    "--top-k", "--limit", "top_k", type=click.IntRange(1, 100), default=5, show_default=True,
    help=text(say("How many.")),
)  # fmt: skip
@click.option("--file-type", metavar="TYPE", help=text(say("Only documents of this type.")))
@click.option(
    "--filters",
    metavar="JSON",
    help=text(say("Only documents with such metadata: eq, ne, gt, gte, lt, lte, in, nin, $and, $or, $not.")),
)
@click.option(
    "--mode", type=click.Choice(_MODES), default=_MODES[0], show_default=True,
    help=text(say("By words and meaning (hybrid), by meaning, or by words.")),
)  # fmt: skip
@hub_options
@click.pass_obj
def search(
    terminal: Terminal,
    query: Sequence[str],
    top_k: int,
    file_type: str | None,
    filters: str | None,
    mode: str,
) -> None:
    wanted: dict[str, Any] = {"query": " ".join(query), "top_k": top_k, "mode": mode}
    wanted |= {"file_type": file_type} if file_type else {}
    wanted |= {"filters": read_object(filters, "--filters")} if filters else {}
    with terminal.working(say("Searching")):
        answer = asked(terminal, "search_documents", {**wanted, "include_documents": False})
    if answer.get("warning"):
        terminal.note(answer["warning"])
    terminal.show(answer, lambda: _print_found(terminal, answer["results"]))


@docs.command(
    help=text(say("Print the text of a document.")),
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
    help=text(say("List documents, those whose ids begin with PREFIX.")),
    epilog=examples("tabane docs list", "tabane docs list notes/ --file-type markdown --all"),
)
@click.argument("prefix", required=False, default="", shell_complete=document_ids)
@click.option("--file-type", metavar="TYPE", help=text(say("Only documents of this type.")))
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help=text(say("How many.")))
@click.option("--all", "everything", is_flag=True, help=text(say("All of them.")))
@hub_options
@click.pass_obj
def list_(terminal: Terminal, prefix: str, file_type: str | None, limit: int, everything: bool) -> None:
    wanted: dict[str, Any] = {"prefix": prefix} if prefix else {}
    wanted |= {"file_type": file_type} if file_type else {}
    rows = list(listed(terminal, wanted, None if everything else limit))
    if not rows and not terminal.json:
        terminal.note(say("There are no such documents. Put some with: tabane docs add PATH"))
    headers = [say("id"), say("type"), say("characters"), say("put"), say("title")]
    shown = (
        [row["filepath"], row["file_type"], row["length"], row["updated_at"], row["title"]] for row in rows
    )
    terminal.show({"documents": rows, "count": len(rows)}, lambda: terminal.table(headers, shown))


@docs.command(
    help=text(say("Delete documents. Files that they were made of stay.")),
    epilog=examples("tabane docs delete notes/today.md", "tabane docs delete --prefix notes/ --yes"),
)
@click.argument("filepaths", nargs=-1, metavar="[ID]…", shell_complete=document_ids)
@click.option("--prefix", metavar="PREFIX", help=text(say("All documents whose ids begin so.")))
@click.option("--yes", "-y", "agreed", is_flag=True, help=text(say("Do not ask.")))
@hub_options
@click.pass_obj
def delete(terminal: Terminal, filepaths: Sequence[str], prefix: str | None, agreed: bool) -> None:
    names = list(filepaths)
    if prefix:
        names += [row["filepath"] for row in listed(terminal, {"prefix": prefix}, None)]
        if names and not (agreed or _agreed(terminal, len(names))):
            raise BadArguments(say("Nothing was deleted. Delete them with --yes."), "--yes")
    elif not names:
        raise BadArguments(say("Name a document, or use --prefix."), "ID")
    deleted = sum(asked(terminal, "delete_document", {"filepath": name})["deleted_count"] for name in names)
    terminal.show(
        {"deleted": deleted}, lambda: terminal.say(say("{count} documents deleted", count=f"{deleted:,}"))
    )


@docs.command(
    help=text(say("Show how many documents are kept, and how many of their parts are embedded.")),
    epilog=examples("tabane docs stats"),
)
@hub_options
@click.pass_obj
def stats(terminal: Terminal) -> None:
    found = asked(terminal, "get_document_stats", {})
    terminal.show(found, lambda: _print_stats(terminal, found))


docs.add_command(watch)
docs.add_command(import_chroma)


def _text(file: str, encoding: str | None) -> str:
    """The text of a file, or of standard input. Raises BadArguments where it is none."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(whole_path(file), "rb") as opened:
                data = opened.read()
    except OSError as error:
        raise BadArguments(
            say("{path} cannot be read: {detail}", path=file, detail=error.strerror or str(error)), "FILE"
        ) from None
    if file != "-" and kinds.is_converted(file, data):
        raise BadArguments(say("{path} is to be converted. Use: tabane docs add {path}", path=file), "FILE")
    if encoding is not None and not is_encoding(encoding):
        raise BadArguments(
            say(
                "There is no encoding {encoding}. For example: shift_jis, euc_jp, latin-1", encoding=encoding
            ),
            "--encoding",
        )
    found = decode_strictly(data, encoding)
    if found is None:
        raise BadArguments(
            say("{path} is no text, or its encoding cannot be told; name it with --encoding.", path=file),
            "FILE",
        )
    return found.text


def _tell_of_put(terminal: Terminal, details: dict[str, Any]) -> None:
    kept = {"id": details["filepath"], "count": details["chunks"]}
    if details["unchanged"]:
        terminal.say(say("{id}: unchanged, {count} chunks", **kept))
    elif details["updated"]:
        terminal.say(say("{id}: updated, {count} chunks", **kept))
    else:
        terminal.say(say("{id}: put, {count} chunks", **kept))
    if details.get("warning"):
        terminal.note(details["warning"])


def _print_text(document: str) -> None:
    """The text as it is for a program; what moves the cursor is shown on a terminal, not done."""
    shown = readable(document, on_terminal=True) if sys.stdout.isatty() else document
    click.echo(shown, nl=not shown.endswith("\n"))


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
        click.echo(f"\n{rank}. [{row['score']:.3f}] {readable(row['filepath'], on_terminal=True)}")
        if place := _place(row):
            click.secho(f"   {readable(place, on_terminal=True)}", dim=True)
        for line in filter(str.strip, best["text"].splitlines()[:6]):
            click.echo(f"   {readable(line, on_terminal=True)}")


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
    return terminal.asks and terminal.agreed(say("Delete {count} documents?", count=count))
