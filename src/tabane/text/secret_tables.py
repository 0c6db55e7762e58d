"""Secrets whose names stand apart from them: in tags, in the heads of tables and columns, in pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.personal_numbers import Span
from tabane.text.secret_forms import may_name_secrets
from tabane.text.secret_names import SecretNames

_TAG = lazy_pattern(r"<[A-Za-z][^<>]{1,800}>")
_TAG_NAME = lazy_pattern(
    r"""\b(?:key|name|id|type|k|n|label|property|param)\s{0,4}=\s{0,4}(?:"([^"]{1,100})"|'([^']{1,100})'|([^\s"'<>]{1,100}))""",
    re.IGNORECASE,
)
_TAG_VALUE = lazy_pattern(
    r"""\b(?:value|val|v|content|default)\s{0,4}=\s{0,4}(?:"([^"]+)"|'([^']+)'|([^\s"'<>]+))""", re.IGNORECASE
)
_PLIST = lazy_pattern(r"<(?:key|name)>([^<>]{1,100})</(?:key|name)>\s{0,40}<(\w{1,20})>([^<>]{1,4000})")
_PAIR = lazy_pattern(
    r"""\b(?:name|key|field|header|variable|env)["']?\s{0,4}[:=]\s{0,4}["']?([\w .-]{1,60}?)["']?"""
    r"""\s{0,4}[,;]?\s{1,40}["']?"""
    r"""(?:value|val)["']?\s{0,4}[:=]\s{0,4}["']?([^\s"',;}\]]+)""",
)


_BLOCK = lazy_pattern(
    r"\b(?:variable|output|secret|resource|ephemeral)\s{1,4}\"([^\"\n]{1,80})\"[^{}\n]{0,80}\{[^{}]{0,400}?"
    r"\b(?:default|value)\s{0,20}=\s{0,4}\"([^\"\n]{1,400})\""
)
_INSERT = lazy_pattern(
    r"(?i)\(([^()]{1,500})\)\s{1,10}values?\s{0,10}((?:\([^()]{1,2000}\)[\s,]{0,10}){1,100})"
)
_ROW = lazy_pattern(r"\(([^()]*)\)")
_FORM_PART = lazy_pattern(
    r"name=\\?\"([^\"\r\n\\]{1,100})\\?\"[^\r\n]{0,200}+"
    r"(?:\r?\n[^\r\n]{1,200}+){0,4}\r?\n[ \t]{0,20}\r?\n[ \t]{0,20}([^\r\n]{1,2000})",
    re.IGNORECASE,
)


def secrets_of_tables(text: str, low: str, names: SecretNames) -> Iterator[Span]:
    """Yield secrets whose name is in a tag, a head or a member before. ``low`` is the text in lower case."""
    if "<" in text:
        yield from _markup(text, names)
    if "name=" in low:
        yield from (found.span(2) for found in _FORM_PART.finditer(text) if found[1] in names)
    if "{" in text and "=" in text:
        yield from (found.span(2) for found in _BLOCK.finditer(text) if found[1] in names)
    if "values" in low and "(" in low:
        yield from _inserted(text, names)
    if "val" in low:
        for found in _PAIR.finditer(low):
            if text[slice(*found.span(1))].strip() in names:
                yield found.span(2)
    yield from secrets_of_columns(text, names)


def _markup(text: str, names: SecretNames) -> Iterator[Span]:
    for tag in _TAG.finditer(text):
        named = any(one[one.lastindex or 1] in names for one in _TAG_NAME.finditer(tag[0]))
        if named:
            value = _TAG_VALUE.search(tag[0])
            if value:
                group = value.lastindex or 1
                yield tag.start() + value.start(group), tag.start() + value.end(group)
            elif not tag[0].endswith("/>") and (
                inner := re.compile(r"\s{0,20}([^<>\s][^<>]{0,4000})").match(text, tag.end())
            ):
                yield inner.span(1)
    for found in _PLIST.finditer(text):
        if found[1] in names:
            yield found.span(3)


_CELL = re.compile(r'\s*("(?:[^"]|"")*"|[^"]*)\s*')
_SEPARATORS = ("|", "\t", ";", ",")
_HEAD_CELL = re.compile(r"[\w .-]{1,40}")


def secrets_of_columns(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield the cells of columns with a secret name, in Markdown tables and CSV."""
    if "\n" not in text:
        return
    columns: list[int] = []
    separator, count, at = "", 0, 0
    for line in text.splitlines(keepends=True):
        if not separator or line.count(separator) != count:
            separator, count, columns = next(
                (
                    (each, line.count(each), _header(line, each, names))
                    for each in _SEPARATORS
                    if _is_header(line, each)
                ),
                ("", 0, []),
            )
        elif columns and (separator != "|" or not re.fullmatch(r"[\s|:-]+", line)):
            cells = _cells(line, separator)
            for start, end in (cells[column] for column in columns):
                if end > start:
                    yield at + start, at + end
        elif not columns and separator != "|" and _is_header(line, separator):
            columns = _header(line, separator, names)
        at += len(line)


def _is_header(line: str, separator: str) -> bool:
    if separator not in line or len(line) > 2000:
        return False
    heads = [line[slice(*cell)] for cell in _cells(line, separator)]
    heads = heads[1:-1] if separator == "|" else heads
    return len(heads) > (separator == ",") and all(
        _HEAD_CELL.fullmatch(head) and len(head.split()) <= 3 for head in heads
    )


def _header(line: str, separator: str, names: SecretNames) -> list[int]:
    if not may_name_secrets(line):
        return []
    heads = [line[slice(*cell)] for cell in _cells(line, separator)]
    return [at for at, head in enumerate(heads) if head in names and (head.isascii() or len(head) <= 12)]


def _inserted(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield the values of secret columns that a statement in SQL inserts."""
    for found in _INSERT.finditer(text):
        columns = [at for at, head in enumerate(found[1].split(",")) if head.strip(" \t\n`\"[]'") in names]
        for row in _ROW.finditer(text, found.start(2), found.end(2)) if columns else ():
            cells = _cells(row[1], ",")
            for column in columns:
                if column < len(cells):
                    yield row.start(1) + cells[column][0], row.start(1) + cells[column][1]


def _cells(line: str, separator: str) -> list[Span]:
    """Return the spans of the cells of a line, without blanks and quotation marks around them."""
    spans: list[Span] = []
    at = 0
    for part in line.rstrip("\r\n").split(separator):
        inner = part.strip(" \t\"`*'")
        start = at + (part.index(inner) if inner else 0)
        spans.append((start, start + len(inner)))
        at += len(part) + 1
    return spans
