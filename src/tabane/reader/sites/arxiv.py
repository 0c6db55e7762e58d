"""Papers of arXiv: metadata of /abs, text of /html and /pdf."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import SplitResult
from xml.etree import ElementTree

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import (
    ReadingTools,
    SitePages,
    SiteSample,
    UnexpectedAnswer,
    blocks,
    facts,
    one_line,
    query,
)

_PATH = re.compile(
    r"/(abs|pdf|html)/((?:\d{4}\.\d{4,5}|[a-z-]{2,20}(?:\.[A-Z]{2})?/\d{7})(?:v\d{1,3})?)(?:\.pdf)?/?"
)
_HOSTS = frozenset({"arxiv.org", "www.arxiv.org", "export.arxiv.org", "www.export.arxiv.org"})
_LARGEST = 1_000_000  # bytes of the feed of one paper, with all its authors
_ATOM = "{http://www.w3.org/2005/Atom}"
_OWN = "{http://arxiv.org/schemas/atom}"


@dataclass(frozen=True, slots=True)
class ArxivPaper:
    """Metadata of a paper; ``categories`` begin with the primary one."""

    title: str
    authors: Sequence[str]
    abstract: str
    published: str
    updated: str
    categories: Sequence[str]
    comment: str
    journal: str
    doi: str


class ArxivAdapter(SitePages[tuple[str, str]]):
    """Papers of arXiv. For /abs, metadata and abstract: one request. For /html and /pdf, the text too: from
    the HTML if there is one, because it has formulas and tables, else from the PDF.
    """

    name, title = "arxiv", "arXiv"
    sample = SiteSample("https://arxiv.org/abs/1706.03762", "Attention Is All You Need", 800)

    def __init__(self, base: str = "https://arxiv.org", api: str = "https://export.arxiv.org") -> None:
        self._base, self._api = base, api

    def place(self, host: str, parts: SplitResult) -> tuple[str, str] | None:
        found = _PATH.fullmatch(parts.path) if host in _HOSTS else None
        return (found[1], found[2]) if found else None

    async def page(self, place: tuple[str, str], url: str, tools: ReadingTools) -> Page | None:
        kind, id_ = place
        if kind == "abs":
            return _page_of(id_, await self._read_paper(id_, tools), None)
        try:
            paper = await self._read_paper(id_, tools)
        except ReadError as error:
            text = await self._text(id_, tools)
            warning = say("The metadata of the paper could not be read: {reason}", reason=error.message)
            return replace(text, way=self.name, site=self.title, warnings=(*text.warnings, warning))
        return _page_of(id_, paper, await self._text(id_, tools))

    async def _read_paper(self, id_: str, tools: ReadingTools) -> ArxivPaper:
        where = query(f"{self._api}/api/query", id_list=id_, max_results=1)
        fetched = await tools.fetcher.fetch(where, accept="application/atom+xml")
        try:
            paper = await asyncio.to_thread(paper_of, fetched.body)
        except ValueError as error:
            raise UnexpectedAnswer(self.title, error) from None
        if paper is None:
            raise ReadError(say("arXiv has no paper {id}.", id=id_), "status", status=404)
        return paper

    async def _text(self, id_: str, tools: ReadingTools) -> Page:
        """Return the text by its HTML, else by its PDF."""
        try:
            found = await tools.fetcher.fetch(f"{self._base}/html/{id_}", accept="text/html")
            page = await tools.converting.page(
                found.body, f"https://arxiv.org/html/{id_}", "text/html", found.charset
            )
            if page.markdown.strip():
                return page
        except ReadError as error:
            if error.status != 404 and error.cause not in ("empty", "broken"):
                raise
        found = await tools.fetcher.fetch(f"{self._base}/pdf/{id_}", accept="application/pdf")
        return await tools.converting.page(
            found.body, f"https://arxiv.org/pdf/{id_}", found.media_type, found.charset, name=f"{id_}.pdf"
        )


def paper_of(body: bytes) -> ArxivPaper | None:
    """Return the first entry of an arXiv feed; None if the feed is empty or reports an error.

    Raises ValueError if it is not a feed, declares entities, or is too long for one paper.
    """
    if len(body) > _LARGEST:
        raise ValueError(f"{len(body):,} bytes for one paper")
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body or b"\0" in body:
        raise ValueError("a document type, or not UTF-8")
    try:
        feed = ElementTree.fromstring(body)
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(error) from None
    if feed.tag != f"{_ATOM}feed":
        raise ValueError("not a feed")
    entry = feed.find(f"{_ATOM}entry")
    if entry is None or "/api/errors" in _text(entry, f"{_ATOM}id") or not _text(entry, f"{_ATOM}title"):
        return None
    categories = [each.get("term", "") for each in entry.findall(f"{_ATOM}category")]
    first = entry.find(f"{_OWN}primary_category")
    names = [first.get("term", "")] if first is not None else []
    return ArxivPaper(
        title=_text(entry, f"{_ATOM}title"),
        authors=[_text(each, f"{_ATOM}name") for each in entry.findall(f"{_ATOM}author")],
        abstract=_text(entry, f"{_ATOM}summary"),
        published=_text(entry, f"{_ATOM}published"),
        updated=_text(entry, f"{_ATOM}updated"),
        categories=list(dict.fromkeys(filter(None, (*names, *categories)))),
        comment=_text(entry, f"{_OWN}comment"),
        journal=_text(entry, f"{_OWN}journal_ref"),
        doi=_text(entry, f"{_OWN}doi"),
    )


def _text(element: ElementTree.Element, name: str) -> str:
    return one_line(element.findtext(name))


def _page_of(id_: str, paper: ArxivPaper, text: Page | None) -> Page:
    known = {
        "Authors": ", ".join(paper.authors),
        "Published": paper.published,
        "Updated": paper.updated if paper.updated != paper.published else "",
        "Categories": ", ".join(paper.categories),
        "Comment": paper.comment,
        "Journal": paper.journal,
        "DOI": f"https://doi.org/{paper.doi}" if paper.doi else "",
        "Text": f"https://arxiv.org/html/{id_} (HTML, if any), https://arxiv.org/pdf/{id_} (PDF)",
    }
    home = f"https://arxiv.org/abs/{id_}"
    page = text or Page(home, "", share=1.0)
    return replace(
        page,
        markdown=blocks(
            f"# {paper.title}",
            facts(known),
            f"## Abstract\n\n{paper.abstract}",
            *(("---", text.markdown) if text is not None else ()),
        ),
        title=paper.title,
        author=", ".join(paper.authors) or None,
        date=paper.published or None,
        site=ArxivAdapter.title,
        canonical=home,
        way=ArxivAdapter.name,
    )
