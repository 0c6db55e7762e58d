"""The import of posts: opens the sources that are given, compares them with the stored posts, and writes.

One thread reads rows, others compare them, and the thread of the collection writes them. The event loop only
passes batches on. Between two imports, nothing is kept except the posts. If an import is repeated, or run
again after a crash, posts that are already stored are skipped.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import tzinfo
from importlib import resources
from types import TracebackType
from typing import NamedTuple, TypeVar, TypeVarTuple

import msgspec

from tabane.errors import BadArguments
from tabane.messages import Lang, Message, say
from tabane.operations import Progress
from tabane.posts.importing.import_report import (
    PostIdTable,
    PostOutcome,
    PostOutcomes,
    PostsImportReport,
    RejectedRow,
    SourceCounts,
)
from tabane.posts.importing.model_results import (
    METADATA,
    ModelResult,
    ModelResults,
    VectorFolder,
    VectorMetadata,
    enriched,
    merged,
    metadata,
    metadata_path,
    unchanged_vectors,
)
from tabane.posts.importing.twilog_csv import TwilogCsv
from tabane.posts.importing.x_archive import XArchive, has_lists
from tabane.posts.post import SPACES, Post, post_of, record_of
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record, checked_vector

PLACES = {"content": "embeddings", "reasoning": "batch/reasoning", "summary": "batch/summary"}
"""The original twilog's folders for the vectors of each text. The options -e, -r and -s name others."""

SAMPLE = ("twilog.csv", "results.jsonl")
"""Files of the sample archive: a few hundred posts by people who do not exist."""

_CSV = "twilog.csv"
_RESULTS = "batch/results.jsonl"


def sample_files() -> list[str]:
    """Return the paths of the sample archive."""
    folder = resources.files("tabane.posts") / "sample"
    return [str(folder / name) for name in SAMPLE]


@dataclass(frozen=True, slots=True)
class PostSources:
    """The sources of an import: absolute paths, each once. ``folders`` is space → folder of its vectors.

    If two sources have the same post, the first counts. All CSV files come before all archives.
    """

    csvs: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    folders: dict[str, str] = field(default_factory=dict)

    @property
    def posts(self) -> bool:
        """Return whether any of the sources has posts."""
        return bool(self.csvs or self.archives)


@dataclass(slots=True)
class _FoundFiles:
    csvs: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    described: dict[str, VectorMetadata] = field(default_factory=dict)

    def folder(self, space: str, path: str) -> None:
        if self.folders.setdefault(space, path) != path:
            raise BadArguments(
                say(
                    "{first} and {second} both contain vectors of {space}. Give only one of them.",
                    first=self.folders[space],
                    second=path,
                    space=space,
                ),
                "files",
            )
        self.described[space] = metadata(path)


def plan(
    files: Sequence[str] = (),
    *,
    embeddings: str | None = None,
    reasoning: str | None = None,
    summary: str | None = None,
) -> PostSources:
    """Return the sources that the arguments name, and the CSV and results that folder metadata refer to.

    The three options name folders of vectors. The metadata of all folders must agree on the model.
    """
    try:
        folders = (embeddings, reasoning, summary)
        files_by_kind = _FoundFiles()
        for space, path in zip(SPACES, folders, strict=True):
            if path is not None:
                files_by_kind.folder(space, _absolute(path))
        for path in files:
            _add_path(files_by_kind, _absolute(path))
        _follow_metadata(files_by_kind, csv_wanted=folders[0] is not None)
        described = [
            (files_by_kind.folders[space], each.model) for space, each in files_by_kind.described.items()
        ]
        for other, model in described[1:]:
            if model != described[0][1]:
                raise disagreeing(*described[0], other, model)
    except OSError as error:
        raise unreadable(error) from error
    if not (files_by_kind.csvs or files_by_kind.archives or files_by_kind.results or files_by_kind.folders):
        raise BadArguments(say("Give at least one file to import."), "files")
    return PostSources(
        _each_once(files_by_kind.csvs),
        _each_once(files_by_kind.archives),
        _each_once(files_by_kind.results),
        files_by_kind.folders,
    )


def unreadable(error: OSError) -> BadArguments:
    """Return the error for a file that cannot be read, or a report that cannot be written."""
    return BadArguments(
        say("{path}: {reason}", path=error.filename or "–", reason=error.strerror or str(error)), "files"
    )


def _absolute(path: str) -> str:
    path = os.path.abspath(os.path.expanduser(path))
    if "\0" in path or not os.path.exists(path):
        raise BadArguments(say("{path} does not exist.", path=path), "files")
    return path


def _each_once(paths: list[str]) -> tuple[str, ...]:
    return tuple({os.path.realpath(path): path for path in reversed(paths)}.values())[::-1]


