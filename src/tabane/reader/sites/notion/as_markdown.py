"""Blocks and rich text of Notion as Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from tabane.reader.formats.text import fence
from tabane.reader.markdown import escaping
from tabane.reader.sites.notion.api import address
from tabane.reader.sites.notion.api_objects import NotionBlock, NotionMarks, NotionText
from tabane.reader.sites.site_markdown import one_line

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
    return "".join(_run(style, plain(some)) for style, some in groupby(texts, _style))


def _texts(value: object) -> list[NotionText]:
    """Return the rich text of a property; none if it is something else."""
    try:
        return msgspec.convert(value, list[NotionText])
    except (msgspec.ValidationError, RecursionError):
        return []


def named(properties: object) -> list[tuple[str, str]]:
    """Return the properties of a page in a database: names and values, without empty ones."""
    if not isinstance(properties, dict):
        return []
    found = ((str(name), value_of(each)) for name, each in properties.items() if _kind(each) != "title")
    return [(name, value) for name, value in found if value]


def title(properties: object) -> str:
    """Return the title of a page, which is the one property of this kind that each has."""
    values = properties.values() if isinstance(properties, dict) else ()
    return next((one_line(plain(_texts(each.get("title")))) for each in values if _kind(each) == "title"), "")


def value_of(found: object, depth: int = _NESTED) -> str:
    """Return a property as text, "" if it is empty, or nested in more than ``depth`` others."""
    kind = _kind(found)
    value = found.get(kind) if isinstance(found, dict) and depth else None
    values = value if isinstance(value, list) else [value]
    if kind in ("rich_text", "title"):
        return line(_texts(value))
    if kind in ("formula", "rollup"):
        return value_of(value, depth - 1)
    if kind == "checkbox" or isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "relation":
        return ", ".join(address(each.get("id", "")) for each in values if isinstance(each, dict))
    return ", ".join(filter(None, (_short(each, depth) for each in values)))


def _short(value: object, depth: int) -> str:
    """Return a value of a property: a choice, a person, a date, a file, a number."""
    if not isinstance(value, dict):
        return "" if value is None else one_line(str(value))
    if "start" in value:
        return _span(value)
    if "number" in value:
        prefix, number = value.get("prefix"), value["number"]
        return f"{prefix}-{number}" if prefix else "" if number is None else one_line(str(number))
    name = value.get("name")
    return one_line(str(name)) if name else value_of(value, depth - 1) if _kind(value) else ""


def _span(date: dict[str, Any]) -> str:
    return " – ".join(str(date[end]) for end in ("start", "end") if date.get(end))


def _kind(found: object) -> str:
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else ""


def _style(each: NotionText) -> tuple[str, str, tuple[str, ...]]:
    """Return the style of a run: kind, link and marks."""
    marks = each.annotations or NotionMarks()
    kind = "equation" if each.type == "equation" else "code" if marks.code else ""
    set_ = ((marks.bold, "**"), (marks.italic, "*"), (marks.strikethrough, "~~"))
    return kind, _link(each.href or ""), tuple(mark for wanted, mark in set_ if wanted)


def _link(href: str) -> str:
    return f"https://www.notion.so{href}" if href.startswith("/") else href


def _run(style: tuple[str, str, tuple[str, ...]], text: str) -> str:
    kind, link, marks = style
    core = text.strip()
    if not core:
        return text.replace("\n", "  \n")
    before, _, after = text.partition(core)
    if kind == "code":
        core = escaping.code(core)
    elif kind == "equation":
        core = f"${core}$"
    else:
        core = escaping.inline(core)
    for mark in marks:
        core = f"{mark}{core}{mark}"
    if link:
        core = f"[{escaping.label(core)}]({_address(link)})"
    return (before + core + after).replace("\n", "  \n")


def _address(url: str) -> str:
    return f"<{url}>" if re.search(r"[\s()]", url) else url


_ITEMS = frozenset({"bulleted_list_item", "numbered_list_item", "to_do", "toggle"})
_NOTHING = frozenset({"breadcrumb", "table_of_contents", "tab_group_placeholder"})
_LANGUAGES = {"plain text": "", "c++": "cpp", "c#": "csharp", "f#": "fsharp", "shell": "sh", "markup": "html"}


def markdown(nodes: Sequence[NotionBlock]) -> str:
    """Return blocks, one below the other: list items without empty lines between them, others with one."""
    text, before, number = "", "", 0
    for node in nodes:
        number = number + 1 if node.kind == "numbered_list_item" else 0
        written = _item(f"{number}. ", node) if number else _block(node)
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


def _block(node: NotionBlock) -> str:
    if writing := _WRITING.get(node.kind):
        return writing(node)
    if node.kind in _NOTHING:
        return ""
    return _below(_paragraph_text(node), node)


def _paragraph_text(node: NotionBlock) -> str:
    return escaping.lines(rich(node.content.rich_text).strip())


def _below(text: str, node: NotionBlock) -> str:
    """Return text, with the children of the block below it."""
    return "\n\n".join(filter(None, (text, markdown(node.inner))))


def _heading(node: NotionBlock) -> str:
    level = min(int(node.kind[-1]) + 1, 6) if node.kind[-1].isdigit() else 2
    said = line(node.content.rich_text)
    return _below(f"{'#' * level} {escaping.heading(said)}" if said else "", node)


def _item(mark: str, node: NotionBlock) -> str:
    """Return a list item; its children are indented."""
    indent = " " * len(mark)
    inner = markdown(node.inner)
    text = _paragraph_text(node)
    if inner:
        nested = node.inner[0].kind in _ITEMS
        text = f"{text}\n{inner}" if nested and text else _joined(text, inner)
    lines = text.split("\n")
    return "\n".join([mark + lines[0], *(indent + each if each else "" for each in lines[1:])]).rstrip()


def _joined(text: str, inner: str) -> str:
    return f"{text}\n\n{inner}" if text else inner


def _to_do(node: NotionBlock) -> str:
    mark = "x" if node.content.checked else " "
    return _item("- ", node).replace("- ", f"- [{mark}] ", 1)


def _quote(node: NotionBlock) -> str:
    return _quoted(_below(_paragraph_text(node), node))


def _callout(node: NotionBlock) -> str:
    icon = node.content.icon
    sign = (icon.emoji if icon else None) or ""
    return _quoted(_below(f"{sign} {_paragraph_text(node)}".strip(), node))


def _quoted(text: str) -> str:
    return "\n".join(f"> {each}" if each else ">" for each in text.split("\n")) if text else ""


def _code(node: NotionBlock) -> str:
    language = node.content.language or ""
    code = plain(node.content.rich_text)
    caption = line(node.content.caption)
    return _joined(fence(code, _LANGUAGES.get(language, language.replace(" ", "-"))), caption).rstrip()


def _table(node: NotionBlock) -> str:
    rows = [[escaping.cell(line(cell)) for cell in row.content.cells] for row in node.inner]
    if not rows:
        return ""
    width = max(map(len, rows))
    rows = [[*row, *[""] * (width - len(row))] for row in rows]
    if not node.content.has_column_header:
        rows.insert(0, [""] * width)
    rows.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _picture(node: NotionBlock) -> str:
    url = _url(node)
    return f"![{escaping.label(line(node.content.caption))}](<{url}>)" if url else ""


def _file(node: NotionBlock) -> str:
    """Return a file, a video or a bookmark as a link with its name."""
    url = _url(node)
    name = line(node.content.caption) or escaping.inline(node.content.name or "") or url
    return f"[{escaping.label(name)}](<{url}>)" if url else name


def _url(node: NotionBlock) -> str:
    content = node.content
    urls = (each.url for each in (content, content.external, content.file) if each is not None)
    url = next(filter(None, urls), "")
    return url.replace("<", "%3C").replace(">", "%3E").replace("\n", "")


def _page(node: NotionBlock) -> str:
    """Return a child page or database as a link; it is not read."""
    sign = "🗃" if node.kind == "child_database" else "📄"
    name = escaping.inline(one_line(node.content.title or "Untitled"))
    return f"{sign} [{escaping.label(name)}]({address(node.id)})"


def _reference(node: NotionBlock) -> str:
    content = node.content
    kind = content.type or ""
    id_ = {"page_id": content.page_id, "database_id": content.database_id}.get(kind, content.comment_id)
    return f"→ [{kind.removesuffix('_id') or 'page'}]({address(id_)})" if id_ else ""


_WRITING: Mapping[str, Callable[[NotionBlock], str]] = {
    **dict.fromkeys(("heading_1", "heading_2", "heading_3", "heading_4"), _heading),
    **dict.fromkeys(("bulleted_list_item", "toggle"), lambda node: _item("- ", node)),
    "to_do": _to_do,
    "quote": _quote,
    "callout": _callout,
    "code": _code,
    "equation": lambda node: f"$$\n{node.content.expression or ''}\n$$",
    "table": _table,
    **dict.fromkeys(("column_list", "column", "synced_block"), lambda node: markdown(node.inner)),
    "image": _picture,
    **dict.fromkeys(("video", "file", "pdf", "audio", "bookmark", "embed", "link_preview"), _file),
    **dict.fromkeys(("child_page", "child_database"), _page),
    "link_to_page": _reference,
    "divider": lambda node: "---",
    "unsupported": lambda node: "",
}
