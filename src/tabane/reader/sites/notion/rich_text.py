"""Rich text and properties of Notion as Markdown. Pure, and tolerant of any input."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from tabane.reader.markdown import escaping
from tabane.reader.sites.notion.api import address

_MARKS = (("bold", "**"), ("italic", "*"), ("strikethrough", "~~"))


def plain(texts: object) -> str:
    """Rich text as it reads, without marks."""
    return "".join(_said(each) for each in _items(texts))


def line(texts: object) -> str:
    """Rich text as one line of Markdown."""
    return " ".join(rich(texts).split())


def rich(texts: object) -> str:
    """Rich text as Markdown: runs that are marked alike are one."""
    runs = ((_style(each), each) for each in _items(texts))
    return "".join(
        _run(style, [each for _, each in some]) for style, some in groupby(runs, key=lambda run: run[0])
    )


def named(properties: object) -> list[tuple[str, str]]:
    """Return what is known of a page in a database: names and values, those that are empty left out."""
    if not isinstance(properties, dict):
        return []
    found = ((str(name), value_of(each)) for name, each in properties.items() if _kind(each) != "title")
    return [(name, value) for name, value in found if value]


def title(properties: object) -> str:
    """Return the title of a page, which is the one property of this kind that each has."""
    values = properties.values() if isinstance(properties, dict) else ()
    return next((_one_line(plain(each.get("title"))) for each in values if _kind(each) == "title"), "")


def value_of(found: object) -> str:
    """Return a property as text, "" where it is empty."""
    kind = _kind(found)
    value = found.get(kind) if isinstance(found, dict) else None
    if kind in ("rich_text", "title"):
        return line(value)
    if kind in ("formula", "rollup"):
        return value_of(value)
    if kind == "checkbox" or isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "relation":
        return ", ".join(address(each.get("id", "")) for each in _items(value))
    if isinstance(value, list):
        return ", ".join(filter(None, (_short(each) for each in value)))
    return _short(value)


def _short(value: object) -> str:
    """Return a value of a property: a choice, a person, a date, a file, a number."""
    if not isinstance(value, dict):
        return "" if value is None else _one_line(str(value))
    if "start" in value:
        return _span(value)
    if "number" in value:
        prefix = value.get("prefix")
        return f"{prefix}-{value['number']}" if prefix else _short(value["number"])
    name = value.get("name")
    if name:
        return _one_line(str(name))
    return value_of(value) if isinstance(value.get("type"), str) else ""


def _span(date: dict[str, Any]) -> str:
    return " – ".join(str(date[end]) for end in ("start", "end") if date.get(end))


def _kind(found: object) -> str:
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else ""


def _items(texts: object) -> list[dict[str, Any]]:
    return [each for each in texts if isinstance(each, dict)] if isinstance(texts, list) else []


def _style(each: dict[str, Any]) -> tuple[str, str, tuple[bool, ...]]:
    """Return what makes runs differ: kind, link and marks."""
    marks = each.get("annotations")
    marks = marks if isinstance(marks, dict) else {}
    kind = "equation" if _kind(each) == "equation" else "code" if marks.get("code") else ""
    return kind, _link(each), tuple(bool(marks.get(name)) for name, _ in _MARKS)


def _link(each: dict[str, Any]) -> str:
    href = each.get("href")
    if not isinstance(href, str) or not href:
        return ""
    return f"https://www.notion.so{href}" if href.startswith("/") else href


def _run(style: tuple[str, str, tuple[bool, ...]], texts: Iterable[dict[str, Any]]) -> str:
    kind, link, marks = style
    text = "".join(_said(each) for each in texts)
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
    for wanted, (_, mark) in zip(marks, _MARKS, strict=True):
        core = f"{mark}{core}{mark}" if wanted else core
    if link:
        core = f"[{escaping.label(core)}]({_address(link)})"
    return (before + core + after).replace("\n", "  \n")


def _address(url: str) -> str:
    return f"<{url}>" if re.search(r"[\s()]", url) else url


def _said(each: dict[str, Any]) -> str:
    """Return the words of one piece; an equation is its source, a date its days."""
    if _kind(each) == "equation" and isinstance(each.get("equation"), dict):
        return str(each["equation"].get("expression") or each.get("plain_text") or "")
    text = each.get("plain_text")
    if isinstance(text, str):
        return text
    inner = each.get("text")
    return str(inner.get("content", "")) if isinstance(inner, dict) else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
