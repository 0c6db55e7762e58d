"""Hints in a response about its page: its own Markdown, a need of JavaScript, menus. Pure.

Searched in the raw bytes, without parsing, in one pass each; a wrong guess costs one request.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tabane.errors import ReadError
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.guard import joined, target

MARKDOWN = frozenset({"text/markdown", "text/x-markdown"})

_HEAD = 200_000  # bytes in which links and generators are declared
_BODY = 500_000  # bytes in which a page's place for its program is looked for
_TEXTUAL = re.compile(
    r"text/.*|application/(?:.*[+-])?(?:json|xml|javascript|ecmascript|yaml|toml|sql|x-sh|graphql)"
)

# Possessive or bounded, because the input is untrusted; a name is looked for only where one begins.
_LINK = re.compile(rb"<link\b[^>]{1,2000}+>", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""(?<![a-z-])([a-z-]++)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
_IN_HEADER = re.compile(r"<([^<>]*+)>([^,<\"]*+(?:\"[^\"]*+\"[^,<\"]*+)*+)")

# Marks of documentation generators in a page.
_META = re.compile(rb"<meta\b[^>]{1,500}+>", re.IGNORECASE)
_MAKERS = re.compile(
    rb"docusaurus|vitepress|mkdocs|sphinx|gitbook|mintlify|starlight|nextra|docsify|hugo-book|readme\.io|redocly|"
    rb"vuepress|antora",
    re.IGNORECASE,
)
_MARKS_OF_MAKERS = (b"readthedocs", b"data-docusaurus", b"VPContent", b"mintlify")
_SCRIPT = re.compile(rb"<script\b", re.IGNORECASE)
_NOSCRIPT = re.compile(rb"<noscript\b[^>]{0,200}+>", re.IGNORECASE)
_SAID_WITHOUT = 1500  # bytes of text for browsers without scripts
_ASKS = re.compile("javascript|ジャバスクリプト", re.IGNORECASE)
_SHELL = re.compile(
    rb"<(div|main|section)[^>]{0,200}\bid=[\"']?(?:root|app|__next|__nuxt|___gatsby|application|app-root|main-app|svelte|"
    rb"react-root|mount)[\"']?[^>]{0,200}>\s*+(?:<!--(?>.{0,200}?-->)\s*+)*+</\1|"
    rb"<(app-root|ion-app|[a-z]{1,40}-app)\b[^>]{0,500}>\s*+</",
    re.IGNORECASE | re.DOTALL,
)

_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_ONE_LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\[\]\n]{0,200}\](?:\([^()\n]{0,500}\))?){0,500}\]\([^()\n]{0,2000}\)"
)
_MARKS = re.compile(r"[\s\W_]+")
_BETWEEN = re.compile(r"\n(?:[ \t]*\n)+")
_MENU = 3  # links that make a menu
_LABEL = 40  # characters of a label or an introduction


class HtmlHints(NamedTuple):
    """Hints in HTML: it needs scripts, it is documentation, it has its own Markdown."""

    programs: bool
    documents: bool
    offered: str | None


def html_hints(fetched: FetchedResource) -> HtmlHints:
    """Return all of it at once: some milliseconds for a large page."""
    return HtmlHints(wants_programs(fetched.body), documents(fetched.body), offered(fetched))


def is_dump(url: str, fetched: FetchedResource) -> bool:
    """Return whether Markdown was generated from a whole page on request, and is not a file of its own."""
    path = urlsplit(url).path.lower()
    return fetched.media_type in MARKDOWN and not path.endswith((".md", ".markdown", ".mdx", ".txt"))


def is_text(fetched: FetchedResource) -> bool:
    """Return whether this is a text for models, and not the page that a site serves for missing files."""
    start = fetched.body[:500].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    served = fetched.media_type in MARKDOWN or fetched.media_type in ("text/plain", "")
    return (
        served and not start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")) and may_be_text(fetched)
    )


def may_be_text(fetched: FetchedResource) -> bool:
    if fetched.media_type:
        return _TEXTUAL.fullmatch(fetched.media_type) is not None
    return b"\0" not in fetched.body[:4000]


def offered(fetched: FetchedResource) -> str | None:
    """Return the address of the page's Markdown, if the page or its header names one."""
    for address, rest in _IN_HEADER.findall(fetched.headers.get("link", "")):
        if found := _alternate(rest, address, fetched.url):
            return found
    for tag in _LINK.findall(fetched.body[:_HEAD]):
        text = tag.decode("utf-8", "replace")
        attributes = _attributes(text)
        if found := _alternate(text, html.unescape(attributes.get("href", "")), fetched.url):
            return found
    return None


