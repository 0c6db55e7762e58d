"""Files of repositories and gists, with Jupyter notebooks as Markdown."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from dataclasses import dataclass, replace
from posixpath import basename, dirname
from urllib.parse import quote

import msgspec
from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.media_type_detection import UnsupportedMediaType, code_language, kind_of
from tabane.reader.formats.text import bounded, fence, unix
from tabane.reader.page import Page, Picture
from tabane.reader.sites.github.api import (
    RAW,
    Gist,
    GistFile,
    GitHubAddress,
    GitHubApi,
    GitHubComment,
    GitHubEntry,
    linked,
)
from tabane.reader.sites.github.pages import (
    SITE,
    at_place,
    commented,
    element,
    github_page,
    login,
    section,
    size,
    title_of_path,
)
from tabane.reader.sites.site_adapter import blocks, one_line, query
from tabane.text.encodings import decode_leniently

WHOLE = 10
"""Files longer than a megabyte that are fetched by themselves."""


async def gist(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return a gist at its last or one revision."""
    path = "/gists/" + "/".join(place.rest)
    found = await api.get(path, Gist)
    files, warnings = await _files(found, api)
    said: list[GitHubComment] = []
    if found.comments:
        said, more = await api.pages(f"/gists/{place.rest[0]}/comments", GitHubComment, found.comments)
        warnings = (*warnings, *more)
    if found.truncated:
        warnings = (
            *warnings,
            say("Only the first {count} {count:file is|files are} listed.", count=len(files)),
        )
    description = one_line(found.description)
    return await asyncio.to_thread(
        lambda: github_page(
            found.html_url or f"https://gist.github.com/{found.id}",
            element("gist", f"{login(found.owner)}/{found.id}"),
            element("description", description) if description else "",
            *files,
            commented(said),
            site=f"{SITE} Gist",
            title=description or ", ".join(list(found.files)[:3]) or found.id,
            author=login(found.owner),
            date=found.updated_at or found.created_at or None,
            canonical=found.html_url or None,
            warnings=warnings,
        )
    )


async def _files(found: Gist, api: GitHubApi) -> tuple[list[str], tuple[Message, ...]]:
    parts: list[str] = []
    warnings: list[Message] = []
    fetched = 0
    for name, each in found.files.items():
        if each is None:
            continue
        text = each.content
        if (each.truncated or text is None) and each.raw_url and fetched < WHOLE:
            fetched += 1
            try:
                # Without the token: the URL comes from the response and may lead to any host.
                body = await api.tools.fetcher.fetch(each.raw_url)
                text = await asyncio.to_thread(decode_leniently, body.body, body.charset, "text/plain")
            except ReadError as error:
                warnings.append(
                    say("{name} could not be read completely: {reason}", name=name, reason=error.message)
                )
        elif each.truncated:
            warnings.append(say("{name} is not complete here.", name=name))
        shown, more = await asyncio.to_thread(_gist_file, name, each, text)
        parts.append(blocks(element("path", name), section("content", shown)))
        warnings += more
    return parts, tuple(warnings)


def _gist_file(name: str, file: GistFile, text: str | None) -> tuple[str, tuple[Message, ...]]:
    if text is None or "\0" in text[:8000]:
        return f"[binary file, {size(file.size)}]", ()
    if name.endswith(".ipynb") and (markdown := notebook(text)) is not None:
        return bounded(markdown)
    text, warnings = bounded(unix(text))
    if name.lower().endswith((".md", ".markdown")):
        return text, warnings
    return fence(text, code_language("", name, "") or (file.language or "").lower()), warnings


_POINTER = b"version https://git-lfs.github.com/spec/v1"
_SOURCE = {"html": "html", "json": "json", "ndjson": "json", "xml": "xml", "plain": "", "code": ""}


