"""Plain text, source code and Markdown as pages, and limits for pages of all types."""

from __future__ import annotations

import html
import re
from dataclasses import replace

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.hidden_text import seen_markup
from tabane.reader.page import Page

LONGEST = 4_000_000
"""Characters of a page: the rest is cut, with a warning."""

LISTED = 200_000
"""Characters of a table of rows, of JSON or XML: data to look at, not to read."""


def broken(what: Message | str, reason: object) -> ReadError:
    """Return the error for bytes that are not of their declared type."""
    if not isinstance(reason, Message):
        reason = " ".join(str(reason).split())[:200] or type(reason).__name__
    return ReadError(say("The {what} cannot be read: {reason}", what=what, reason=reason), "broken")


def too_large(what: Message | str, size: object, limit: object) -> ReadError:
    """Return the error for content that is too large."""
    return ReadError(
        say(
            "The {what} is too large to read: {size}; the limit is {limit}.",
            what=what,
            size=size,
            limit=limit,
        ),
        "large",
    )


def bounded(text: str, limit: int = LONGEST) -> tuple[str, tuple[Message, ...]]:
    """Return text up to the limit, cut at a line, with a warning about what was cut."""
    if len(text) <= limit:
        return text, ()
    at = text.rfind("\n", limit - limit // 10, limit)
    kept = text[: at if at > 0 else limit]
    return kept, (
        say(
            "Only the first {kept} of {all} {all:character is|characters are} shown.",
            kept=len(kept),
            all=len(text),
        ),
    )


def fence(text: str, language: str) -> str:
    """Return a listing of code around any text."""
    marks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"


def first_line(text: str, longest: int = 200) -> str | None:
    """Return text as a title: one line, without entities."""
    return " ".join(html.unescape(text).split())[:longest] or None


_FRONT = re.compile(r"\A---[ \t]*\n(.{0,20000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
_FIELD = re.compile(r"^([A-Za-z][\w-]{0,40})[ \t]*:[ \t]*(.*)$")
_TITLE = re.compile(r"^ {0,3}#[ \t]+(.+?)[ \t]*#*[ \t]*$", re.M)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_KNOWN = {
    "title": "title",
    "author": "author",
    "authors": "author",
    "date": "date",
    "published": "date",
    "lang": "lang",
    "language": "lang",
    "canonical": "canonical",
    "canonical_url": "canonical",
    "site": "site",
}


def unix(text: str) -> str:
    """Return lines that end in one newline, without control characters; a form feed is an empty line."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n")
    return _CONTROL.sub("", text)


def plain(text: str, url: str) -> Page:
    """Return plain text, unchanged."""
    text, warnings = bounded(unix(text).strip("\n"))
    return Page(url, text, way="plain", media_type="text/plain", warnings=warnings)


def code(text: str, url: str, language: str) -> Page:
    """Source code, as a listing."""
    text, warnings = bounded(unix(text).strip("\n"))
    return Page(url, fence(text, language), way="plain", media_type="text/plain", warnings=warnings)


def marked(text: str, url: str) -> Page:
    """Return Markdown, unchanged; its front matter becomes fields of the page."""
    text = unix(text)
    front = _FRONT.match(text)
    body = text[front.end() :] if front else text
    body, warnings = bounded(body.strip("\n"))
    page = Page(url, body, way="markdown", media_type="text/markdown", warnings=warnings)
    if front:
        page = _with_front_matter(page, front[1])
    if page.title is None and (title := _TITLE.search(seen_markup(body[:5000]).markdown)):
        page = replace(page, title=first_line(re.sub(r"[*_`]|\[([^\]]*)\]\([^)]*\)", r"\1", title[1])))
    return page


def _with_front_matter(page: Page, front: str) -> Page:
    """Return the page with the single-value fields of its front matter; other YAML is ignored."""
    fields: dict[str, str] = {}
    last = ""
    for line in front.split("\n"):
        if match := _FIELD.match(line):
            last = _KNOWN.get(match[1].lower(), "")
            value = _front_value(match[2])
        elif line.startswith(("- ", "  - ")) and last == "author":
            value = _front_value(line.strip()[2:])
        else:
            continue
        if last and value:
            fields[last] = f"{fields[last]}, {value}" if last in fields else value
    return replace(
        page,
        title=fields.get("title"),
        author=fields.get("author"),
        date=fields.get("date"),
        lang=fields.get("lang"),
        site=fields.get("site"),
        canonical=fields.get("canonical"),
    )


def _front_value(text: str) -> str:
    text = text.strip()
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        text = text[1:-1]
    elif text.startswith("[") and text.endswith("]"):
        text = ", ".join(_front_value(part) for part in text[1:-1].split(","))
    else:
        text = re.sub(r"\s+#.*$", "", text)
    return text[:500] if text not in ("|", ">", "null", "~") else ""