def _add_path(files: _FoundFiles, path: str) -> None:
    if os.path.isdir(path):
        _add_folder(files, path)
        return
    if not os.path.isfile(path):
        raise BadArguments(say("{path} is neither a file nor a folder.", path=path), "files")
    with open(path, "rb") as file:
        start = file.read(4096)
    name = os.path.basename(path).lower()
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        files.archives.append(path)
    elif name.endswith(".safetensors") or name in METADATA:
        raise BadArguments(say("{path} is part of a folder of vectors. Give the folder.", path=path), "files")
    elif name.endswith(".js") or start.lstrip().startswith((b"window.", b"Grailbird.")):
        raise BadArguments(
            say(
                "{path} is part of an archive of X. Give the zip, or the folder it was unpacked to.",
                path=path,
            ),
            "files",
        )
    elif start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        files.results.append(path)
    else:
        files.csvs.append(path)  # opening it raises an error if it has another format


def _add_folder(files: _FoundFiles, path: str) -> None:
    if metadata_path(path):
        described = metadata(path).source_type.lower()
        name = os.path.basename(path).lower()
        files.folder(next((space for space in SPACES[1:] if space in (described, name)), SPACES[0]), path)
        return
    lists = has_lists(path)
    if lists:
        files.archives.append(path)
    if not _add_setup(files, path) and not lists:
        raise BadArguments(
            say(
                "{path} is not a folder that can be imported: it has no meta.json (vectors), no "
                "data/tweets.js (archive of X) and no twilog.csv.",
                path=path,
            ),
            "files",
        )


def _add_setup(files: _FoundFiles, path: str) -> bool:
    """Add the files of an original installation. Return False if it has none."""
    csv, results = os.path.join(path, _CSV), os.path.join(path, _RESULTS)
    folders = {space: os.path.join(path, place) for space, place in PLACES.items()}
    existing = {space: folder for space, folder in folders.items() if metadata_path(folder)}
    if os.path.isfile(csv):
        files.csvs.append(csv)
    elif not existing:
        return False
    if os.path.isfile(results):
        files.results.append(results)
    for space, folder in existing.items():
        files.folder(space, folder)
    return True


def _follow_metadata(files: _FoundFiles, *, csv_wanted: bool) -> None:
    """Add the CSV from which the content vectors were made, and the results beside other folders."""
    source = files.described["content"].source if "content" in files.described else None
    if not files.csvs and not files.archives:
        if source is not None and not source.endswith(".jsonl"):
            files.csvs.append(source)
        elif csv_wanted:
            raise BadArguments(
                say(
                    "The metadata in {path} name no existing twilog.csv (source_path, csv_path). Give "
                    "the file together with the folder.",
                    path=files.folders["content"],
                ),
                "files",
            )
    if files.results:
        return
    for space in SPACES[1:]:
        if space in files.folders:
            source = files.described[space].source
            beside = os.path.join(os.path.dirname(files.folders[space]), os.path.basename(_RESULTS))
            if source is not None and source.endswith(".jsonl"):
                files.results.append(source)
            elif os.path.isfile(beside):
                files.results.append(beside)