@dataclass(frozen=True, slots=True)
class _GitHubFile:
    """A fetched file: ``url`` is the address of its page, ``raw`` that of its bytes."""

    place: GitHubAddress
    ref: str
    path: str
    body: bytes
    raw: str
    site: str

    @property
    def url(self) -> str:
        lines = self.place.lines
        anchor = "" if lines is None else f"#L{lines[0]}" + (f"-L{lines[1]}" if lines[1] > lines[0] else "")
        return f"{self.site}/{self.place.name}/blob/{quote(f'{self.ref}/{self.path}', safe='/')}{anchor}"


@dataclass(frozen=True, slots=True)
class _FileExcerpt:
    """The shown content of a file: ``markdown`` is put into <content>."""

    markdown: str
    warnings: tuple[Message, ...] = ()
    lines: str = ""
    pictures: tuple[Picture, ...] = ()
    author: str | None = None


async def of_entry(place: GitHubAddress, ref: str, entry: GitHubEntry, api: GitHubApi) -> Page:
    """Return a file from the API's response, which includes its bytes if they are less than a megabyte."""
    if entry.type == "submodule":
        lines = f"📦 {entry.name} @ {entry.sha} → {entry.submodule_git_url or ''}".rstrip(" →")
        return _file_page(
            _GitHubFile(place, ref, entry.path, b"", "", api.endpoints.site), _FileExcerpt(lines)
        )
    if entry.encoding == "base64" and entry.content is not None and (entry.content or not entry.size):
        try:
            body = await asyncio.to_thread(b64decode, entry.content)
        except ValueError:
            pass
        else:
            return await _of_bytes(place, ref, entry.path, body, api)
    where = f"{api.endpoints.api}/repos/{place.name}/contents/{quote(entry.path, safe='/')}"
    fetched = await api.fetch(query(where, ref=ref), RAW)
    return await _of_bytes(place, ref, entry.path, fetched.body, api)


async def raw(place: GitHubAddress, ref: str, path: str, api: GitHubApi) -> Page:
    """Return a file by its bytes, for which GitHub does not count requests."""
    where = f"{api.endpoints.raw}/{place.name}/{quote(f'{ref}/{path}', safe='/')}"
    fetched = await api.fetch(where)
    return await _of_bytes(place, ref, path, fetched.body, api)


async def _of_bytes(place: GitHubAddress, ref: str, path: str, body: bytes, api: GitHubApi) -> Page:
    where = f"{place.name}/{quote(f'{ref}/{path}', safe='/')}"
    found = _GitHubFile(place, ref, path, body, f"{api.endpoints.raw}/{where}", api.endpoints.site)
    warnings: tuple[Message, ...] = ()
    if body.startswith(_POINTER) and len(body) < 1024:
        try:
            stored = await api.fetch(f"{api.endpoints.media}/{where}")
            found = replace(found, body=stored.body)
        except ReadError as error:
            warnings = (
                say(
                    "The file is in Git LFS and could not be read from there: {reason}", reason=error.message
                ),
            )
    shown = await _shown(found, api)
    return _file_page(found, replace(shown, warnings=(*warnings, *shown.warnings)))


def _file_page(found: _GitHubFile, shown: _FileExcerpt) -> Page:
    place = found.place
    return github_page(
        found.url,
        *at_place(place.name, found.ref, found.path),
        element("lines", shown.lines) if shown.lines else "",
        section("content", shown.markdown),
        title=title_of_path(place.name, found.path),
        author=shown.author,
        warnings=shown.warnings,
        pictures=shown.pictures,
    )


async def _shown(found: _GitHubFile, api: GitHubApi) -> _FileExcerpt:
    try:
        kind = await asyncio.to_thread(kind_of, found.body, "", basename(found.path), "")
    except UnsupportedMediaType as unread:
        return _binary_excerpt(found, str(unread.args[0]))
    if kind in _SOURCE or kind == "markdown":
        return await asyncio.to_thread(_text_excerpt, found, kind)
    try:
        page = await api.tools.converting.page(found.body, found.raw, "", None, name=basename(found.path))
    except ReadError as error:
        if error.cause != "type":
            raise
        return _binary_excerpt(found, kind)
    return _FileExcerpt(page.markdown, page.warnings, pictures=page.pictures, author=page.author)


