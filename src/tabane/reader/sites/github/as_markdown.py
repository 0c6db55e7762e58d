"""Layout of GitHub pages as Markdown, and Jupyter notebooks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from posixpath import basename

import msgspec
from msgspec import Struct

from tabane.reader.formats.text import fence
from tabane.reader.page import Page
from tabane.reader.sites.github.api_objects import (
    GitHubAccount,
    GitHubChangedFile,
    GitHubEntry,
    GitHubReactions,
)

OUTPUT = 5_000
"""Characters of one output that are shown."""

_Text = str | list[str]
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class NotebookOutput(Struct, frozen=True):
    output_type: str
    text: _Text = ""
    data: dict[str, object] = {}
    ename: str = ""
    evalue: str = ""


class NotebookCell(Struct, frozen=True):
    cell_type: str
    source: _Text = ""
    outputs: list[NotebookOutput] = []


class NotebookLanguage(Struct, frozen=True):
    name: str = ""
    language: str = ""


class NotebookMetadata(Struct, frozen=True):
    kernelspec: NotebookLanguage | None = None
    language_info: NotebookLanguage | None = None


class Notebook(Struct, frozen=True):
    cells: list[NotebookCell]
    metadata: NotebookMetadata = NotebookMetadata()


def notebook(text: str) -> str | None:
    """Return the notebook as Markdown; None if it is not of version 4."""
    try:
        found = msgspec.json.decode(text, type=Notebook)
    except (msgspec.DecodeError, RecursionError):
        return None
    language = _language(found.metadata)
    parts = [part for cell in found.cells for part in _cell(cell, language)]
    return "\n\n".join(part for part in parts if part)


def _language(metadata: NotebookMetadata) -> str:
    if metadata.language_info and metadata.language_info.name:
        return metadata.language_info.name
    return metadata.kernelspec.language if metadata.kernelspec else ""


def _cell(cell: NotebookCell, language: str) -> list[str]:
    source = _joined(cell.source).strip("\n")
    if cell.cell_type == "markdown":
        return [source]
    if cell.cell_type != "code" or not source.strip():
        return [fence(source, "")] if source.strip() else []
    return [fence(source, language), *(_output(output) for output in cell.outputs)]


def _output(output: NotebookOutput) -> str:
    if output.output_type == "stream":
        return _printed(_joined(output.text))
    if output.output_type == "error":
        return _printed(f"{output.ename}: {output.evalue}")
    markdown = _said(output.data.get("text/markdown"))
    if markdown:
        return markdown.strip("\n")[:OUTPUT]
    if picture := next((kind for kind in output.data if kind.startswith("image/")), ""):
        return f"[picture: {picture}]"
    return _printed(_said(output.data.get("text/plain")))


def _printed(text: str) -> str:
    text = _ESCAPES.sub("", text).strip("\n")
    if len(text) > OUTPUT:
        text = f"{text[:OUTPUT]}\n… {len(text) - OUTPUT:,} more characters"
    return fence(text, "text") if text.strip() else ""


def _joined(text: _Text) -> str:
    return text if isinstance(text, str) else "".join(text)


def _said(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


PATCHES = 200_000
"""Characters of patches that are shown together."""

SITE = "GitHub"

github_page = partial(Page, site=SITE, way="github", share=1.0)

_README = re.compile(r"readme(?:\.(?:md|markdown|mdown|rst|adoc|asciidoc|org|txt))?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def element(name: str, text: str) -> str:
    """Return lines within a tag."""
    return f"<{name}>\n{text}\n</{name}>"


def section(name: str, markdown: str) -> str:
    """Return Markdown within a tag: the empty lines are needed for it to be read as Markdown."""
    return f"<{name}>\n\n{markdown.strip(chr(10))}\n\n</{name}>"


def size(count: int) -> str:
    """Return bytes as 512 B, 1.2 KB, 3.4 MB: units are of 1024."""
    if count < 1024:
        return f"{count} B"
    for unit, whole in (("KB", 1 << 10), ("MB", 1 << 20)):
        if count < whole * 1024:
            return f"{count / whole:.1f} {unit}"
    return f"{count / (1 << 30):.1f} GB"


def listing(entries: Iterable[GitHubEntry]) -> str:
    """Sort entries: folders first, each group by name."""
    lines = sorted((each.type != "dir", each.name, _line(each)) for each in entries)
    return "\n".join(line for *_, line in lines)


def _line(entry: GitHubEntry) -> str:
    name = _CONTROL.sub("�", entry.name)
    if entry.type == "dir":
        return f"📁 {name}/"
    if entry.type == "submodule" or (entry.type == "file" and entry.size == 0 and entry.download_url is None):
        return f"📦 {name} @ {entry.sha[:7]} (submodule)"
    if entry.type == "symlink":
        return f"🔗 {name}" + (f" → {entry.target}" if entry.target else "")
    return f"📄 {name} ({size(entry.size)})"


def readme_of(entries: Sequence[GitHubEntry]) -> GitHubEntry | None:
    """Return the README that GitHub would show of a folder: Markdown before others."""
    found = [each for each in entries if each.type == "file" and _README.fullmatch(each.name)]
    return min(
        found, key=lambda each: (not each.name.lower().endswith(("md", "markdown")), each.name), default=None
    )


def login(account: GitHubAccount | None) -> str:
    """Return who it is; accounts that are gone are GitHub's ghost."""
    return account.login if account and account.login else "ghost"


def facts(**known: object) -> str:
    """Return metadata as a list: names have underscores for spaces; empty values are skipped."""
    return "\n".join(
        f"- {name.replace('_', ' ').capitalize()}: {value}" for name, value in known.items() if value
    )


def reacted(reactions: GitHubReactions | None) -> str:
    """👍 and 👎 if there are some."""
    if reactions is None or not (reactions.up or reactions.down):
        return ""
    return " ".join(
        f"{mark} {count}" for mark, count in (("👍", reactions.up), ("👎", reactions.down)) if count
    )


def stat(files: Sequence[GitHubChangedFile]) -> str:
    """Return one line for each file: its change, and the numbers of added and removed lines."""
    return "\n".join(
        f"- {_name(each)} ({each.status}, +{each.additions} −{each.deletions})" for each in files
    )


def patches(files: Sequence[GitHubChangedFile], left: int = PATCHES) -> tuple[str, int]:
    """Return the patches of files as listings, and how many files had to go without theirs for want of
    room.
    """
    parts: list[str] = []
    missing = 0
    for each in files:
        if each.patch is None:
            continue
        if len(each.patch) > left:
            missing += 1
            continue
        left -= len(each.patch)
        parts.append(f"### {_name(each)}\n\n{fence(each.patch, 'diff')}")
    return "\n\n".join(parts), missing


def _name(file: GitHubChangedFile) -> str:
    if file.previous_filename:
        return f"`{file.previous_filename}` → `{file.filename}`"
    return f"`{file.filename}`"


def numbered(count: int, what: str) -> str:
    """3 files, 1 file."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def title_of_path(repository: str, path: str) -> str:
    return f"{basename(path)} · {repository}" if path else repository


def blocks(*parts: str) -> str:
    """Return those that are not empty, one below the other."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())
