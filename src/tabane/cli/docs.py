"""`tabane docs`: documents put, added from files and folders, watched, searched, read and deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.arguments import read_object, read_pairs
from tabane.cli.empty import NO_DOCUMENTS, no_documents
from tabane.cli.job_progress import follow
from tabane.cli.operation_command import Column, not_empty, operation_command, print_rows
from tabane.cli.options import (
    COMPLETION_LIMIT,
    Decorator,
    absolute,
    absolute_path,
    agreed_option,
    combined,
    completed,
    detach_option,
    given,
    option,
    parameter_option,
    with_hub,
)
from tabane.cli.output import FAILED, WRONG_USAGE, Group, TableState, Terminal, emit, examples
from tabane.cli.terminal_text import StyledText
from tabane.documents import metadata
from tabane.documents.table import (
    LONGEST_PART,
    AddDocuments,
    ImportChroma,
    ListDocuments,
    PutDocument,
    SearchDocuments,
    WatchDocuments,
)
from tabane.errors import BadArguments, HubError
from tabane.messages import Message, say
from tabane.text.encodings import decode_strictly, is_encoding

if TYPE_CHECKING:
    from msgspec import Struct

    from tabane.hub.local.client import HubClient

SHOWN = 10
"""The number of unusable files that are shown."""

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


def show_report(terminal: Terminal, report: dict[str, Any]) -> None:
    """Print what became of files, and the first ones that could not be used."""
    counts = {name: f"{report[name]:,}" for name in ("new", "changed", "unchanged", "removed")}
    terminal.say(
        say(
            "{new} new, {changed} changed, {unchanged} unchanged, {removed} removed; {seconds} s",
            **counts,
            seconds=report["seconds"],
        )
    )
    if report["older"]:
        terminal.note(say("{count} older {count:file was|files were} skipped.", count=f"{report['older']:,}"))
    if report["warning"]:
        terminal.note(report["warning"])
    if not report["bad"]:
        return
    terminal.note(say("{count} {count:file|files} could not be used:", count=f"{report['bad']:,}"))
    for problem in report["problems"][:SHOWN]:
        terminal.note(f"  {problem['path']}: {problem['reason']}")
    if report["bad"] > SHOWN:
        more = f"{report['bad'] - SHOWN:,}"
        terminal.note(say("  and {count} more; --json lists the first 200", count=more))


def _naming_options(params: type[Struct]) -> tuple[Decorator, ...]:
    """Return the options that name the documents of files and leave out files."""
    return (
        parameter_option(params, "id_prefix", help=say("Prefix of the document ids.")),
        parameter_option(
            params, "relative", "--relative", "--use-relative-path",
            help=say("Use paths relative to the folder as ids, instead of full paths."),
        ),
        parameter_option(params, "file_type", help=say("The type of these documents.")),
        parameter_option(
            params, "ignore",
            help=say(
                "Leave out matching files, as in a .gitignore; !GLOB includes them again. "
                "Repeatable."),
        ),
        parameter_option(
            params, "encoding", help=say("Encoding of files that are not Unicode and cannot be detected.")
        ),
    )  # fmt: skip


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
@parameter_option(PutDocument, "file_type", help=say("Type of the document, for filters."))
@option(
    "--metadata",
    metavar="KEY=VALUE",
    multiple=True,
    help=say("Your own metadata, for filters; repeat a key to make a list."),
)
@option("--encoding", metavar="NAME", help=say("Encoding of the text if it is not Unicode."))
@with_hub
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
    if not terminal.show_json(answer):
        details = answer["details"]
        kept = {"id": details["filepath"], "count": details["chunks"]}
        if details["unchanged"]:
            terminal.say(say("{id}: unchanged, {count} {count:chunk|chunks}", **kept))
        elif details["updated"]:
            terminal.say(say("{id}: updated, {count} {count:chunk|chunks}", **kept))
        else:
            terminal.say(say("{id}: saved, {count} {count:chunk|chunks}", **kept))
        if details.get("warning"):
            terminal.note(details["warning"])


operation_command(
    docs, "add", "add_documents",
    click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=click.Path(), callback=absolute),
    *_naming_options(AddDocuments),
    parameter_option(AddDocuments, "since", "--since", "--filter-from-date", metavar="DATE",
                     help=say("Only files changed since this date, such as 2026-01-31.")),
    parameter_option(AddDocuments, "prune", help=say("Remove documents whose files no longer exist there.")),
    parameter_option(AddDocuments, "again", help=say("Also save what is unchanged.")),
    help=say(
        "Make documents from files and folders: Markdown, text, source code, HTML, PDF, "
        "DOCX. Hidden files, files excluded by a .gitignore and unchanged files are "
        "skipped. If stopped, the same command continues."
    ),
    epilog=examples(
        "tabane docs add ~/notes",
        "tabane docs add . --relative --id-prefix myproject --ignore 'tests/' --prune",
        "tabane docs add report.pdf --file-type report",
        "tabane docs add ~/notes --since 2026-01-01",
    ),
    params=not_empty,
    job=True,
    text=show_report,
)  # fmt: skip


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
@parameter_option(SearchDocuments, "file_type", help=say("Only documents of this type."))
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
@with_hub
def search(
    terminal: Terminal, /, query: Sequence[str], filters: str | None, file_type: str | None, **options: Any
) -> None:
    wanted = given({"query": " ".join(query), "file_type": file_type or None, **options})
    wanted |= {"filters": read_object(filters, "--filters")} if filters else {}
    with terminal.working(say("Searching")):
        answer = asked(terminal, "search_documents", {**wanted, "include_documents": False})
    results = answer["results"]
    empty = None if results or terminal.json else no_documents(terminal.hub())
    if answer.get("warning") and not empty:
        terminal.note(answer["warning"])
    if terminal.show_json(answer):
        return
    if not results:
        terminal.note(empty or say("Nothing was found."))
        return
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


@docs.command(
    help=say("Print the text of a document."),
    epilog=examples("tabane docs get notes/today.md", "tabane docs get notes/today.md --json"),
)
@click.argument("filepath", metavar="ID", shell_complete=document_ids)
@with_hub
def get(terminal: Terminal, filepath: str) -> None:
    answer = whole(terminal, filepath)
    if not terminal.show_json(answer):
        document = answer["document"]
        emit(document, nl=not document.endswith("\n"))


_LISTED = (
    Column(say("id"), "filepath"),
    Column(say("type"), "file_type"),
    Column(say("characters"), "length"),
    Column(say("put"), "updated_at"),
    Column(say("title"), "title"),
)


@docs.command(
    "list",
    help=say("List all documents, or those whose ids start with PREFIX."),
    epilog=examples("tabane docs list", "tabane docs list notes/ --file-type markdown --all"),
)
@click.argument("prefix", required=False, default="", shell_complete=document_ids)
@parameter_option(ListDocuments, "file_type", help=say("Only documents of this type."))
@option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help=say("Maximum number of results.")
)
@option("--all", "everything", is_flag=True, help=say("All of them."))
@with_hub
def list_(terminal: Terminal, prefix: str, file_type: str | None, limit: int, everything: bool) -> None:
    wanted = given({"prefix": prefix or None, "file_type": file_type or None})
    rows = list(listed(terminal, wanted, None if everything else limit))
    if not rows and not terminal.json:
        terminal.note(no_documents(terminal.hub()) or say("There are no such documents."))
    if not terminal.show_json({"documents": rows, "count": len(rows)}):
        print_rows(terminal, _LISTED, rows)


@docs.command(
    help=say("Delete documents. The files that they were made from are kept."),
    epilog=examples("tabane docs delete notes/today.md", "tabane docs delete --prefix notes/ --yes"),
)
@click.argument("filepaths", nargs=-1, metavar="[ID]…", shell_complete=document_ids)
@option("--prefix", metavar="PREFIX", help=say("All documents whose ids start with PREFIX."))
@agreed_option
@with_hub
def delete(terminal: Terminal, filepaths: Sequence[str], prefix: str | None, agreed: bool) -> None:
    names = list(filepaths)
    if prefix:
        names += [row["filepath"] for row in listed(terminal, {"prefix": prefix}, None)]
        if names and not (
            agreed
            or (
                terminal.asks
                and terminal.agreed(say("Delete {count} {count:document|documents}?", count=len(names)))
            )
        ):
            raise BadArguments(say("Nothing was deleted. To delete them, add --yes."), "--yes")
    elif not names:
        raise BadArguments(say("Give the id of a document, or use --prefix."), "ID")
    deleted = sum(asked(terminal, "delete_document", {"filepath": name})["deleted_count"] for name in names)
    terminal.show(
        {"deleted": deleted}, say("{count} {count:document|documents} deleted", count=f"{deleted:,}")
    )


@docs.command(
    help=say("Show the number of documents, and how many of their chunks are embedded."),
    epilog=examples("tabane docs stats"),
)
@with_hub
def stats(terminal: Terminal) -> None:
    found = asked(terminal, "get_document_stats", {})
    if not terminal.show_json(found):
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
        if not found.get("documents"):
            terminal.note(NO_DOCUMENTS)


@docs.command(
    "watch",
    help=say(
        "Make documents from a folder's files and keep them up to date: files that are "
        "added, changed or removed later are followed, also after a restart."
    ),
    epilog=examples(
        "tabane docs watch ~/notes",
        "tabane docs watch . --relative --id-prefix myproject",
        "tabane docs watch --list",
        "tabane docs watch --remove ~/notes",
    ),
)
@click.argument("path", required=False, type=click.Path(), callback=absolute)
@option("--list", "listing", is_flag=True, help=say("List the folders that are watched."))
@option("--remove", is_flag=True, help=say("Stop watching the folder. Its documents are kept."))
@option("--prune", is_flag=True, help=say("With --remove: also remove its documents."))
@combined(_naming_options(WatchDocuments))
@detach_option
@with_hub
def watch(
    terminal: Terminal, /, path: str | None, listing: bool, remove: bool, prune: bool, **options: Any
) -> None:
    if listing or path is None:
        if not listing:
            raise BadArguments(say("Give a folder, or use --list."), "PATH")
        found = terminal.hub(start=False).call("list_watched")
        if not found["results"] and not terminal.json:
            terminal.note(say("No folder is watched. To watch one: tabane docs watch FOLDER"))
        if not terminal.show_json(found):
            print_rows(terminal, _WATCHED, found["results"])
    elif remove:
        done = terminal.hub().call("unwatch_documents", {"path": path, "remove": prune})
        if not terminal.show_json(done):
            terminal.say(say("{path} is no longer watched.", path=done["path"]))
            if done["removed"]:
                terminal.say(
                    say("{count} {count:document was|documents were} removed.", count=f"{done['removed']:,}")
                )
    else:
        report = follow(terminal, "watch_documents", {"path": path, **not_empty(given(options))})
        if not terminal.show_json(report):
            show_report(terminal, report)
            terminal.say(say("From now on, changes in {path} are followed.", path=path))


_WATCHED = (
    Column(say("folder"), "path"),
    Column(say("state"), lambda row: TableState(row["state"])),
    Column(say("files"), "files"),
    Column(say("problem"), "problem"),
)

operation_command(
    docs, "import-chroma", "import_chroma",
    click.argument("path", type=click.Path(), callback=absolute),
    parameter_option(ImportChroma, "collection",
                     help=say("Name of the collection if there are several. Default: documents.")),
    parameter_option(ImportChroma, "id_prefix", help=say("Prefix of the document ids.")),
    help=say(
        "Import the documents of a Chroma collection that semche created. Names, texts, "
        "metadata and dates are kept; the texts are embedded again."
    ),
    epilog=examples(
        "tabane docs import-chroma ./chroma_db",
        "tabane docs import-chroma ./chroma_db --collection notes --id-prefix old",
    ),
    params=not_empty,
    job=True,
    text=show_report,
)  # fmt: skip


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
    if file != "-" and metadata.is_converted(file, data):
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


def _place(row: dict[str, Any]) -> str:
    return " › ".join(row["passages"][0].get("heading") or ())
