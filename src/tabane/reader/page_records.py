"""Records of a cached page, a head with its metadata and its passages, and the search in them.

The text of a page is joined from its passages by the offsets in the head. The other passages do not store
their position: a passage that is unchanged when the page is read again is the same record, and keeps its
vectors. The head is also the first passage: a separate head without a text would lower the average length of
texts and make words look rarer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tabane.messages import Message
from tabane.reader.hidden_text import without_links
from tabane.reader.page import PAGE, PART, PASSAGES, SPACES, TEXT, TITLE, Page
from tabane.search.chunking import Chunk, Measure, chunks
from tabane.search.engine import Collection
from tabane.search.pipeline import CollectionSource, RankedRecord, records_of
from tabane.search.records import Record
from tabane.search.source import HitCard, Reference, SearchHit

TOTAL = "#total"
"""The key of the record that says how many bytes all pages take."""

_LONGEST_KEY = 900  # bytes of a URL that are used in a key unchanged


class PassageSpan(NamedTuple):
    """The position of a passage in the text."""

    key: str
    start: int
    end: int


class PageHead(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a page, without its text.

    ``facts`` are fields of :class:`~tabane.reader.page.Page`, ``warnings`` its warnings as templates with
    their fields; ``digest`` identifies the text. ``asked`` are the keys of other URLs that lead to this page.
    ``size`` counts bytes of all records, and of the vectors that they have or will have.
    """

    facts: dict[str, Any]
    warnings: list[tuple[str, dict[str, Any]]]
    checked: float
    validators: tuple[str, str | None, str | None, str | None] | None
    digest: str
    size: int
    pieces: list[PassageSpan]
    asked: list[str] = []


_FACTS = ("url", "title", "author", "date", "site", "lang", "canonical", "way", "share", "media_type")


def head_key(url: str, raw: bool = False) -> str:
    """Return the key of a page by its URL, which is normalized and so ASCII."""
    return f"{'<' if raw else '='}{_shorten_url(url)}"


def asked_key(url: str, raw: bool = False) -> str:
    """Return the key of the record that maps a URL to its page."""
    return f"{'>' if raw else '@'}{_shorten_url(url)}"


def _shorten_url(url: str) -> str:
    return url if len(url) <= _LONGEST_KEY else f"{url[:_LONGEST_KEY]}#{digest(url)}"


_heads = msgspec.json.Decoder(PageHead)


def head_of(record: Record) -> PageHead:
    """Return the head of a page from its record."""
    return _heads.decode(record.payload)


def facts_of(page: Page) -> dict[str, Any]:
    """Return the metadata of a page as JSON, without missing values."""
    return {name: value for name in _FACTS if (value := getattr(page, name)) is not None}


def page_of(head: PageHead, text: str) -> Page:
    """Return the page with the metadata of ``head`` and this Markdown."""
    warnings = tuple(message_of(template, fields) for template, fields in head.warnings)
    return Page(**head.facts, markdown=text, warnings=warnings)


def said(message: Message) -> tuple[str, dict[str, Any]]:
    """Return a message as JSON: its template and fields, messages within it likewise."""
    fields = {
        name: list(said(value))
        if isinstance(value, Message)
        else value
        if isinstance(value, int | float)
        else str(value)
        for name, value in message.fields.items()
    }
    return message.template, fields


def message_of(template: str, fields: Mapping[str, Any]) -> Message:
    whole = {name: message_of(*value) if isinstance(value, list) else value for name, value in fields.items()}
    return Message(template, **whole)


class PagePassages(NamedTuple):
    """A page in passages: their positions, the texts of the first, the records of the others by key."""

    pieces: list[PassageSpan]
    first: dict[str, str]
    records: dict[str, Record]


def cut(page: Page, key: str, measure: Measure, *, raw: bool) -> PagePassages:
    """Return the passages of a page whose head has this key. Raw pages are not searchable: their head has no
    text.
    """
    text = page.markdown
    if raw:  # it is cached for paging, not for search
        spans = [Chunk(at, min(at + 200_000, len(text)), ()) for at in range(0, len(text), 200_000)]
    else:
        spans = chunks(text, "markdown", measure)
    pieces, records = [], {}
    seen: Counter[str] = Counter()
    for span in spans:
        record = _passage_record(page, key, span, seen, raw)
        pieces.append(PassageSpan(record.key, span.start, span.end))
        records[record.key] = record
    if raw or not pieces:
        return PagePassages(pieces, {}, records)
    first = records.pop(pieces[0].key)
    return PagePassages([pieces[0]._replace(key=key), *pieces[1:]], first.texts, records)


def _passage_record(page: Page, head: str, span: Chunk, seen: Counter[str], raw: bool) -> Record:
    text = page.markdown[span.start : span.end]
    if raw:
        key = f"{digest(head)}:{span.start}:{digest(text)}"
        return Record(key=key, fields={PART: "source", PAGE: head}, payload=text.encode())
    headings = [" ".join(each.split())[:200] for each in span.headings[:8]]
    title = " › ".join(dict.fromkeys(filter(None, (page.title, *headings))))
    content = digest(f"{title}\0{text}")
    seen[content] += 1
    key = f"{digest(head)}:{content}:{seen[content]}"
    return Record(key=key, texts={TITLE: title, TEXT: text}, fields={PART: "passage", PAGE: head})


def together(pieces: Sequence[PassageSpan], records: Sequence[Record | None]) -> str | None:
    """Return the text of a page from its passages in order, with the head; None if one is missing."""
    parts: list[str] = []
    at = 0
    for piece, record in zip(pieces, records, strict=True):
        if record is None:
            return None
        text = record.texts[TEXT] if TEXT in record.texts else record.payload.decode()
        parts.append(text[at - piece.start :])
        at = piece.end
    return "".join(parts)


def meaning(record: Record) -> str:
    """Return the text of a passage to embed: its headings, then its text without the addresses of links."""
    return "\n".join(filter(None, (record.texts.get(TITLE), without_links(record.texts.get(TEXT, "")))))


def digest(text: str) -> str:
    """Return a short hash of a text, to compare copies of a page."""
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


class PageMatch(NamedTuple):
    """A page by its URL, with its best passage."""

    url: str
    passage: Record


class PageSearch(CollectionSource[PageMatch]):
    """Pages found by keywords and vectors, each once, by its best passage."""

    spaces = SPACES
    where = PASSAGES
    group_field = PAGE

    def text(self, record: Record) -> str:
        return meaning(record)

    def group(self, key: str) -> str:
        # The first passage of a page is its head; the keys of the others begin with the digest of the head's.
        return digest(key) if key.startswith("=") else key.partition(":")[0]

    def card(self, item: PageMatch) -> HitCard:
        texts = item.passage.texts
        reference = Reference("read_url_content", {"url": item.url})
        text = without_links(texts.get(TEXT, ""))
        return HitCard(item.url, texts.get(TITLE) or item.url, text, reference)

    async def read(
        self, collection: Collection, groups: Sequence[Sequence[RankedRecord]]
    ) -> list[SearchHit[PageMatch]]:
        passages = await records_of(collection, [hits[0].key for hits in groups])
        heads = await records_of(collection, [str(record.fields[PAGE]) for record in passages.values()])
        found: list[SearchHit[PageMatch]] = []
        for best, *_ in groups:
            passage = passages.get(best.key)
            head = heads.get(str(passage.fields[PAGE])) if passage else None
            if passage and head:
                match = PageMatch(head_of(head).facts["url"], passage)
                found.append(SearchHit(match, best.score, best.cosine, best.bm25, best.parts))
        return found
