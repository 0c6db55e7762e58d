"""Feeds (RSS, RDF, Atom, JSON Feed) as pages: their entries in their order, with texts and enclosures."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from time import process_time
from typing import Any

from lxml import etree

from tabane.messages import Message, say
from tabane.reader.formats.article_html import seen_html
from tabane.reader.formats.text import bounded, first_line
from tabane.reader.hidden_text import hidden_warnings
from tabane.reader.markdown import spans
from tabane.reader.markdown.elements import address
from tabane.reader.page import Page
from tabane.reader.plain_text import visible_text

ROOTS = frozenset({"rss", "feed", "rdf"})
_ENTRIES = 100
_LONG = 20_000  # characters of an entry: the rest is at its link
_SOURCE = 200_000  # characters of an entry's HTML that are parsed
_SECONDS = 2.5  # of CPU time for the texts of all entries
_ENCLOSURES = 20  # of an entry
_MARKED = re.compile(r"<(?:/?[a-zA-Z][^<>]*|!--.*?--)>|&(?:#\d+|\w+);")
_ITEMS = frozenset({"item", "entry"})
_MEDIA_NAMES = frozenset({"enclosure", "content", "player"})


@dataclass(frozen=True, slots=True)
class _Enclosure:
    """A file of an entry. ``length`` is bytes as text, "" if unknown; ``duration`` as the feed writes it."""

    url: str
    type: str = ""
    length: str = ""
    duration: str = ""

    def line(self) -> str:
        """Return it as an item of a list."""
        length = int(self.length) if self.length.isascii() and self.length.isdecimal() else 0
        about = (self.type, f"{length:,} bytes" if length > 1 else "", self.duration)
        words = ", ".join(spans.inline(" ".join(each.split())[:100]) for each in about if each)
        return f"- <{self.url}>" + (f" ({words})" if words else "")


@dataclass(frozen=True, slots=True)
class _FeedEntry:
    """An entry. ``html`` is its text as HTML, or as plain text without any mark of it."""

    title: str
    where: str
    date: str | None
    author: str | None
    html: str
    enclosures: tuple[_Enclosure, ...] = ()


class _EntryWriter:
    """Writes entries as Markdown within a budget of CPU time. ``hidden`` counts what nobody sees."""

    def __init__(self, url: str) -> None:
        self._url, self._start = url, process_time()
        self.hidden = self.without_text = 0

    def written(self, entry: _FeedEntry) -> str:
        """Return an entry with its heading; without its text if there is no time left."""
        title = spans.inline(_one_line(entry.title))
        where = entry.where
        head = f"[{spans.label(title or where)}]({where})" if where else title
        about = " · ".join(filter(None, (entry.date, entry.author)))
        files = "\n".join(each.line() for each in entry.enclosures)
        parts = (f"## {head}" if head else "", about, self._text(entry.html, where or self._url), files)
        return "\n\n".join(part for part in parts if part)

    def _text(self, source: str, base: str) -> str:
        if not source.strip():
            return ""
        if process_time() - self._start > _SECONDS:
            self.without_text += 1
            return ""
        if _MARKED.search(source[:_SOURCE]) is None:
            text = "\n\n".join(
                spans.lines(spans.inline(" ".join(part.split())))
                for part in re.split(r"\n\s*\n", source[:_SOURCE].strip())
            )
        else:
            text, hidden = seen_html(source[:_SOURCE], base)
            self.hidden += hidden
        if len(text) <= _LONG:
            return text
        at = max(text.rfind("\n\n", 0, _LONG), text.rfind("。", 0, _LONG), text.rfind(". ", 0, _LONG))
        return text[: at + 1 if at > _LONG // 2 else _LONG].rstrip() + " …"


def feed_page(root: etree._Element, url: str) -> Page:
    """Return a feed of XML."""
    channel = _first_child(root, "channel")
    top = channel if channel is not None else root
    entries = [node for node in root.iter() if isinstance(node.tag, str) and local_name(node) in _ITEMS]
    page = Page(
        url,
        "",
        title=first_line(_one_line(_child_html(top, "title"))),
        author=first_line(_entry_author(top)),
        date=_entry_date(top),
        lang=_child_text(top, "language") or root.get("{http://www.w3.org/XML/1998/namespace}lang"),
        canonical=address(_entry_address(top), url),
        media_type="application/atom+xml" if local_name(root) == "feed" else "application/rss+xml",
    )
    about = next((found for name in ("description", "subtitle") if (found := _child_html(top, name))), "")
    return _written_feed(page, about, (_xml_entry(each, url) for each in entries[:_ENTRIES]), len(entries))


def _one_line(text: str) -> str:
    """Return text in one line, without the tags that some put into titles."""
    text = text[:_LONG]
    return " ".join((visible_text(text) if _MARKED.search(text) else text).split())


def _written_feed(page: Page, about: str, entries: Iterable[_FeedEntry], count: int) -> Page:
    writer = _EntryWriter(page.url)
    parts = [spans.lines(spans.inline(_one_line(about))), *map(writer.written, entries)]
    text, cut = bounded("\n\n".join(part for part in parts if part))
    warnings: list[Message] = []
    if count > _ENTRIES:
        warnings.append(say("{shown} of {all} {all:entry is|entries are} shown.", shown=_ENTRIES, all=count))
    if writer.without_text:
        warnings.append(
            say(
                "The feed is too large to be read completely. The text of {count} {count:entry|entries} is "
                "left out.",
                count=writer.without_text,
            )
        )
    warnings += hidden_warnings(writer.hidden)
    return replace(page, markdown=text, site=page.title, way="feed", warnings=(*warnings, *cut))


# -- RSS, RDF and Atom -------------------------------------------------------------------------------


def _xml_entry(entry: etree._Element, url: str) -> _FeedEntry:
    return _FeedEntry(
        _child_html(entry, "title"),
        address(_entry_address(entry), url) or "",
        _entry_date(entry),
        first_line(_entry_author(entry)),
        _entry_html(entry),
        _enclosures(entry, url),
    )


def _entry_html(entry: etree._Element) -> str:
    """Return the fullest text of an entry as HTML: its content, else its summary."""
    for name in ("encoded", "content", "description", "summary", "subtitle"):
        for node in entry:
            # The content of Media RSS is a file, and the one of Atom may be at another address.
            is_file = (node.get("url") or node.get("src")) is not None
            if isinstance(node.tag, str) and local_name(node) == name and not is_file:
                source = _node_html(node)
                if source.strip():
                    return source
    group = _first_child(entry, "group")  # of Media RSS, as YouTube has it
    about = _first_child(group, "description") if group is not None else None
    return html.escape(about.text or "", quote=False) if about is not None else ""


def _node_html(node: etree._Element) -> str:
    """Return what an element holds as HTML: XHTML of Atom, escaped HTML, or escaped plain text."""
    if len(node):
        return str(etree.tostring(node, encoding="unicode", with_tail=False))
    text = node.text or ""
    if node.get("type") in ("text", "text/plain"):
        return html.escape(text, quote=False).replace("\n\n", "<p>")
    return text


def _enclosures(entry: etree._Element, url: str) -> tuple[_Enclosure, ...]:
    """Return the files of an entry: enclosures of RSS and Atom, and media."""
    duration = _child_text(entry, "duration")
    nodes = [each for each in entry if isinstance(each.tag, str)]
    nodes += [
        each for group in nodes if local_name(group) == "group" for each in group if isinstance(each.tag, str)
    ]
    files: dict[str, _Enclosure] = {}
    for node in nodes:
        name = local_name(node)
        linked = name == "link" and node.get("rel") == "enclosure"
        if not linked and name not in _MEDIA_NAMES:
            continue
        where = address(node.get("href") if linked else node.get("url") or node.get("src"), url)
        if where and len(files) < _ENCLOSURES:
            length = node.get("length") or node.get("fileSize") or ""
            seconds = node.get("duration")
            files.setdefault(
                where,
                _Enclosure(where, node.get("type") or "", length, f"{seconds} s" if seconds else duration),
            )
    return tuple(files.values())


def local_name(node: etree._Element) -> str:
    """Return an element's name without its namespace, lower case: a lenient parser keeps names that are
    invalid in XML.
    """
    return str(node.tag).rpartition("}")[2].lower()


def _first_child(node: etree._Element, name: str) -> etree._Element | None:
    return next((child for child in node if isinstance(child.tag, str) and local_name(child) == name), None)


def _child_text(node: etree._Element, name: str) -> str:
    child = _first_child(node, name)
    return " ".join("".join(child.itertext()).split()) if child is not None else ""


def _child_html(node: etree._Element, name: str) -> str:
    """Return the markup of a child that may hold XHTML, else its text."""
    child = _first_child(node, name)
    if child is None or not len(child):
        return _child_text(node, name)
    inner = (str(etree.tostring(each, encoding="unicode")) for each in child)
    return html.escape(child.text or "", quote=False) + "".join(inner)


def _entry_author(node: etree._Element) -> str:
    child = _first_child(node, "author")
    if child is not None and (named := _child_text(child, "name")):
        return named
    return _child_text(node, "creator") or _child_text(node, "author")


def _entry_address(node: etree._Element) -> str:
    """Return the address of an entry: the text of RSS, the ``alternate`` of Atom."""
    links = [child for child in node if isinstance(child.tag, str) and local_name(child) == "link"]
    for link in links:
        if link.get("href") and link.get("rel", "alternate") == "alternate":
            return link.get("href") or ""
    for link in links:
        if link.text and link.text.strip():
            return link.text.strip()
    guid = _first_child(node, "guid")
    return (guid.text or "").strip() if guid is not None and guid.get("isPermaLink") != "false" else ""


def _entry_date(node: etree._Element) -> str | None:
    """Return a date of RSS or Atom as ISO 8601."""
    for name in ("published", "pubdate", "date", "issued", "updated", "lastbuilddate", "modified"):
        if date := _iso_date(_child_text(node, name)):
            return date
    return None


def _iso_date(text: str) -> str | None:
    """Return a date of ISO 8601 or of mail (RFC 5322) as ISO 8601; None for anything else."""
    if re.match(r"\d{4}-\d\d", text):
        return text[:40]
    try:
        when = parsedate_to_datetime(text) if text else None
    except (ValueError, TypeError):
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).isoformat() if when else None


# -- JSON Feed ---------------------------------------------------------------------------------------


def json_feed_page(feed: Mapping[str, Any], url: str) -> Page:
    """Return a feed of JSON (https://www.jsonfeed.org/version/1.1/).

    Values of another type than the format says count as missing.
    """
    items = _objects(feed, "items")
    page = Page(
        url,
        "",
        title=first_line(_string(feed, "title")),
        author=_json_author(feed),
        lang=_string(feed, "language") or None,
        canonical=address(_string(feed, "home_page_url"), url),
        media_type="application/feed+json",
    )
    about = _string(feed, "description")
    return _written_feed(page, about, (_json_entry(each, url) for each in items[:_ENTRIES]), len(items))


def _json_entry(item: Mapping[str, Any], url: str) -> _FeedEntry:
    text = _string(item, "content_text") or _string(item, "summary")
    return _FeedEntry(
        _string(item, "title"),
        address(_string(item, "url") or _string(item, "external_url"), url) or "",
        _iso_date(_string(item, "date_published") or _string(item, "date_modified")),
        _json_author(item),
        _string(item, "content_html") or html.escape(text, quote=False),
        tuple(
            _Enclosure(
                where,
                _string(each, "mime_type"),
                _number(each, "size_in_bytes"),
                f"{seconds} s" if (seconds := _number(each, "duration_in_seconds")) else "",
            )
            for each in _objects(item, "attachments")[:_ENCLOSURES]
            if (where := address(_string(each, "url"), url))
        ),
    )


def _json_author(value: Mapping[str, Any]) -> str | None:
    names = [_string(each, "name") for each in _objects(value, "authors")[:20]]
    if isinstance(author := value.get("author"), dict):  # of version 1
        names.append(_string(author, "name"))
    return first_line(", ".join(name for name in names if name))


def _string(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _number(value: Mapping[str, Any], name: str) -> str:
    number = value.get(name)
    return str(int(number)) if isinstance(number, int | float) and 0 < number < 1e15 else ""


def _objects(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = value.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