def disagreeing(first: str, of_first: object, second: str, of_second: object) -> BadArguments:
    """Return the error for folders of vectors with different models or dimensions."""
    return BadArguments(
        say(
            "{first} has vectors of {of_first}, but {second} of {of_second}. All vectors of an "
            "archive must have the same model and dimension.",
            first=first,
            of_first=of_first,
            second=second,
            of_second=of_second,
        ),
        "files",
    )


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
        self.folders: list[VectorFolder] = []
        try:
            for path in sources.csvs:
                self._add_posts(TwilogCsv(path, zone), "twilog.csv")
            for path in sources.archives:
                self._add_posts(XArchive(path, zone), "x_archive")
            self.results = ModelResults(sources.results)
            self._closing.append(self.results)
            self._of_results = [report.source(path, "results") for path in sources.results]
            for space, path in sources.folders.items():
                self._add_folder(VectorFolder(path, space))
            self._of_folders = [report.source(each.path, f"vectors of {each.space}") for each in self.folders]
        except BaseException:
            self.close()
            raise

    def _add_folder(self, folder: VectorFolder) -> None:
        self._closing.append(folder)
        for first in self.folders[:1]:
            for of_first, of_second in ((first.model, folder.model), (first.dimension, folder.dimension)):
                if of_first != of_second:
                    raise disagreeing(first.path, of_first, folder.path, of_second)
        self.folders.append(folder)

    def _add_posts(self, source: TwilogCsv | XArchive, kind: str) -> None:
        self._closing.append(source)
        self._posts.append((source, self.report.source(source.path, kind)))

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
        """Return whether every source could be read to its end."""
        return all(source.whole for source, _ in self._posts if isinstance(source, XArchive))

    def index(self) -> Iterator[None]:
        """Find the posts that have results and vectors. Yields every 2,000 lines, to report progress."""
        for number, counts in enumerate(self._of_results):
            yield from self._count_indexed(self.results.index(number), self.results.places, counts)
        for folder, counts in zip(self.folders, self._of_folders, strict=True):
            for bad in folder.bad_files:
                self.report.add(bad, counts)
            yield from self._count_indexed(folder.index(), folder.places, counts)

    def _count_indexed(
        self, rows: Iterator[int | RejectedRow], places: PostIdTable, counts: SourceCounts
    ) -> Iterator[None]:
        before = len(places)
        for number, each in enumerate(rows, 1):
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
                    yield self._data_of(each.post_id, each, counts)
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
                    yield self._data_of(post, None, None)

    def _data_of(self, post_id: int, post: Post | None, counts: SourceCounts | None) -> GivenPost:
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

    def unknown(self, post: GivenPost) -> None:
        """Count an id that no post has, in its sources."""
        if post.result is not None:
            self._of_results[self.results.number(post.post_id)].unknown += 1
        for folder, counts in zip(self.folders, self._of_folders, strict=True):
            counts.unknown += post.post_id in folder.places

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
        """Close all files."""
        for each in self._closing:
            each.close()


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ReadingThread:
    """Runs work in the only thread of a pool. The owner of the pool ends it."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    async def __call__(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        return await self.begin(work, *arguments)

    def begin(self, work: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        """Start the work without waiting for it."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)


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
        self._report.whole = self._opened.whole
        if prune and self._report.whole:
            await self._prune()
        await self._reading(self._report.write)
        self._tell_progress(self._opened.total)

    async def _add_spaces(self) -> None:
        """Add the spaces of the folders. ``name`` and ``name#revision`` count as the same model."""
        existing = {space.name: space for space in self._collection.spaces}
        for folder in self._opened.folders:
            current = existing.get(folder.space)
            alike = current is not None and current.model.partition("#")[0] == folder.model
            if current is None or not alike or current.dimension != folder.dimension:
                await self._collection.add_space(EmbeddingSpace(folder.space, folder.dimension, folder.model))
        self._models = self._spaces_now()

    def _spaces_now(self) -> dict[str, str]:
        """Return the model of each existing space."""
        return {space.name: space.model for space in self._collection.spaces}

    # Posts

    async def _import_posts(self, posts: Iterator[GivenPost], writing: PostBatchWriter) -> None:
        """Import posts batch by batch. The next batch is read meanwhile."""

        def next_batch() -> list[GivenPost]:
            batch: list[GivenPost] = []
            size = 0
            for number, each in enumerate(itertools.islice(posts, BATCH), 1):
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
        stored_records = await self._collection.get([str(post) for post in ids])
        pairs = await asyncio.to_thread(self._merge_batch, batch, dict(zip(ids, stored_records, strict=True)))
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
            latest = pair.after if pair else before
            after = self._post_after(each, latest)
            if after is not None:
                pairs[each.post_id] = _PostChange(before, after, each.vectors)
        return pairs

    def _post_after(self, row: GivenPost, post: Post | None) -> Post | None:
        """Return the post after a row, None if no such post exists."""
        if row.post is None:
            if post is None:
                self._opened.unknown(row)
                return None
            return enriched(post, row.result)
        level = self._outcomes.level(row.post_id)
        if level and row.counts is not None:
            row.counts.duplicates += 1
        self._outcomes.give(row.post_id, row.post.log_type)
        return enriched(merged(post, row.post, level), row.result)

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
        for number, (post, (before, after, new_vectors)) in enumerate(pairs.items(), 1):
            if not number % _YIELDED:
                time.sleep(0)
            had = stored.get(post, {})
            same = before == after
            vectors = {**(unchanged_vectors(before, after, had) if before is not None else {}), **new_vectors}
            if same and all(vectors[space] == vector for space, vector in had.items()):
                self._lacking |= new_vectors.keys() - had.keys()
                self._outcomes.count(post, PostOutcome.UNCHANGED)
                continue
            self._outcomes.count(post, PostOutcome.NEW if before is None else PostOutcome.CHANGED)
            self._report.count_vectors(sum(had.get(space) != vector for space, vector in vectors.items()))
            records.append(record_of(after, vectors))
        return records

    # After all posts

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
        seconds = max(time.monotonic() - self._began, 0.001)
        note = say(
            "{posts:,} {posts:post|posts}, {rate:,} a second: {new:,} new, {changed:,} changed",
            posts=self._posts,
            rate=round(self._posts / seconds),
            new=self._report.new,
            changed=self._report.changed,
        )
        self._progress.tell(done, self._opened.total, note)


_END = object()