def _alternate(said: str, address: str, base: str) -> str | None:
    attributes = _attributes(said)
    is_alternate = "alternate" in attributes.get("rel", "").lower().split()
    kind = attributes.get("type", "").lower().partition(";")[0].strip()
    if not (is_alternate and kind in MARKDOWN and address):
        return None
    try:
        here, there = target(base), joined(target(base), address)
    except ReadError:
        return None
    return there.url if there.origin == here.origin and there.url != here.url else None


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): a or b or c for name, a, b, c in reversed(_ATTRIBUTE.findall(text))}


def beside(url: str) -> str | None:
    """Return the usual URL of a page's Markdown: ``.md`` in place of ``.html``, or appended to the path."""
    parts = urlsplit(url)
    path = re.sub(r"(?:/index)?\.html?$", "", parts.path).rstrip("/")
    if not path or "." in path.rpartition("/")[2]:
        return None
    return urlunsplit((parts.scheme, parts.netloc, f"{path}.md", "", ""))


def list_of(url: str) -> str:
    """Return llms.txt of a URL's folder: a last segment with a dot is a file, any other a folder."""
    parts = urlsplit(url)
    folder, _, last = parts.path.rpartition("/")
    path = folder if "." in last or not last else f"{folder}/{last}"
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/llms.txt", "", ""))


def documents(body: bytes) -> bool:
    """Return whether a maker of documentation made the page: then its Markdown is its source."""
    head = body[:_HEAD]
    if any(mark in head for mark in _MARKS_OF_MAKERS):
        return True
    return any(b"generator" in tag.lower() and _MAKERS.search(tag) for tag in _META.findall(head))


def wants_programs(body: bytes) -> bool:
    """Return whether HTML looks like a shell that its programs would fill."""
    if _SCRIPT.search(body) is None:
        return False
    body = body[:_BODY]
    if _SHELL.search(body) is not None:
        return True
    return any(_ASKS.search(said.decode("utf-8", "replace")) for said in _without_programs(body))


def _without_programs(body: bytes) -> Iterator[bytes]:
    """Yield the text for browsers without scripts."""
    for begin in _NOSCRIPT.finditer(body):
        said = body[begin.end() : begin.end() + _SAID_WITHOUT]
        end = said.lower().find(b"</noscript")
        if end >= 0:
            yield said[:end]


def outside_links(markdown: str) -> str:
    """Return the Markdown without its links and their texts."""
    return _ONE_LINK.sub("", markdown)


def pruned(markdown: str) -> str:
    """Return a whole page as Markdown without the menus before and after its content, and repeated ones.

    Before the content, blocks of links and the labels around them are removed, up to the first title or text;
    after it, those that no heading or colon announces. A page made of links is not changed.
    """
    blocks = [_MarkdownParagraph(text) for text in _BETWEEN.split(markdown.strip()) if text]
    texts = sum(len(block.text) for block in blocks if not block.links)
    if texts * 4 < len(markdown):
        return markdown
    first, last = _leading(blocks), _trailing(blocks)
    seen: set[str] = set()
    kept = []
    for block in blocks[first:last]:
        if block.links >= _MENU and block.text in seen:
            continue
        seen.add(block.text)
        kept.append(block)
    if len(kept) == len(blocks):
        return markdown
    return "\n\n".join(block.text for block in kept) + "\n"


class _MarkdownParagraph:
    """A block of Markdown. ``links`` is the number of links in a block of links, 0 for other blocks."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = _ONE_LINK.findall(text) if "](" in text else []
        beyond = _MARKS.sub("", _ONE_LINK.sub("", text)) if found else text
        self.links = len(found) if found and len(beyond) <= 3 * len(found) else 0
        self.heading = _HEADING.match(text) is not None
        self.label = (
            not self.heading and len(text) < _LABEL and "\n" not in text and text[-1:] not in ".。:：!?！？"
        )


def _leading(blocks: list[_MarkdownParagraph]) -> int:
    """Return how many blocks before the content go."""
    at = menu = 0
    while at < len(blocks):
        block = blocks[at]
        titles_menu = block.heading and at + 1 < len(blocks) and blocks[at + 1].links >= _MENU
        if not (block.links or block.label or (titles_menu and not block.text.lstrip().startswith("# "))):
            break
        at += 1
        if block.links >= _MENU:
            menu = at
    # Labels are removed only with a menu: without one they are the beginning of the page.
    return at if menu and at < len(blocks) else 0


def _trailing(blocks: list[_MarkdownParagraph]) -> int:
    """Return the index at which the blocks after the content begin."""
    at = end = len(blocks)
    while at > 1:
        block, before = blocks[at - 1], blocks[at - 2]
        if not (block.links or block.label) or before.heading or before.text.endswith((":", "：")):
            break
        at -= 1
        if block.links >= _MENU:
            end = at
    return end
