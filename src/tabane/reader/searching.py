"""The pages that were read, as a search source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tabane.reader.cleaning import without_links
from tabane.reader.page import PAGE, PASSAGES, SPACES, TEXT, TITLE
from tabane.reader.page_records import digest, head_of, meaning
from tabane.search.engine import Collection
from tabane.search.hybrid import RankedRecord
from tabane.search.pipeline import CollectionSource, records_of
from tabane.search.records import Record
from tabane.search.source import HitCard, Reference, SearchHit


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
