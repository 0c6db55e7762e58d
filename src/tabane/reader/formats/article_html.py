"""HTML that is content as a whole: of articles, of feeds, mails and books, and MediaWiki's (Parsoid). Pure.

Form: https://www.mediawiki.org/wiki/Specs/HTML. Infoboxes, tables, formulas and images are kept. Navigation
boxes, notices to editors and edit links are not. References and their marks are removed, which would be a
third of a long article; explanatory notes are kept as footnotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from lxml import etree

from tabane.messages import say
from tabane.reader.extraction.hidden_elements import HiddenElementDetector
from tabane.reader.extraction.html_tree import drop, parsed_within_limits
from tabane.reader.extraction.styles.shadow_trees import detach_shadow_trees
from tabane.reader.formats.text import bounded, first_line
from tabane.reader.markdown import markdown
from tabane.reader.page import Page


def whole_page(text: str, url: str) -> Page:
    """Return all of it as Markdown; scripts and styles show nothing."""
    root, limits = parsed_within_limits(text)
    body = root.find("body")
    written, warnings = bounded(markdown([root if body is None else body], url))
    return Page(url, written, way="html", share=1.0, warnings=(*limits, *warnings))


class SeenHtml(NamedTuple):
    """HTML as Markdown, and the number of its parts that readers do not see."""

    markdown: str
    hidden: int


def seen_html(source: str, url: str) -> SeenHtml:
    """Return all that HTML within another format shows. What waits for a script is hidden: none runs.

    Links are absolute against ``url``.
    """
    root, _ = parsed_within_limits(source)
    body = root.find("body")
    body = root if body is None else body
    hidden = drop_hidden(root, body)
    return SeenHtml(markdown([body], url), hidden)


def drop_hidden(root: Element, body: Element) -> int:
    """Remove the elements of a body that readers do not see; return how many of them have text."""
    detector = HiddenElementDetector(root, detach_shadow_trees(root))
    late = set(detector.late)
    todo, count = [body], 0
    while todo:
        for child in list(todo.pop()):
            if not isinstance(child.tag, str):
                continue
            if not detector.hides(child) and child not in late:
                todo.append(child)
                continue
            count += any(str(text).strip() for text in child.itertext("*"))
            # Joining the texts around thousands of removed elements would be quadratic.
            comment = etree.Comment("")
            comment.tail = child.tail
            child.getparent().replace(child, comment)
    return count


Element = Any

_LEFT_OUT = frozenset({
    "ambox", "authority-control", "autres-projets", "bandeau-container", "bandeau-portail",
    "boilerplate-metadata", "catlinks", "dmbox", "mbox-small", "metadata", "mw-editsection",
    "mw-empty-elt", "mw-indicators", "mw-jump-link", "navbar", "navbox", "navbox-container",
    "navbox-styles", "navframe", "noexcerpt-box", "noprint", "portal", "portal-bar", "portalbox",
    "printfooter", "side-box", "sidebar", "sister-bar", "sisterproject", "sistersitebox", "sortkey",
    "stub", "succession-box", "tmbox", "toc", "vertical-navbox",
})  # fmt: skip
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_REFERENCES = frozenset({"mw-references-wrap", "references", "reflist", "mw-references"})
_MARKS = frozenset({"mw-ref", "reference"})
_HEADINGS = ("h2", "h3", "h4", "h5", "h6")


def wiki_page(text: str, url: str) -> Page:
    """Return the article. ``url`` is its public address, and the base of its links."""
    root, limits = parsed_within_limits(text)
    body = root.find("body")
    body = root if body is None else body
    title = first_line(root.findtext(".//title") or "")
    is_list = root.find(".//meta[@property='mw:PageProp/disambiguation']") is not None
    # Notes of a group of their own explain, and are kept; the others name sources.
    groups = (
        each for each in body.iter("ol") if each.get("data-mw-group") and _REFERENCES & _class_names(each)
    )
    kept = frozenset(item.get("id") for each in groups for item in each.iter("li") if item.get("id"))
    for element in list(body.iter()):
        if isinstance(element.tag, str) and _is_left_out(element, kept):
            drop(element)
    for link in body.iter("a"):
        href = link.get("href", "")
        if "#cite_" in href:
            link.set("href", href[href.index("#") :])
    # Sections that are empty now lose their headings, the innermost first.
    for section in reversed(list(body.iter("section"))):
        if not any(text.strip() for text in _below_heading(section)) and section.find(".//img") is None:
            drop(section)
    written, warnings = bounded(markdown([body], url))
    if is_list:
        warnings = (say("The name has several meanings. This page links to an article on each."), *warnings)
    link = root.find(".//link[@rel='dc:isVersionOf']")
    href = link.get("href") if link is not None else None
    return Page(
        url,
        f"# {title}\n\n{written}".strip() if title else written,
        title=title,
        date=_meta_property(root, "dc:modified"),
        lang=root.get("lang") or body.get("lang") or None,
        canonical=f"https:{href}" if href and href.startswith("//") else href,
        way="wiki",
        warnings=(*limits, *warnings),
    )


def _is_left_out(element: Element, kept: frozenset[str]) -> bool:
    names = _class_names(element)
    if names & _LEFT_OUT or element.get("role") == "navigation":
        return True
    if element.tag in ("sup", "span") and names & _MARKS:
        return not any(str(link.get("href", "")).rpartition("#")[2] in kept for link in element.iter("a"))
    if names & _REFERENCES:
        return not any(item.get("id") in kept for item in element.iter("li"))
    if names & {"mw-cite-backlink", "mw-linkback-text"} or element.get("rel") == "mw:referencedBy":
        return True
    style = element.get("style")
    return bool(style and _HIDDEN.search(style)) and element.tag != "math" and element.find(".//math") is None


def _class_names(element: Element) -> frozenset[str]:
    return frozenset(element.get("class", "").lower().split())


def _below_heading(section: Element) -> Iterator[str]:
    yield section.text or ""
    for child in section:
        heads = child.tag in _HEADINGS or "mw-heading" in _class_names(child)
        if not heads and isinstance(child.tag, str) and child.tag not in ("style", "link", "meta"):
            yield "".join(child.itertext("*"))
        yield child.tail or ""


def _meta_property(root: Element, name: str) -> str | None:
    meta = root.find(f".//meta[@property='{name}']")
    return str(meta.get("content")) if meta is not None and meta.get("content") else None