def _binary_excerpt(found: _GitHubFile, kind: str) -> _FileExcerpt:
    name = f" ({kind})" if "/" in kind else ""
    return _FileExcerpt(f"[binary file, {size(len(found.body))}{name}]")


def _text_excerpt(found: _GitHubFile, kind: str) -> _FileExcerpt:
    """Return text of any kind; wanted lines alone if there are some."""
    text = unix(decode_leniently(found.body, None, "text/plain"))
    if found.place.lines is not None:
        return _lines_excerpt(text, found)
    if found.path.endswith(".ipynb") and (markdown := notebook(text)) is not None:
        return _FileExcerpt(*bounded(markdown))
    text, warnings = bounded(text)
    if kind == "markdown":
        args = found.place.name, found.ref, dirname(found.path), found.site
        return _FileExcerpt(linked(text, *args), warnings)
    return _FileExcerpt(fence(text, _fence_language(found.path, kind)), warnings)


def _lines_excerpt(text: str, found: _GitHubFile) -> _FileExcerpt:
    assert found.place.lines is not None
    lines = text.removesuffix("\n").split("\n")
    first, last = found.place.lines
    if first > len(lines):
        warning = say(
            "The file has {count} {count:line|lines}, so there is no line {line}. This is the whole file.",
            count=len(lines),
            line=first,
        )
        shown, more = bounded(text)
        return _FileExcerpt(fence(shown, _fence_language(found.path, "plain")), (warning, *more))
    last = min(last, len(lines))
    shown, warnings = bounded("\n".join(lines[first - 1 : last]))
    said = f"{first}-{last} of {len(lines)}"
    return _FileExcerpt(fence(shown, _fence_language(found.path, "plain")), warnings, said)


def _fence_language(path: str, kind: str) -> str:
    if path.lower().endswith((".md", ".markdown")):
        return "md"
    return code_language("", basename(path), "") or _SOURCE.get(kind, "")


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
    metadata = found.metadata
    if metadata.language_info and metadata.language_info.name:
        language = metadata.language_info.name
    else:
        language = metadata.kernelspec.language if metadata.kernelspec else ""
    parts = [part for cell in found.cells for part in _cell_blocks(cell, language)]
    return "\n\n".join(part for part in parts if part)


def _cell_blocks(cell: NotebookCell, language: str) -> list[str]:
    source = _joined_text(cell.source).strip("\n")
    if cell.cell_type == "markdown":
        return [source]
    if cell.cell_type != "code" or not source.strip():
        return [fence(source, "")] if source.strip() else []
    return [fence(source, language), *(_output_text(output) for output in cell.outputs)]


def _output_text(output: NotebookOutput) -> str:
    if output.output_type == "stream":
        return _printed_text(_joined_text(output.text))
    if output.output_type == "error":
        return _printed_text(f"{output.ename}: {output.evalue}")
    markdown = _text_of_value(output.data.get("text/markdown"))
    if markdown:
        return markdown.strip("\n")[:OUTPUT]
    if picture := next((kind for kind in output.data if kind.startswith("image/")), ""):
        return f"[picture: {picture}]"
    return _printed_text(_text_of_value(output.data.get("text/plain")))


def _printed_text(text: str) -> str:
    text = _ESCAPES.sub("", text).strip("\n")
    if len(text) > OUTPUT:
        text = f"{text[:OUTPUT]}\n… {len(text) - OUTPUT:,} more characters"
    return fence(text, "text") if text.strip() else ""


def _joined_text(text: _Text) -> str:
    return text if isinstance(text, str) else "".join(text)


def _text_of_value(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
