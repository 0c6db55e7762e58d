"""The import of posts: compares the sources with the stored posts, and writes the differences.

One thread reads rows, others compare them, and the thread of the collection writes them. The event loop only
passes batches on. Between two imports, nothing is kept except the posts. If an import is repeated, or run
again after a crash, posts that are already stored are skipped.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo
from types import TracebackType
from typing import NamedTuple

import msgspec

from tabane.errors import BadArguments
from tabane.messages import Lang, say
from tabane.operations import Progress
from tabane.posts.importing.import_report import PostOutcome, PostOutcomes, PostsImportReport
from tabane.posts.importing.model_results import enriched, merged, unchanged_vectors
from tabane.posts.importing.plan import GivenPost, OpenPostSources, PostSources, ReadingThread, unreadable
from tabane.posts.post import Post, post_of, record_of
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record

MOST_AT_ONCE = 2  # batches


class PostBatchWriter:
    """Writes batches in any order. Records that the collection rejects are reported; the others are written.

    After an exception, it waits for the batches under way, because they cannot be undone.
    """

    def __init__(self, collection: Collection, opened: OpenPostSources) -> None:
        self._collection = collection
        self._opened = opened
        self._under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> PostBatchWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.settled()
            return
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def put(self, records: Sequence[Record], models: Mapping[str, str]) -> None:
        """Start writing the posts as soon as there is room. Raises the errors of earlier batches.

        ``models``: space → model of its vectors. If a space has another model by now, its vectors are left
        out.
        """
        while len(self._under_way) >= MOST_AT_ONCE:
            await self._wait_for_batches(asyncio.FIRST_COMPLETED)
        self._under_way.add(asyncio.create_task(self._write(records, models)))

    async def settled(self) -> None:
        """Wait until all batches are written. Raises their errors."""
        while self._under_way:
            await self._wait_for_batches(asyncio.ALL_COMPLETED)

    async def _wait_for_batches(self, when: str) -> None:
        done, self._under_way = await asyncio.wait(self._under_way, return_when=when)
        for task in done:
            task.result()

    async def _write(self, records: Sequence[Record], models: Mapping[str, str]) -> None:
        try:
            await self._collection.upsert(records, models)
        except BadArguments:
            for record in records:
                record = await asyncio.to_thread(self._fitting, record)
                try:
                    await self._collection.upsert([record], models)
                except BadArguments as error:
                    self._opened.bad_post(int(record.key), error.message)

    def _fitting(self, record: Record) -> Record:
        vectors = self._opened.fitting(int(record.key), record.vectors)
        self._opened.report.count_vectors(len(vectors) - len(record.vectors))
        return msgspec.structs.replace(record, vectors=vectors)


BATCH = 500  # posts that are compared together
MOST_BYTES = 4_000_000  # of their texts and vectors, about
_PAGE = 1000
_YIELDED = 20  # posts after which other threads get the interpreter


async def import_posts(
    collection: Collection,
    sources: PostSources,
    progress: Progress,
    zone: tzinfo,
    *,
    prune: bool = False,
    report_path: str | None = None,
    lang: Lang = "en",
) -> PostsImportReport:
    """Update the collection from the sources. Progress is reported in bytes read.

    Times without a zone are in ``zone``. ``prune`` removes posts without a row, unless a source could not be
    read to its end. ``report_path`` is a file that will list unusable rows, in ``lang``. If the import is
    canceled or killed, written posts stay, and the next import continues. Raises
    :class:`~tabane.errors.BadArguments` at once if a source has another format, or if vectors do not fit the
    stored ones. Also raises OSError and :class:`~tabane.errors.StoreError`.
    """
    if prune and not sources.posts:
        raise BadArguments(
            say("prune needs a source of posts. Without one it would remove all posts."), "prune"
        )
    report = PostsImportReport(report_path, lang)
    began = time.monotonic()
    with ThreadPoolExecutor(1, "import") as thread:  # on exit, waits only for the current step
        reading = ReadingThread(thread)
        try:
            opened = await reading(OpenPostSources, sources, zone, report)
            try:
                await _Import(collection, opened, reading, progress).run(prune=prune)
                report.seconds = time.monotonic() - began
                await reading(report.close)
            finally:
                thread.submit(opened.close)
                thread.submit(report.close)
        except OSError as error:
            raise unreadable(error) from error
    return report


class _PostChange(NamedTuple):
    """A post before and after the import. ``before`` is None if the post is new."""

    before: Post | None
    after: Post
    vectors: dict[str, bytes]


class _Import:
    """One import under way."""

    def __init__(
        self, collection: Collection, opened: OpenPostSources, reading: ReadingThread, progress: Progress
    ) -> None:
        self._collection = collection
        self._opened = opened
        self._reading = reading
        self._progress = progress
        self._report = opened.report
        self._outcomes = PostOutcomes(opened.report)
        self._lacking: set[str] = set()  # spaces in which known posts are to get vectors
        self._models: dict[str, str] = {}  # of the vectors that are given
        self._posts = 0
        self._began = time.monotonic()

    async def run(self, *, prune: bool) -> None:
        await self._add_spaces()
        steps = self._opened.index()
        note = say("Reading results and vectors")
        while await self._reading(next, steps, _END) is not _END:
            self._progress.tell(self._opened.done, self._opened.total, note)
        self._began = time.monotonic()
        async with PostBatchWriter(self._collection, self._opened) as writing:
            await self._import_posts(self._opened.given(), writing)
            await self._import_posts(self._opened.rest(self._outcomes.ids), writing)
        for space in sorted(self._lacking):
            await self._attach_vectors(space)
        self._report.whole = self._opened.whole
        if prune and self._report.whole:
            await self._prune()
        await self._reading(self._report.write)
        self._tell_progress(self._opened.total)

    async def _add_spaces(self) -> None:
        """Add the spaces of the folders. ``name`` and ``name#revision`` count as the same model."""
        existing = {space.name: space for space in self._collection.spaces}
        for folder in self._opened.folders:
            known = existing.get(folder.space)
            alike = known is not None and known.model.partition("#")[0] == folder.model
            if known is None or not alike or known.dimension != folder.dimension:
                await self._collection.add_space(EmbeddingSpace(folder.space, folder.dimension, folder.model))
        self._models = self._spaces_now()

    def _spaces_now(self) -> dict[str, str]:
        """Return the model of each existing space."""
        return {space.name: space.model for space in self._collection.spaces}

    # Posts

    async def _import_posts(self, given: Iterator[GivenPost], writing: PostBatchWriter) -> None:
        """Import posts batch by batch. The next batch is read meanwhile."""

        def next_batch() -> list[GivenPost]:
            batch: list[GivenPost] = []
            size = 0
            for number, each in enumerate(itertools.islice(given, BATCH), 1):
                batch.append(each)
                size += each.size
                if size > MOST_BYTES:
                    break
                if not number % _YIELDED:
                    time.sleep(0)  # a waiting thread gets the interpreter now, not 5 ms later
            self._report.write()
            return batch

        coming = self._reading.begin(next_batch)
        try:
            while batch := await coming:
                coming = self._reading.begin(next_batch)
                await self._import_batch(batch, writing)
                self._posts += len(batch)
                self._tell_progress(self._opened.done)
        finally:
            coming.cancel()
        await writing.settled()

    async def _import_batch(self, batch: Sequence[GivenPost], writing: PostBatchWriter) -> None:
        ids = dict.fromkeys(each.post_id for each in batch)
        if any(post in self._outcomes.ids for post in ids):
            await writing.settled()  # an earlier batch may still be writing one of these posts
        found = await self._collection.get([str(post) for post in ids])
        pairs = await asyncio.to_thread(self._merge_batch, batch, dict(zip(ids, found, strict=True)))
        models = self._spaces_now() | self._models  # before vectors are read
        stored = await self._stored_vectors(pairs)
        records = await asyncio.to_thread(self._changed_records, pairs, stored)
        if records:
            await writing.put(records, models)

    def _merge_batch(
        self, batch: Sequence[GivenPost], stored: Mapping[int, Record | None]
    ) -> dict[int, _PostChange]:
        """Return each post before and after the batch. Marks each post as seen."""
        pairs: dict[int, _PostChange] = {}
        for number, each in enumerate(batch, 1):
            if not number % _YIELDED:
                time.sleep(0)
            pair = pairs.get(each.post_id)
            record = stored[each.post_id]
            before = pair.before if pair else post_of(record) if record else None
            known = pair.after if pair else before
            after = self._post_after(each, known)
            if after is not None:
                pairs[each.post_id] = _PostChange(before, after, each.vectors)
        return pairs

    def _post_after(self, given: GivenPost, known: Post | None) -> Post | None:
        """Return the post after a row, None if no such post exists."""
        if given.post is None:
            if known is None:
                self._opened.unknown(given)
                return None
            return enriched(known, given.result)
        level = self._outcomes.level(given.post_id)
        if level and given.counts is not None:
            given.counts.duplicates += 1
        self._outcomes.give(given.post_id, given.post.log_type)
        return enriched(merged(known, given.post, level), given.result)

    async def _stored_vectors(self, pairs: Mapping[int, _PostChange]) -> dict[int, dict[str, bytes]]:
        """Return the stored vectors of posts that change or get vectors."""
        changing = [
            post
            for post, pair in pairs.items()
            if pair.before is not None and (pair.vectors or pair.before != pair.after)
        ]
        stored: dict[int, dict[str, bytes]] = {post: {} for post in changing}
        keys = [str(post) for post in changing]
        for space in self._collection.spaces if changing else ():
            for post, vector in zip(changing, await self._collection.vectors(keys, space.name), strict=True):
                if vector is not None:
                    stored[post][space.name] = vector
        return stored

    def _changed_records(
        self, pairs: Mapping[int, _PostChange], stored: Mapping[int, dict[str, bytes]]
    ) -> list[Record]:
        """Return the records that differ from the stored ones.

        Posts that only lack vectors get them later.
        """
        records = []
        for number, (post, (before, after, given)) in enumerate(pairs.items(), 1):
            if not number % _YIELDED:
                time.sleep(0)
            had = stored.get(post, {})
            same = before == after
            vectors = {**(unchanged_vectors(before, after, had) if before is not None else {}), **given}
            if same and all(vectors[space] == vector for space, vector in had.items()):
                self._lacking |= given.keys() - had.keys()
                self._outcomes.count(post, PostOutcome.UNCHANGED)
                continue
            self._outcomes.count(post, PostOutcome.NEW if before is None else PostOutcome.CHANGED)
            self._report.count_vectors(sum(had.get(space) != vector for space, vector in vectors.items()))
            records.append(record_of(after, vectors))
        return records

    # After all posts

    async def _attach_vectors(self, space: str) -> None:
        """Write the vectors of posts that lack them in a space."""
        model = next(each.model for each in self._collection.spaces if each.name == space)
        after = 0
        while page := await self._collection.lacking(space, after, BATCH):
            after, epoch = page[-1].row, page[0].epoch
            posts = {each.row: int(each.record.key) for each in page}
            vectors = await self._reading(self._vectors_of, posts, space)
            try:
                await self._collection.attach(vectors, model, epoch)
            except BadArguments:
                vectors = await asyncio.to_thread(self._fitting, posts, vectors)
                await self._collection.attach(vectors, model, epoch)
            self._report.count_vectors(len(vectors))
            for row in vectors:
                self._outcomes.count(posts[row], PostOutcome.CHANGED)
            self._tell_progress(self._opened.done)

    def _vectors_of(self, posts: Mapping[int, int], space: str) -> dict[int, dict[str, bytes]]:
        """Return row → space → vector, for rows that have a vector in the sources."""
        found = {row: self._opened.vectors(post).get(space) for row, post in posts.items()}
        return {row: {space: vector} for row, vector in found.items() if vector is not None}

    def _fitting(
        self, posts: Mapping[int, int], vectors: Mapping[int, dict[str, bytes]]
    ) -> dict[int, dict[str, bytes]]:
        found = {row: self._opened.fitting(posts[row], given) for row, given in vectors.items()}
        return {row: given for row, given in found.items() if given}

    async def _prune(self) -> None:
        """Remove the posts without any row, valid or unusable."""
        after: str | None = None
        while True:
            page = await self._collection.select(EVERYTHING, after=after, limit=_PAGE)
            posts = (int(stored.record.key) for stored in page.records)
            gone = [
                str(post)
                for post in posts
                if not self._outcomes.level(post) and post not in self._opened.spared
            ]
            if gone:
                await self._collection.delete(gone)
            for key in gone:
                self._outcomes.remove(int(key))
            after = page.after
            if after is None:
                return

    def _tell_progress(self, done: int) -> None:
        taken = max(time.monotonic() - self._began, 0.001)
        note = say(
            "{posts} {posts:post|posts}, {rate} a second: {new} new, {changed} changed",
            posts=self._posts,
            rate=round(self._posts / taken),
            new=self._report.new,
            changed=self._report.changed,
        )
        self._progress.tell(done, self._opened.total, note)


_END = object()
