"""Notion by its API: pages with all their blocks, and the columns of databases, as Markdown.

https://developers.notion.com/reference: three requests a second on average, pages of a hundred.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote

import msgspec
from msgspec import Raw, Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.text import fence
from tabane.reader.markdown import spans
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import (
    KeyLookup,
    ReadingTools,
    SiteApi,
    SitePages,
    SiteSample,
    blocks,
    decode_each,
    facts,
    no_keys,
    one_line,
)


class NotionMarks(Struct, frozen=True, gc=False):
    bold: bool = False
    italic: bool = False
    strikethrough: bool = False
    code: bool = False


class NotionWords(Struct, frozen=True, gc=False):
    """The words of a run: ``expression`` of an equation, ``content`` of other text."""

    expression: str = ""
    content: str = ""


class NotionText(Struct, frozen=True, gc=False):
    """A run of rich text."""

    type: str = ""
    plain_text: str | None = None
    href: str | None = None
    annotations: NotionMarks | None = None
    equation: NotionWords | None = None
    text: NotionWords | None = None

    @property
    def words(self) -> str:
        """Return the words of the run; an equation is its source."""
        if self.type == "equation" and self.equation is not None:
            return self.equation.expression or self.plain_text or ""
        if self.plain_text is not None:
            return self.plain_text
        return self.text.content if self.text else ""


class NotionFile(Struct, frozen=True, gc=False):
    url: str | None = None


class NotionIcon(Struct, frozen=True, gc=False):
    emoji: str | None = None


class NotionOriginal(Struct, frozen=True, gc=False):
    """The block that a synchronized one repeats."""

    block_id: str | None = None


class NotionContent(Struct, frozen=True):
    """The content of a block of any kind: the fields of other kinds have their defaults."""

    rich_text: list[NotionText] = []
    caption: list[NotionText] = []
    cells: list[list[NotionText]] = []
    checked: bool = False
    language: str | None = None
    expression: str | None = None
    has_column_header: bool = False
    icon: NotionIcon | None = None
    url: str | None = None
    external: NotionFile | None = None
    file: NotionFile | None = None
    name: str | None = None
    title: str | None = None
    synced_from: NotionOriginal | None = None
    type: str | None = None
    page_id: str | None = None
    database_id: str | None = None
    comment_id: str | None = None


@dataclass(slots=True)
class NotionBlock:
    """A block and its children. ``odd``: its content is not of the known form, and is left out."""

    kind: str = ""
    id: str = ""
    has_children: bool = False
    content: NotionContent = field(default_factory=NotionContent)
    odd: bool = False
    inner: list[NotionBlock] = field(default_factory=list)


_fields = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_content = msgspec.json.Decoder(NotionContent)


def block_of(raw: Raw | bytes) -> NotionBlock:
    """Decode a block. The member that is named by its kind has its content. Raises DecodeError."""
    fields = _fields.decode(raw)
    kind = _text.decode(fields.get("type", b'""'))
    known = _text.decode(fields.get("id", b'""')), _flag.decode(fields.get("has_children", b"false"))
    try:
        return NotionBlock(kind, *known, _content.decode(fields.get(kind, b"{}")))
    except (msgspec.DecodeError, RecursionError):
        return NotionBlock(kind, *known, odd=True)


class NotionListing(Struct, frozen=True):
    """A page of a list."""

    results: list[Raw]
    has_more: bool = False
    next_cursor: str | None = None


class NotionDataSource(Struct, frozen=True):
    id: str
    name: str | None = None


class NotionObject(Struct, frozen=True):
    """A page, a database or a data source, as far as they have the same."""

    id: str
    url: str = ""
    public_url: str | None = None
    created_time: str | None = None
    last_edited_time: str | None = None
    properties: dict[str, Any] = {}
    title: list[NotionText] = []
    description: list[NotionText] = []
    data_sources: list[NotionDataSource] = []


DEPTH = 10
"""Levels of blocks within blocks."""

REQUESTS = 120
"""Requests for one page: at three a second that is less than a read may take."""

AT_ONCE = 3

# Pages of their own, which are named and not read.
_CLOSED = frozenset({"child_page", "child_database"})


class NotionBlockReader:
    """Reads the blocks of one page, level by level, so that a limit cuts off the deepest ones."""

    def __init__(self, api: NotionApi) -> None:
        self._api, self._left = api, REQUESTS
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._unread = 0
        self._deep = 0
        self._why: ReadError | None = None

    async def of_page(self, id_: str) -> tuple[list[NotionBlock], tuple[Message, ...]]:
        """Return all blocks, with a warning about those that are missing. Raises ReadError if no block could
        be read.
        """
        nodes = await self._fetch_children(id_)
        level = nodes
        for _ in range(DEPTH - 1):
            level = await self._below(level)
            if not level:
                break
        self._deep = sum(_has_more(node) for node in level)
        warnings = []
        if self._why is not None:
            warnings.append(
                say(
                    "{count} {count:part|parts} of the page could not be read: {reason}",
                    count=self._unread,
                    reason=self._why.message,
                )
            )
        elif self._unread:
            warnings.append(
                say(
                    "The page has more parts than can be read at once: {count} {count:part was|parts "
                    "were} left out.",
                    count=self._unread,
                )
            )
        if self._deep:
            warnings.append(say("Blocks below level {depth} are left out.", depth=DEPTH))
        return nodes, tuple(warnings)

    async def _below(self, level: list[NotionBlock]) -> list[NotionBlock]:
        """Read the next level, and attach each block to its parent."""
        opened = [node for node in level if _has_more(node)]
        await asyncio.gather(*(self._read_children(node) for node in opened))
        return [inner for node in opened for inner in node.inner]

    async def _read_children(self, node: NotionBlock) -> None:
        original = node.content.synced_from
        try:
            node.inner = await self._fetch_children((original.block_id if original else None) or node.id)
        except ReadError as error:
            self._unread, self._why = self._unread + 1, error

    async def _fetch_children(self, id_: str) -> list[NotionBlock]:
        """Return all children of a block, page by page; those read so far if the next page fails."""
        found: list[NotionBlock] = []
        cursor: str | None = None
        while True:
            if self._left <= 0:
                self._unread += 1
                return found
            self._left -= 1
            try:
                async with self._turns:
                    part = await self._api.get(
                        f"blocks/{quote(id_, safe='')}/children",
                        NotionListing,
                        page_size=100,
                        start_cursor=cursor,
                    )
                    some = await decode_each(part.results, block_of, self._api.host)
            except ReadError as error:
                if not found:
                    raise
                self._unread, self._why = self._unread + 1, error
                return found
            found += some
            cursor = part.next_cursor
            if not part.has_more or not cursor:
                return found


def _has_more(node: NotionBlock) -> bool:
    return node.has_children and node.kind not in _CLOSED


_HOSTS = ("notion.so", "notion.site", "app.notion.com")
_ID = re.compile(r"(?:^|-)([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$", re.IGNORECASE)


def page_id(host: str, parts: SplitResult) -> str | None:
    """Return the id of the page or database at a URL, as a UUID; None if it has none or is not of Notion.

    A page opened beside its list has its id in ``p``; the id in ``v`` is of a view.
    """
    if not any(host == each or host.endswith("." + each) for each in _HOSTS):
        return None
    beside = parse_qs(parts.query).get("p", [""])[0]
    last = parts.path.rstrip("/").rpartition("/")[2]
    found = _ID.search(beside) or _ID.search(last)
    return uuid(found[1]) if found else None


def uuid(text: str) -> str:
    """Return an id in the spelling of the API."""
    plain = text.replace("-", "").lower()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def address(id_: object) -> str:
    """Return the URL of a page, by its id."""
    return f"https://www.notion.so/{str(id_).replace('-', '')}"


VERSION = "2025-09-03"


class NotionApi(SiteApi):
    """The API for one read."""

    def __init__(self, tools: ReadingTools, base: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}", "notion-version": VERSION}
        super().__init__(tools, f"{base}/v1/", headers, _explain)


def _explain(error: ReadError) -> tuple[Message, str] | None:
    if error.cause == "rate":
        return say("Notion asks Tabane to wait: {reason}", reason=error.message), "rate"
    if error.status == 401:
        return say("Notion does not accept the NOTION_API_KEY."), "key"
    if error.status == 403:
        message = say(
            "The integration of the NOTION_API_KEY has no permission to read content. Allow it "
            "in the integration's settings."
        )
        return message, "key"
    if error.status == 404:
        message = say(
            "Notion has nothing there, or the page is not shared with the integration of the "
            "NOTION_API_KEY. Open the page and add the integration under its connections."
        )
        return message, error.cause
    return None


_NESTED = 4
"""Properties within properties, such as the formula of a rollup."""


def plain(texts: Iterable[NotionText]) -> str:
    """Return rich text without marks."""
    return "".join(each.words for each in texts)


def line(texts: Iterable[NotionText]) -> str:
    """Return rich text as one line of Markdown."""
    return one_line(rich(texts))


def rich(texts: Iterable[NotionText]) -> str:
    """Return rich text as Markdown; runs with the same marks are joined."""
    return "".join(_write_run(style, plain(some)) for style, some in groupby(texts, _run_style))


def _rich_texts(value: object) -> list[NotionText]:
    """Return the rich text of a property; none if it is something else."""
    try:
        return msgspec.convert(value, list[NotionText])
    except (msgspec.ValidationError, RecursionError):
        return []


def named(properties: object) -> list[tuple[str, str]]:
    """Return the properties of a page in a database: names and values, without empty ones."""
    if not isinstance(properties, dict):
        return []
    found = ((str(name), value_of(each)) for name, each in properties.items() if _kind_of(each) != "title")
    return [(name, value) for name, value in found if value]


def title(properties: object) -> str:
    """Return the title of a page, which is the one property of this kind that each has."""
    values = properties.values() if isinstance(properties, dict) else ()
    return next(
        (one_line(plain(_rich_texts(each.get("title")))) for each in values if _kind_of(each) == "title"), ""
    )


def value_of(found: object, depth: int = _NESTED) -> str:
    """Return a property as text, "" if it is empty, or nested in more than ``depth`` others."""
    kind = _kind_of(found)
    value = found.get(kind) if isinstance(found, dict) and depth else None
    values = value if isinstance(value, list) else [value]
    if kind in ("rich_text", "title"):
        return line(_rich_texts(value))
    if kind in ("formula", "rollup"):
        return value_of(value, depth - 1)
    if kind == "checkbox" or isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "relation":
        return ", ".join(address(each.get("id", "")) for each in values if isinstance(each, dict))
    return ", ".join(filter(None, (_property_text(each, depth) for each in values)))


def _property_text(value: object, depth: int) -> str:
    """Return a value of a property: a choice, a person, a date, a file, a number."""
    if not isinstance(value, dict):
        return "" if value is None else one_line(str(value))
    if "start" in value:
        return " – ".join(str(value[end]) for end in ("start", "end") if value.get(end))
    if "number" in value:
        prefix, number = value.get("prefix"), value["number"]
        return f"{prefix}-{number}" if prefix else "" if number is None else one_line(str(number))
    name = value.get("name")
    return one_line(str(name)) if name else value_of(value, depth - 1) if _kind_of(value) else ""


def _kind_of(found: object) -> str:
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else ""


def _run_style(each: NotionText) -> tuple[str, str, tuple[str, ...]]:
    """Return the style of a run: kind, link and marks."""
    marks = each.annotations or NotionMarks()
    kind = "equation" if each.type == "equation" else "code" if marks.code else ""
    set_ = ((marks.bold, "**"), (marks.italic, "*"), (marks.strikethrough, "~~"))
    href = each.href or ""
    return (
        kind,
        (f"https://www.notion.so{href}" if href.startswith("/") else href),
        tuple(mark for wanted, mark in set_ if wanted),
    )


def _write_run(style: tuple[str, str, tuple[str, ...]], text: str) -> str:
    kind, link, marks = style
    core = text.strip()
    if not core:
        return text.replace("\n", "  \n")
    before, _, after = text.partition(core)
    if kind == "code":
        core = spans.code(core)
    elif kind == "equation":
        core = f"${core}$"
    else:
        core = spans.inline(core)
    for mark in marks:
        core = f"{mark}{core}{mark}"
    if link:
        address = f"<{link}>" if re.search(r"[\s()]", link) else link
        core = f"[{spans.label(core)}]({address})"
    return (before + core + after).replace("\n", "  \n")


_ITEMS = frozenset({"bulleted_list_item", "numbered_list_item", "to_do", "toggle"})
_NOTHING = frozenset({"breadcrumb", "table_of_contents", "tab_group_placeholder"})
_LANGUAGES = {"plain text": "", "c++": "cpp", "c#": "csharp", "f#": "fsharp", "shell": "sh", "markup": "html"}


def markdown(nodes: Sequence[NotionBlock]) -> str:
    """Return blocks, one below the other: list items without empty lines between them, others with one."""
    text, before, number = "", "", 0
    for node in nodes:
        number = number + 1 if node.kind == "numbered_list_item" else 0
        written = _list_item(f"{number}. ", node) if number else _write_block(node)
        if not written:
            continue
        close = node.kind in _ITEMS and node.kind == before
        text += ("" if not text else "\n" if close else "\n\n") + written
        before = node.kind
    return text


def unwritten(nodes: Sequence[NotionBlock]) -> int:
    """Return the number of blocks that the API does not support."""
    return sum((node.kind == "unsupported") + unwritten(node.inner) for node in nodes)


def odd(nodes: Sequence[NotionBlock]) -> int:
    """Return the number of blocks whose content is not of the known form."""
    return sum(node.odd + odd(node.inner) for node in nodes)


def _write_block(node: NotionBlock) -> str:
    if writing := _WRITING.get(node.kind):
        return writing(node)
    if node.kind in _NOTHING:
        return ""
    return _below(_paragraph_text(node), node)


def _paragraph_text(node: NotionBlock) -> str:
    return spans.lines(rich(node.content.rich_text).strip())


def _below(text: str, node: NotionBlock) -> str:
    """Return text, with the children of the block below it."""
    return "\n\n".join(filter(None, (text, markdown(node.inner))))


def _write_heading(node: NotionBlock) -> str:
    level = min(int(node.kind[-1]) + 1, 6) if node.kind[-1].isdigit() else 2
    said = line(node.content.rich_text)
    return _below(f"{'#' * level} {spans.heading(said)}" if said else "", node)


def _list_item(mark: str, node: NotionBlock) -> str:
    """Return a list item; its children are indented."""
    indent = " " * len(mark)
    inner = markdown(node.inner)
    text = _paragraph_text(node)
    if inner:
        nested = node.inner[0].kind in _ITEMS
        text = f"{text}\n{inner}" if nested and text else _join_parts(text, inner)
    lines = text.split("\n")
    return "\n".join([mark + lines[0], *(indent + each if each else "" for each in lines[1:])]).rstrip()


def _join_parts(text: str, inner: str) -> str:
    return f"{text}\n\n{inner}" if text else inner


def _to_do(node: NotionBlock) -> str:
    mark = "x" if node.content.checked else " "
    return _list_item("- ", node).replace("- ", f"- [{mark}] ", 1)


def _write_quote(node: NotionBlock) -> str:
    return _quote_lines(_below(_paragraph_text(node), node))


def _write_callout(node: NotionBlock) -> str:
    icon = node.content.icon
    sign = (icon.emoji if icon else None) or ""
    return _quote_lines(_below(f"{sign} {_paragraph_text(node)}".strip(), node))


def _quote_lines(text: str) -> str:
    return "\n".join(f"> {each}" if each else ">" for each in text.split("\n")) if text else ""


def _write_code(node: NotionBlock) -> str:
    language = node.content.language or ""
    code = plain(node.content.rich_text)
    caption = line(node.content.caption)
    return _join_parts(fence(code, _LANGUAGES.get(language, language.replace(" ", "-"))), caption).rstrip()


def _write_table(node: NotionBlock) -> str:
    rows = [[spans.cell(line(cell)) for cell in row.content.cells] for row in node.inner]
    if not rows:
        return ""
    width = max(map(len, rows))
    rows = [[*row, *[""] * (width - len(row))] for row in rows]
    if not node.content.has_column_header:
        rows.insert(0, [""] * width)
    rows.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _write_picture(node: NotionBlock) -> str:
    url = _file_url(node)
    return f"![{spans.label(line(node.content.caption))}](<{url}>)" if url else ""


def _write_file(node: NotionBlock) -> str:
    """Return a file, a video or a bookmark as a link with its name."""
    url = _file_url(node)
    name = line(node.content.caption) or spans.inline(node.content.name or "") or url
    return f"[{spans.label(name)}](<{url}>)" if url else name


def _file_url(node: NotionBlock) -> str:
    content = node.content
    urls = (each.url for each in (content, content.external, content.file) if each is not None)
    url = next(filter(None, urls), "")
    return url.replace("<", "%3C").replace(">", "%3E").replace("\n", "")


def _write_child_page(node: NotionBlock) -> str:
    """Return a child page or database as a link; it is not read."""
    sign = "🗃" if node.kind == "child_database" else "📄"
    name = spans.inline(one_line(node.content.title or "Untitled"))
    return f"{sign} [{spans.label(name)}]({address(node.id)})"


def _write_reference(node: NotionBlock) -> str:
    content = node.content
    kind = content.type or ""
    id_ = {"page_id": content.page_id, "database_id": content.database_id}.get(kind, content.comment_id)
    return f"→ [{kind.removesuffix('_id') or 'page'}]({address(id_)})" if id_ else ""


_WRITING: Mapping[str, Callable[[NotionBlock], str]] = {
    **dict.fromkeys(("heading_1", "heading_2", "heading_3", "heading_4"), _write_heading),
    **dict.fromkeys(("bulleted_list_item", "toggle"), lambda node: _list_item("- ", node)),
    "to_do": _to_do,
    "quote": _write_quote,
    "callout": _write_callout,
    "code": _write_code,
    "equation": lambda node: f"$$\n{node.content.expression or ''}\n$$",
    "table": _write_table,
    **dict.fromkeys(("column_list", "column", "synced_block"), lambda node: markdown(node.inner)),
    "image": _write_picture,
    **dict.fromkeys(("video", "file", "pdf", "audio", "bookmark", "embed", "link_preview"), _write_file),
    **dict.fromkeys(("child_page", "child_database"), _write_child_page),
    "link_to_page": _write_reference,
    "divider": lambda node: "---",
    "unsupported": lambda node: "",
}


_SOURCES = 5  # of one database
_NO_PAGE = (400, 404)


class NotionAdapter(SitePages[str]):
    """Pages of Notion through its API. Without a key, the adapter for any page reads them.

    ``keys`` looks up NOTION_API_KEY. Causes of its ReadErrors in addition to those of fetching: key if
    it is missing or not accepted, status 404 if the page is not shared with the integration.
    """

    name, title = "notion", "Notion"
    sample = SiteSample(
        "https://www.notion.so/Notion-Official-83715d7703ee4b8699b5e659a4712dd8",
        "",
        0,
        "NOTION_API_KEY",
        shared=True,
    )

    def __init__(self, keys: KeyLookup = no_keys, base: str = "https://api.notion.com") -> None:
        self._keys, self._base = keys, base

    def place(self, host: str, parts: SplitResult) -> str | None:
        return page_id(host, parts)

    async def page(self, place: str, url: str, tools: ReadingTools) -> Page | None:
        key = self._keys("NOTION_API_KEY")
        if not key:
            raise ReadError(
                say("To read whole Notion pages, set NOTION_API_KEY to the key of an integration."), "key"
            )
        api = NotionApi(tools, self._base, key)
        try:
            found = await api.get(f"pages/{place}", NotionObject)
        except ReadError as error:
            if error.status not in _NO_PAGE:
                raise
            return await _read_database(url, place, api)
        nodes, warnings = await NotionBlockReader(api).of_page(found.id)
        return await asyncio.to_thread(_laid_out, url, found, nodes, warnings)


def _laid_out(
    url: str, found: NotionObject, nodes: Sequence[NotionBlock], warnings: tuple[Message, ...]
) -> Page:
    if count := odd(nodes):
        warnings = (
            *warnings,
            say(
                "{count} {count:block has|blocks have} a form that is not known, and no text here.",
                count=count,
            ),
        )
    if count := unwritten(nodes):
        warnings = (
            *warnings,
            say(
                "{count} {count:block has a type|blocks have types} that Notion's API does not return.",
                count=count,
            ),
        )
    known = facts(dict(named(found.properties)))
    return _page_of(url, found, title(found.properties), known, markdown(nodes), warnings)


async def _read_database(url: str, id_: str, api: NotionApi) -> Page:
    """Return a database: its name and its columns. Its rows would need queries, not only reads."""
    found = await api.get(f"databases/{id_}", NotionObject)
    parts = []
    for source in found.data_sources[:_SOURCES]:
        columns = await api.get(f"data_sources/{quote(source.id, safe='')}", NotionObject)
        parts.append(_write_columns(source.name or "", columns, alone=len(found.data_sources) == 1))
    warning = say("The rows of a database are not read. Read its pages one by one.")
    name = one_line(plain(found.title))
    return _page_of(url, found, name, line(found.description), "\n\n".join(parts), (warning,))


def _write_columns(name: str, source: NotionObject, *, alone: bool) -> str:
    head = "## Columns" if alone or not name else f"## {name}"
    lines = (
        f"- {key} ({each.get('type', '?')})"
        for key, each in source.properties.items()
        if isinstance(each, dict)
    )
    return f"{head}\n\n" + "\n".join(lines)


def _page_of(
    url: str, found: NotionObject, name: str, known: str, body: str, warnings: tuple[Message, ...]
) -> Page:
    return Page(
        url,
        blocks(f"# {name}" if name else "", known, body),
        title=name or None,
        date=found.last_edited_time or found.created_time,
        site=NotionAdapter.title,
        canonical=found.public_url or found.url or None,
        way=NotionAdapter.name,
        share=1.0,
        warnings=warnings,
    )
