"""Jupyter notebooks as Markdown. Pure."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from tabane.reader.formats.text import fence

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
