"""The open sources of an import: their data for each post, and their progress.

Only one thread may use them at a time. Errors of whole files are raised on opening.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo
from typing import NamedTuple, TypeVar

from tabane.errors import BadArguments
from tabane.messages import Message
from tabane.posts.importing.import_report import PostsImportReport, RejectedRow, SourceCounts
from tabane.posts.importing.model_results import ModelResult, ModelResults
from tabane.posts.importing.plan import PostSources, disagreeing
from tabane.posts.importing.post_ids import PostIdTable
from tabane.posts.importing.twilog_csv import TwilogCsv
from tabane.posts.importing.vector_folder import VectorFolder
from tabane.posts.importing.x_archive import XArchive
from tabane.posts.post import Post
from tabane.search.records import EmbeddingSpace, checked_vector

_STEP = 2000  # lines of results or ids of vectors between two reports of progress


class GivenPost(NamedTuple):
    """The data of one post in the sources. ``post`` is None if they have only its results or vectors."""

    post_id: int
    post: Post | None
    counts: SourceCounts | None
    result: ModelResult | None
    vectors: dict[str, bytes]

    @property
    def size(self) -> int:
        """Return the approximate size in bytes."""
        texts = len(self.post.content) if self.post is not None else 0
        texts += len(self.result.reasoning) + len(self.result.summary) if self.result is not None else 0
        return 3 * texts + sum(map(len, self.vectors.values()))


class OpenPostSources:
    """The open sources. ``spared`` are posts with unusable rows: they exist, so they are not removed."""

    def __init__(self, sources: PostSources, zone: tzinfo, report: PostsImportReport) -> None:
        self.report = report
        self.spared = PostIdTable("B")
        self._closing: list[TwilogCsv | XArchive | ModelResults | VectorFolder] = []
        self._posts: list[tuple[TwilogCsv | XArchive, SourceCounts]] = []
        self._taken = 0  # bytes of vectors
        try:
            self._open(sources, zone)
        except BaseException:
            self.close()
            raise

    def _open(self, sources: PostSources, zone: tzinfo) -> None:
        for path in sources.csvs:
            self._opened_posts(TwilogCsv(path, zone), "twilog.csv")
        for path in sources.archives:
            self._opened_posts(XArchive(path, zone), "x_archive")
        self.results = ModelResults(sources.results)
        self._closing.append(self.results)
        self._of_results = [self.report.source(path, "results") for path in sources.results]
        self.folders: list[VectorFolder] = []
        for space, path in sources.folders.items():
            self._open_folder(VectorFolder(path, space))
        self._of_folders = [
            self.report.source(each.path, f"vectors of {each.space}") for each in self.folders
        ]

    def _opened_posts(self, source: TwilogCsv | XArchive, kind: str) -> None:
        self._closing.append(source)
        self._posts.append((source, self.report.source(source.path, kind)))

    def _open_folder(self, folder: VectorFolder) -> None:
        self._closing.append(folder)
        for other in self.folders[:1]:
            for of_first, of_second in ((other.model, folder.model), (other.dimension, folder.dimension)):
                if of_first != of_second:
                    raise disagreeing(other.path, of_first, folder.path, of_second)
        self.folders.append(folder)

    @property
    def total(self) -> int:
        """Return the bytes of all sources."""
        posts = sum(source.size for source, _ in self._posts)
        return posts + sum(self.results.sizes) + sum(folder.size for folder in self.folders)

    @property
    def done(self) -> int:
        """Return how many of these bytes are read."""
        posts = sum(source.done for source, _ in self._posts)
        return min(self.total, posts + self.results.done + self._taken)

    @property
    def whole(self) -> bool:
        return all(source.whole for source, _ in self._posts if isinstance(source, XArchive))

    def index(self) -> Iterator[None]:
        """Find the posts that have results and vectors. Yields every 2,000 lines, to report progress."""
        for number, counts in enumerate(self._of_results):
            yield from self._indexed(self.results.index(number), self.results.places, counts)
        for folder, counts in zip(self.folders, self._of_folders, strict=True):
            for bad in folder.bad_files:
                self.report.add(bad, counts)
            yield from self._indexed(folder.index(), folder.places, counts)

    def _indexed(
        self, found: Iterator[int | RejectedRow], places: PostIdTable, counts: SourceCounts
    ) -> Iterator[None]:
        before = len(places)
        for number, each in enumerate(found, 1):
            if isinstance(each, RejectedRow):
                self.report.add(each, counts)
            else:
                counts.read += 1
            if number % _STEP == 0:
                yield
        counts.duplicates += counts.read - (len(places) - before)

    def given(self) -> Iterator[GivenPost]:
        """Yield the data of each row, in the order of the rows."""
        for source, counts in self._posts:
            for each in source:
                if isinstance(each, Post):
                    counts.read += 1
                    yield self._given(each.post_id, each, counts)
                    continue
                self.report.add(each, counts)
                if each.post_id:
                    self.spared[each.post_id] = 1

    def rest(self, seen: PostIdTable) -> Iterator[GivenPost]:
        """Yield the data of posts without a row."""
        tables = [self.results.places, *(folder.places for folder in self.folders)]
        for number, table in enumerate(tables):
            for post in table:
                if post not in seen and not any(post in earlier for earlier in tables[:number]):
                    yield self._given(post, None, None)

    def _given(self, post_id: int, post: Post | None, counts: SourceCounts | None) -> GivenPost:
        return GivenPost(post_id, post, counts, self.results.of(post_id), self.vectors(post_id))

    def vectors(self, post_id: int) -> dict[str, bytes]:
        """Return the vectors of a post: space → float32, little-endian."""
        vectors = {}
        for folder in self.folders:
            vector = folder.of(post_id)
            if vector is not None:
                vectors[folder.space] = vector
                self._taken += 8 + len(vector)
        return vectors

    def unknown(self, given: GivenPost) -> None:
        """Count an id that no post has, in its sources."""
        if given.result is not None:
            self._of_results[self.results.number(given.post_id)].unknown += 1
        for folder, counts in zip(self.folders, self._of_folders, strict=True):
            counts.unknown += given.post_id in folder.places

    def fitting(self, post_id: int, vectors: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the valid vectors of a post. Invalid ones are reported and not returned again."""
        valid = dict(vectors)
        for folder, counts in zip(self.folders, self._of_folders, strict=True):
            vector = vectors.get(folder.space)
            try:
                if vector is not None:
                    checked_vector(vector, EmbeddingSpace(folder.space, folder.dimension, folder.model))
            except BadArguments as error:
                del valid[folder.space]
                place = folder.refuse(post_id)
                if place is not None:
                    self.report.add(RejectedRow(*place, error.message, post_id), counts)
        return valid

    def bad_post(self, post_id: int, reason: Message) -> None:
        """Report a post that the collection rejects. It may come from several sources; the first is named."""
        counts = self.report.sources[0]
        self.report.add(RejectedRow(counts.source, 0, reason, post_id), counts)

    def close(self) -> None:
        for each in self._closing:
            each.close()


T = TypeVar("T")


class ReadingThread:
    """Runs work in the only thread of a pool. The owner of the pool ends it."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    async def __call__(self, work: Callable[[], T]) -> T:
        return await self.begin(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start the work without waiting for it."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)
