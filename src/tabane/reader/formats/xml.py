"""XML: feeds (RSS, Atom) and site maps as lists, other documents as source."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from lxml import etree, html

from tabane.messages import Message, say
from tabane.reader.formats.text import LISTED, bounded, fence, first_line
from tabane.reader.markdown import markdown, spans
from tabane.reader.markdown.elements import address
from tabane.reader.page import Page

ROOTS = frozenset({"rss", "feed", "rdf"})
_ENTRIES = 100
_LONG = 4000  # characters of an entry: the rest is at its link
_MARKED = re.compile(r"<(?:/?[a-zA-Z][^<>]*|!--.*?--)>|&(?:#\d+|\w+);")


def feed_page(root: etree._Element, url: str) -> Page:
    """Return the feed, its entries in its order."""
    channel = _first_child(root, "channel")
    top = channel if channel is not None else root
    nodes = (node for node in root.iter() if isinstance(node.tag, str))
    entries = [node for node in nodes if local_name(node) in ("item", "entry")]
    text = _child_text(top, "description") or _child_text(top, "subtitle")
    parts = [spans.lines(spans.inline(" ".join(_without_tags(text).split())))]
    parts += [_entry_markdown(entry, url) for entry in entries[:_ENTRIES]]
    title = first_line(_child_text(top, "title"))
    return Page(
        url,
        "\n\n".join(part for part in parts if part),
        title=title,
        author=first_line(_entry_author(top)),
        date=_entry_date(top),
        site=title,
        lang=_child_text(top, "language") or root.get("{http://www.w3.org/XML/1998/namespace}lang"),
        canonical=address(_entry_address(top), url),
        way="feed",
        media_type="application/atom+xml" if local_name(root) == "feed" else "application/rss+xml",
        warnings=_left_out(len(entries)),
    )


def _left_out(count: int) -> tuple[Message, ...]:
    if count <= _ENTRIES:
        return ()
    return (say("{shown} of {all} {all:entry is|entries are} shown.", shown=_ENTRIES, all=count),)


def _entry_markdown(entry: etree._Element, url: str) -> str:
    title = spans.inline(" ".join(_without_tags(_child_text(entry, "title")).split()))
    where = address(_entry_address(entry), url)
    head = f"[{spans.label(title or where)}]({where})" if where else title
    about = " · ".join(filter(None, (_entry_date(entry), first_line(_entry_author(entry)))))
    parts = (f"## {head}" if head else "", about, _entry_text(entry, where or url))
    return "\n\n".join(part for part in parts if part)


def _entry_text(entry: etree._Element, url: str) -> str:
    """Return what an entry says: its summary, or all of it if there is none, as Markdown."""
    for name in ("description", "summary", "encoded", "content"):
        node = _first_child(entry, name)
        if node is None:
            continue
        source = (
            str(etree.tostring(node, encoding="unicode")) if len(node) else node.text or ""
        )  # XHTML of Atom
        if source.strip():
            text = _convert_entry(source, url)
            if len(text) <= _LONG:
                return text
            at = max(text.rfind("\n\n", 0, _LONG), text.rfind("。", 0, _LONG), text.rfind(". ", 0, _LONG))
            return text[: at + 1 if at > _LONG // 2 else _LONG].rstrip() + " …"
    return ""


def _convert_entry(source: str, url: str) -> str:
    if not _MARKED.search(source):
        return "\n\n".join(
            spans.lines(spans.inline(" ".join(part.split()))) for part in re.split(r"\n\s*\n", source.strip())
        )
    try:
        tree = html.fragment_fromstring(source.replace("\0", ""), create_parent="div")
    except (etree.ParserError, ValueError):
        return ""
    return markdown([tree], url)


def _without_tags(text: str) -> str:
    """Return text without the tags that some put into titles."""
    if "<" not in text and "&" not in text:
        return text
    try:
        return str(html.fragment_fromstring(text, create_parent="div").text_content())
    except (etree.ParserError, ValueError):
        return text


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
        text = _child_text(node, name)
        if re.match(r"\d{4}-\d\d", text):
            return text[:40]
        try:
            when = parsedate_to_datetime(text) if text else None
        except (ValueError, TypeError):
            continue
        if when:
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).isoformat()
    return None


_ADDRESSES = 5000


def xml_page(text: str, url: str) -> Page:
    """Return a page of XML. Entities are not put in and nothing is fetched."""
    root = _parse_root(text)
    if root is None:
        shown, warnings = bounded(text.strip(), LISTED)
        return Page(
            url,
            fence(shown, "xml"),
            way="xml",
            media_type="application/xml",
            warnings=(say("This is not well-formed XML."), *warnings),
        )
    name = local_name(root)
    if name in ROOTS:
        return feed_page(root, url)
    if name in ("urlset", "sitemapindex"):
        return _site_map(root, url)
    if text.strip().count("\n") * 400 > len(text):
        indented = text.strip()
    else:
        etree.indent(root)
        indented = str(etree.tostring(root, encoding="unicode"))
    shown, warnings = bounded(indented, LISTED)
    return Page(url, fence(shown, "xml"), way="xml", media_type="application/xml", warnings=warnings)


def _parse_root(text: str) -> etree._Element | None:
    """Return the root; of a feed that is a little broken too, since many are."""
    data = text.strip().encode("utf-8", "replace")
    for recover in (False, True):
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, recover=recover
        )
        try:
            root = etree.fromstring(data, parser)
        except etree.XMLSyntaxError:
            continue
        if root is not None and (not recover or local_name(root) in ROOTS):
            return root
    return None


def _site_map(root: etree._Element, url: str) -> Page:
    places = [" ".join((place.text or "").split()) for place in root.iter("{*}loc")]
    lines = "\n".join(f"- {place}" for place in places[:_ADDRESSES] if place)
    warnings: tuple[Message, ...] = ()
    if len(places) > _ADDRESSES:
        warnings = (
            say("{shown} of {all} {all:address is|addresses are} shown.", shown=_ADDRESSES, all=len(places)),
        )
    return Page(url, lines, way="xml", media_type="application/xml", warnings=warnings)
