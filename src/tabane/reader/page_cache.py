"""The page cache: pages that were read, for rereading, paging and search without a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from tabane.reader.guard import target
from tabane.reader.page import HEADS, PAGE, PART, READ, SITE
from tabane.reader.page_records import (
    TOTAL,
    PageHead,
    asked_key,
    cut,
    digest,
    facts_of,
    head_key,
    head_of,
    page_of,
    said,
    together,
)
from tabane.reader.url_reader import CachedPage, CacheValidators
from tabane.search.chunking import Measure
from tabane.search.engine import LARGEST_EXCHANGE, MOST_AT_ONCE, MOST_EXCHANGED, Collection, Order
from tabane.search.records import And, Equal, Filter, Record
from tabane.wire import json

MOST_BYTES = 500_000_000
"""Default limit of all cached pages, in bytes."""

_NOTED = 60.0  # seconds by which the time of the last reading may lag
_AT_ONCE = 20  # pages that are deleted in one commit
_MOST_SITES = 100
_MOST_ASKED = 32  # URLs that lead to one page
_AROUND = 200  # bytes of a record beside its text: its key, its place in the head
_FLOAT = 4  # bytes of a component of a vector

# An exchange holds the old passages' keys and the new passages: half of it for each.
_MOST_PASSAGES = MOST_EXCHANGED // 2 - 100
_MOST_TEXT = LARGEST_EXCHANGE * 3 // 4


class CachedPageRow(NamedTuple):
    """A page in a list."""

    url: str
    title: str | None
    site: str | None
    way: str
    read: float
    checked: float
    size: int


class PageCache:
    """The cached pages of one hub. ``most`` returns their limit in bytes; the least recently read are
    deleted.

    ``wake`` is called when there is something to embed. Pages with pictures, and those too long for one
    commit (12 MB of text, 9,900 passages), are not kept.
    """

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        measure: Callable[[], Measure],
        *,
        most: Callable[[], int],
        wake: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._collection, self._measure = collection, measure
        self._most, self._wake, self._clock = most, wake, clock
        self._writing = asyncio.Lock()

    # -- one page --------------------------------------------------------------------------------

    async def get(self, url: str, *, raw: bool = False) -> CachedPage | None:
        """Return the page that was read at ``url`` or has it as final URL. Raises StoreError."""
        collection = await self._collection()
        found = await self._find_head(collection, url, raw)
        if found is None:
            return None
        head = head_of(found)
        keys = [piece.key for piece in head.pieces]
        records: list[Record | None] = []
        for first in range(0, len(keys), MOST_AT_ONCE):
            records += await collection.get(keys[first : first + MOST_AT_ONCE])
        text = together(head.pieces, records)
        if text is None:
            return None
        validators = CacheValidators(*head.validators) if head.validators else None
        return CachedPage(page_of(head, text), head.checked, validators)

    async def put(self, url: str, kept: CachedPage, *, raw: bool = False) -> None:
        """Cache a page as read now, in place of its older copy. Raises StoreError."""
        collection = await self._collection()
        key = head_key(target(kept.page.url).url, raw)
        async with self._writing:
            before, shadow = await collection.get([key, head_key(url, raw)])
            old = head_of(before) if before else None
            if before and old and self._is_noted(before, old, kept, asked_key(url, raw)):
                return
            total = await self._total(collection)
            if shadow is not None and shadow.key != key:
                total = await self._take_out(collection, [shadow], total)  # it leads elsewhere now
            change = await asyncio.to_thread(self._change_of, url, kept, key, before, collection, raw)
            if change is None:
                await self._take_out(collection, [before] if before else [], total)
                return
            total += change.size
            head = await _with_vectors(collection, change.head, before)
            await collection.exchange([head, *change.records, _total(total)], change.gone)
            await self._make_room(collection, total, key)
        self._wake()

    async def forget(self, url: str) -> int:
        """Delete a page and its source; how many of them were there."""
        collection = await self._collection()
        async with self._writing:
            found = [await self._find_head(collection, target(url).url, raw) for raw in (False, True)]
            there = [head for head in found if head is not None]
            await self._take_out(collection, there, await self._total(collection))
        return len(there)

    async def rows(
        self, site: str | None, limit: int, after: str | None
    ) -> tuple[list[CachedPageRow], str | None]:
        """Return pages that are kept, those read last first, and the cursor of the next."""
        where: Filter = And((HEADS, Equal(SITE, site.lower()))) if site else HEADS
        collection = await self._collection()
        order = (Order(READ, descending=True),)
        part = await collection.select(where, order=order, after=after, limit=limit)
        return [_row_of(stored.record) for stored in part.records], part.after

    async def row(self, url: str) -> CachedPageRow | None:
        """Return the page that was read at ``url`` or has it as final URL, as in a list."""
        found = await self._find_head(await self._collection(), url, raw=False)
        return None if found is None else _row_of(found)

    async def sites(self) -> list[tuple[str, int]]:
        """Return the sites with the most pages, and how many each has."""
        collection = await self._collection()
        return [(str(site), count) for site, count in await collection.facet(SITE, HEADS, _MOST_SITES)]

    # -- what is written -------------------------------------------------------------------------

    def _is_noted(self, before: Record, old: PageHead, kept: CachedPage, asked: str) -> bool:
        """Return whether nothing has to be written: the cached copy is equal and was read a moment ago."""
        known = asked in old.asked or asked[1:] == before.key[1:]
        return known and old.checked == kept.checked and 0 <= self._clock() - _time_read(before) < _NOTED

    def _change_of(
        self, url: str, kept: CachedPage, key: str, before: Record | None, collection: Collection, raw: bool
    ) -> _PageCacheChange | None:
        """Return the changes that store the page; None to not cache it. Blocks: chunking counts tokens."""
        page = kept.page
        old = head_of(before) if before else None
        if page.pictures or len(page.markdown) > _MOST_TEXT:
            return None
        asked = _alias_keys(old.asked if old else [], url, key, raw)
        aliases = [Record(key=each, fields={PART: "asked"}, payload=key.encode()) for each in asked]
        known = kept.validators
        head = PageHead(
            facts=facts_of(page),
            warnings=[said(warning) for warning in page.warnings],
            checked=kept.checked,
            validators=(known.url, known.accept, known.etag, known.last_modified) if known else None,
            digest=digest(page.markdown),
            size=0,
            pieces=[],
            asked=asked,
        )
        dropped = {each for each in old.asked if each not in asked} if old else set()
        if (
            before is not None
            and old is not None
            and (old.digest, old.facts.get("title")) == (head.digest, head.facts.get("title"))
        ):
            head = replace(head, pieces=old.pieces, size=old.size)
            return _PageCacheChange(
                self._head_record(key, head, before.texts, raw), aliases, sorted(dropped), 0
            )
        pieces, first, records = cut(page, key, self._measure(), raw=raw)
        text = _text_bytes(first) + sum(
            len(each.payload) or _text_bytes(each.texts) for each in records.values()
        )
        if len(records) > _MOST_PASSAGES or text > _MOST_TEXT:
            return None
        vectors = 0 if raw else sum(space.dimension * _FLOAT for space in collection.spaces)
        head = replace(head, pieces=pieces, size=text + len(pieces) * (vectors + _AROUND) + _AROUND)
        gone = {piece.key for piece in old.pieces} - records.keys() - {key} | dropped if old else dropped
        size = head.size - (old.size if old else 0)
        whole = self._head_record(key, head, first, raw)
        return _PageCacheChange(whole, [*aliases, *records.values()], sorted(gone), size)

    def _head_record(self, key: str, head: PageHead, texts: dict[str, str], raw: bool) -> Record:
        site = urlsplit(head.facts["url"]).hostname or ""
        part = "source head" if raw else "head"
        fields = {PART: part, PAGE: key, SITE: site, READ: self._clock()}
        return Record(key=key, texts=texts, fields=fields, payload=json.encode(head))

    async def _make_room(self, collection: Collection, total: int, newest: str) -> None:
        """Delete the least recently read pages, until the rest fits."""
        most = self._most()
        while total > most:
            heads = Equal(PART, "head"), Equal(PART, "source head")
            found: list[Record] = []
            for where in heads:
                part = await collection.select(where, order=(Order(READ),), limit=_AT_ONCE)
                found += [stored.record for stored in part.records]
            found.sort(key=_time_read)
            old = [record for record in found if record.key != newest][:_AT_ONCE]
            if not old:
                return
            leaving: list[Record] = []
            size = 0
            for record in old:
                if total - size <= most:
                    break
                leaving.append(record)
                size += head_of(record).size
            total = await self._take_out(collection, leaving, total)

    async def _take_out(self, collection: Collection, heads: Sequence[Record], total: int) -> int:
        """Delete pages, one commit each; return what remains of ``total``."""
        for record in heads:
            head = head_of(record)
            total = max(0, total - head.size)
            gone = dict.fromkeys([record.key, *(piece.key for piece in head.pieces), *head.asked])
            await collection.exchange([_total(total)], list(gone))
        return total

    async def _total(self, collection: Collection) -> int:
        (record,) = await collection.get([TOTAL])
        return int(json.decode(record.payload)) if record else 0

    async def _find_head(self, collection: Collection, url: str, raw: bool) -> Record | None:
        head, alias = await collection.get([head_key(url, raw), asked_key(url, raw)])
        if head is None and alias is not None:
            (head,) = await collection.get([alias.payload.decode()])
        return head


class _PageCacheChange(NamedTuple):
    """Records to be put and keys to be taken out; ``size`` is by how many bytes there will be more."""

    head: Record
    records: list[Record]
    gone: list[str]
    size: int


async def _with_vectors(collection: Collection, head: Record, before: Record | None) -> Record:
    """Return the new head with the vectors of the old one: its first passage is the same, only metadata
    changed.
    """
    if before is None or not before.texts or before.texts != head.texts:
        return head
    found: dict[str, bytes] = {}
    for space in collection.spaces:
        (vector,) = await collection.vectors([head.key], space.name)
        if vector is not None:
            found[space.name] = vector
    return replace(head, vectors=found)


def _time_read(record: Record) -> float:
    read = record.fields[READ]
    assert isinstance(read, int | float)
    return read


def _row_of(record: Record) -> CachedPageRow:
    head = head_of(record)
    facts = head.facts
    return CachedPageRow(
        facts["url"],
        facts.get("title"),
        facts.get("site"),
        facts["way"],
        _time_read(record),
        head.checked,
        head.size,
    )


def _alias_keys(before: Sequence[str], url: str, key: str, raw: bool) -> list[str]:
    """Return the keys of URLs that lead to the page, the newest last."""
    mine = [] if head_key(url, raw) == key else [asked_key(url, raw)]
    return list(dict.fromkeys([*(each for each in before if each not in mine), *mine]))[-_MOST_ASKED:]


def _total(total: int) -> Record:
    return Record(key=TOTAL, fields={PART: "total"}, payload=b"%d" % total)


def _text_bytes(texts: Mapping[str, str]) -> int:
    return sum(len(text.encode()) for text in texts.values())
