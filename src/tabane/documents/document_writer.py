"""Writer of documents: cuts them into chunks, embeds several together, and commits them one by one.

A head and its chunks change together, even if the process dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakValueDictionary

from msgspec import structs
from msgspec.structs import replace as changed

from tabane.documents import metadata
from tabane.documents.document import (
    SPACE,
    ChunkSpan,
    ChunkText,
    Document,
    Draft,
    Own,
    chunk_record,
    head_record,
    heading,
    meaning,
    suffix,
)
from tabane.documents.document_reader import (
    STILL_INDEXING,
    DocumentContext,
    DocumentReader,
    PutEmbedding,
    PutVectors,
    space_of,
)
from tabane.documents.metadata import checked_filepath
from tabane.errors import (
    BadArguments,
    Conflict,
    HubError,
    ModelError,
    ModelMissing,
    ModelUnavailable,
    TabaneError,
)
from tabane.messages import Message, say
from tabane.search.engine import LARGEST_VECTORS, MOST_AT_ONCE, MOST_EXCHANGED, Collection
from tabane.search.records import Record, encodable
from tabane.search.source import Models

if TYPE_CHECKING:
    from tabane.search.chunking import Chunk, Measure

MOST_CHUNKS = MOST_EXCHANGED // 2 - 10
"""Chunks of one document: one exchange replaces all the old ones by all the new ones."""

LONGEST_FILE_TYPE = 100  # characters
LONGEST_SOURCE = 20_000
_LONGEST_HEADINGS = 8
_LONGEST_HEADING = 200


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The records to write and delete, so that a document replaces the stored one.

    ``written``: the head, and chunks that are new or have other metadata; empty if there is nothing to do.
    ``carried``: written key → old key, for chunks whose text was stored before. Their vectors still fit.
    ``gone``: keys of chunks to delete.
    """

    document: Document
    before: Document | None
    written: Sequence[Record] = ()
    carried: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()

    @property
    def unchanged(self) -> bool:
        """Return whether a reader sees the same document. Internal members may differ."""
        return self.before is not None and _reads_alike(self.document, self.before)


def checked(draft: Draft, largest: int) -> Draft:
    """Return the normalized draft. ``largest`` is the limit of its text in bytes.

    Raises :class:`BadArguments` that names the parameter; :class:`ModelError` for a text that says nothing,
    which no model can embed.
    """
    filepath = metadata.checked_filepath(draft.filepath)
    text = encodable(draft.text, "text")
    if not text.strip():
        raise ModelError(say("the text is empty."))
    size = len(text) if text.isascii() else len(text.encode())
    if size > largest:
        message = say(
            "text: it has {size} {size:byte|bytes}, more than the limit of {most}",
            size=f"{size:,}",
            most=f"{largest:,}",
        )
        raise BadArguments(message, "text")
    file_type = encodable(draft.file_type or "", "file_type").strip()
    if len(file_type) > LONGEST_FILE_TYPE:
        message = say("file_type: it has at most {most} {most:character|characters}", most=LONGEST_FILE_TYPE)
        raise BadArguments(message, "file_type")
    kind = draft.kind or metadata.kind_of(filepath, text)
    front = metadata.read(text) if kind == "markdown" else metadata.NONE
    title = draft.title
    if title is None:
        title = front.title or metadata.title_of(text[front.end :], kind)
    joined: Mapping[str, Own] = metadata.checked(draft.metadata)
    if front.metadata:
        with suppress(BadArguments):  # both together are too much
            joined = metadata.checked({**front.metadata, **joined})
    title = " ".join(encodable(title, "title").split())[: metadata.LONGEST_TITLE]
    if len(encodable(draft.source, "source")) > LONGEST_SOURCE:
        message = say("{field} must be {wanted}", field="source", wanted=f"≤ {LONGEST_SOURCE}")
        raise BadArguments(message, "source")
    return structs.replace(
        draft,
        filepath=filepath,
        file_type=file_type or None,
        metadata=joined,
        kind=kind,
        title=title,
    )


def change(draft: Draft, before: Document | None, measure: Measure, now: float) -> DocumentChange:
    """Return the change for a checked draft. The text is cut only if it differs from the stored one."""
    encoded = draft.text.encode()
    document = Document(
        filepath=draft.filepath,
        kind=draft.kind or "text",
        updated_at=round(now if draft.updated_at is None else draft.updated_at, 3),
        hash=hashlib.sha256(encoded).hexdigest(),
        size=len(encoded),
        length=len(draft.text),
        measure=measure.name,
        title=draft.title or "",
        file_type=draft.file_type,
        normalize=draft.normalize,
        metadata=dict(draft.metadata),
        source=draft.source,
        labels=draft.labels,
    )
    same = before is not None and (before.hash, before.measure) == (document.hash, document.measure)
    if before is not None and same:
        document = changed(
            document, chunks=before.chunks, above=before.above, labels=document.labels | before.labels
        )
        if changed(document, updated_at=before.updated_at) == before:
            return DocumentChange(before, before)
        shown = ("kind", "title", "file_type", "metadata")
        if all(getattr(document, name) == getattr(before, name) for name in shown):
            # Chunks with the same text have the same records, so only the head differs.
            document = _keep_date(document, before)
            headings = tuple(document.above)
            above = heading(document.filepath, document.title, headings)
            first = ChunkText(draft.text[: document.chunks[0].end], headings, above)
            head = head_record(document, metadata.encoded(document.metadata), first)
            return DocumentChange(document, before, [head], {head.key: head.key})
    if before is not None:
        document = _keep_date(document, before)
    return _compare_chunks(draft, document, before, measure)


def _keep_date(document: Document, before: Document) -> Document:
    """Return the document, with the old date if a reader sees no difference."""
    dated = changed(document, updated_at=before.updated_at)
    return dated if _reads_alike(dated, before) else document


def _reads_alike(document: Document, before: Document) -> bool:
    """Return whether they differ at most in internal members."""
    return before == changed(
        document,
        source=before.source,
        measure=before.measure,
        chunks=before.chunks,
        above=before.above,
        labels=before.labels,
    )


def _compare_chunks(
    draft: Draft, document: Document, before: Document | None, measure: Measure
) -> DocumentChange:
    """Cut the text, and compare its chunks with the stored ones."""
    whole, records = _cut_text(draft, document, measure)
    stored: dict[str, str] = {}
    if before is not None:
        stored = dict(zip((piece.suffix for piece in before.chunks), before.keys, strict=True))
    alike = before is not None and (whole.file_type, whole.metadata) == (before.file_type, before.metadata)
    carried: dict[str, str] = {}
    written: list[Record] = []
    for piece, record in zip(whole.chunks, records, strict=True):
        old = stored.get(piece.suffix)
        if old == record.key and alike and record is not records[0]:
            continue
        written.append(record)
        if old is not None:
            carried[record.key] = old
    gone = set(before.keys if before else ()) - {record.key for record in records}
    return DocumentChange(whole, before, written, carried, sorted(gone))


def _cut_text(draft: Draft, document: Document, measure: Measure) -> tuple[Document, list[Record]]:
    # Imported with the first text: a hub without documents does not need it.
    from tabane.search.chunking import chunks

    spans = fewer(chunks(draft.text, document.kind, measure), MOST_CHUNKS)
    parts: list[ChunkText] = []
    times: Counter[ChunkText] = Counter()
    pieces: list[ChunkSpan] = []
    for span in spans:
        lines = (" ".join(each.split())[:_LONGEST_HEADING] for each in span.headings[:_LONGEST_HEADINGS])
        headings = tuple(filter(None, lines))
        above = heading(document.filepath, document.title, headings)
        content = ChunkText(draft.text[span.start : span.end], headings, above)
        parts.append(content)
        digest = suffix(content.heading, content.headings, content.text, times[content])
        times[content] += 1
        pieces.append(ChunkSpan(digest, span.start, span.end))
    whole = changed(document, chunks=pieces, above=list(parts[0].headings))
    encoded = metadata.encoded(whole.metadata)
    others = zip(pieces[1:], parts[1:], strict=True)
    records = [chunk_record(whole, encoded, piece, content) for piece, content in others]
    return whole, [head_record(whole, encoded, parts[0]), *records]


def fewer(spans: Sequence[Chunk], most: int) -> Sequence[Chunk]:
    """Return at most ``most`` chunks. If there are more, neighbors are joined as evenly as possible."""
    if len(spans) <= most:
        return spans
    joined = []
    for place in range(most):
        first, last = place * len(spans) // most, (place + 1) * len(spans) // most - 1
        joined.append(spans[first]._replace(end=spans[last].end))
    return joined


_ROUNDS = 3
_AT_ONCE = 64  # exchanges: the queue of the store's writer has 1,000 places, for other callers too


@dataclass(frozen=True, slots=True)
class PutOutcome:
    """The outcome for a draft. ``existed``: a document of that name existed; ``unchanged``: it was equal.

    ``dimension`` is that of the collection's vectors, None if there is no model. ``embedded``: the document
    has its own vectors already; otherwise ``warning`` says why not.
    """

    document: Document
    existed: bool
    unchanged: bool
    dimension: int | None = None
    embedded: bool = False
    warning: Message | None = None


async def write_changes(
    collection: Collection, embedding: PutEmbedding, changes: Mapping[int, DocumentChange | TabaneError]
) -> dict[int, PutOutcome | TabaneError]:
    """Write changes. Return the outcome of each by its place. Raises StoreError if nothing can be read."""
    batch = _PutBatch(collection, embedding)
    ready = {place: change for place, change in changes.items() if isinstance(change, DocumentChange)}
    failed = {place: error for place, error in changes.items() if isinstance(error, TabaneError)}
    failed |= await batch.write({place: change for place, change in ready.items() if change.written})
    return {**await batch.stored({at: ready[at] for at in ready if at not in failed}), **failed}


class _PutBatch:
    def __init__(self, collection: Collection, embedding: PutEmbedding) -> None:
        self._collection, self._embedding = collection, embedding
        self._results: dict[int, PutVectors] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def write(self, changes: Mapping[int, DocumentChange]) -> dict[int, TabaneError]:
        """Embed and commit changes. Return the errors of those that failed.

        If another model replaces the first one meanwhile, the vectors are made again with it.
        """
        failed: dict[int, TabaneError] = {}
        for _ in range(_ROUNDS):
            failed = await self._embed(changes)
            ready = [place for place in changes if place not in failed]
            used = {result.space for result in self._results.values()} | {space_of(self._collection)}
            errors = await asyncio.gather(*(self._exchange(place, changes[place]) for place in ready))
            failed |= {place: error for place, error in zip(ready, errors, strict=True) if error}
            if used <= {space_of(self._collection), None}:
                break
        return failed

    async def stored(self, changes: Mapping[int, DocumentChange]) -> dict[int, PutOutcome]:
        """Return the outcomes of changes that did not fail."""
        space = space_of(self._collection)
        lacking = await self._places_without_vectors(changes) if space else set(changes)
        outcomes: dict[int, PutOutcome] = {}
        for place, change in changes.items():
            embedded = place not in lacking
            result = self._results.get(place)
            why = result.warning if result and result.warning else STILL_INDEXING
            outcomes[place] = PutOutcome(
                change.document,
                change.before is not None,
                change.unchanged,
                space.dimension if space else None,
                embedded,
                None if embedded else why,
            )
        return outcomes

    async def _embed(self, changes: Mapping[int, DocumentChange]) -> dict[int, TabaneError]:
        """Embed all new chunks at once; if that fails, those of each document separately."""
        new = {place: _new_chunks(change) for place, change in changes.items()}
        new = {place: records for place, records in new.items() if records}
        try:
            texts = [meaning(record) for records in new.values() for record in records]
            result = PutVectors()
            if new:
                result = await self._embedding.embed_texts(self._collection, texts)
        except (ModelMissing, ModelUnavailable) as error:
            return dict.fromkeys(new, error)
        except ModelError as error:
            return dict.fromkeys(new, error) if len(new) == 1 else await self._embed_each(new)
        at = 0
        for place, records in new.items():
            self._results[place] = replace(result, vectors=result.vectors[at : at + len(records)])
            at += len(records)
        return {}

    async def _embed_each(self, new: Mapping[int, Sequence[Record]]) -> dict[int, TabaneError]:
        failed: dict[int, TabaneError] = {}
        for place, records in new.items():
            try:
                texts = [meaning(record) for record in records]
                self._results[place] = await self._embedding.embed_texts(self._collection, texts)
            except ModelError as error:
                failed[place] = error
        return failed

    async def _exchange(self, place: int, change: DocumentChange) -> TabaneError | None:
        """Commit one document. Return the error if it failed."""
        try:
            space = space_of(self._collection)  # before vectors are read: those of other models are left out
            vectors = await self._carried_vectors(change)
            result = self._results.get(place)
            if result is not None and result.space is not None and result.vectors:
                vectors, space = (vectors if result.space == space else {}), result.space
                new = (record.key for record in _new_chunks(change))
                vectors |= dict(zip(new, result.vectors, strict=True))
            if sum(map(len, vectors.values())) > LARGEST_VECTORS:
                vectors = {}
                self._results[place] = PutVectors(warning=STILL_INDEXING)
            records = [
                changed(record, vectors={SPACE: vectors[record.key]}) if record.key in vectors else record
                for record in change.written
            ]
            async with self._turn:
                models = {} if space is None else {space.name: space.model}
                await self._collection.exchange(records, change.gone, models)
        except BadArguments:
            # Everything else was checked. The text is short enough, but its characters take several bytes.
            message = say("text: it is too large for one document. Split it into several")
            return BadArguments(message, "text")
        except TabaneError as error:
            return error
        return None

    async def _carried_vectors(self, change: DocumentChange) -> dict[str, bytes]:
        """Return the stored vectors of chunks that are written again with the same text."""
        carried: dict[str, bytes] = {}
        if space_of(self._collection) is None:
            return carried
        for part in _slices(list(change.carried)):
            vectors = await self._collection.vectors([change.carried[key] for key in part], SPACE)
            carried |= {key: vector for key, vector in zip(part, vectors, strict=True) if vector is not None}
        return carried

    async def _places_without_vectors(self, changes: Mapping[int, DocumentChange]) -> set[int]:
        """Return the places of changes with a chunk without a vector, among the first 1,000 of each."""
        looked = {
            place: change.document.keys[:MOST_AT_ONCE]
            for place, change in changes.items()
            if not (result := self._results.get(place))
            or not 0 < len(change.document.chunks) == len(result.vectors)
        }
        without: set[str] = set()
        for part in _slices([key for keys in looked.values() for key in keys]):
            vectors = await self._collection.vectors(part, SPACE)
            without |= {key for key, vector in zip(part, vectors, strict=True) if vector is None}
        return {place for place, keys in looked.items() if not without.isdisjoint(keys)}


def _new_chunks(change: DocumentChange) -> list[Record]:
    """Return the chunks with new text."""
    return [record for record in change.written if record.key not in change.carried]


def _slices(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[first : first + MOST_AT_ONCE] for first in range(0, len(keys), MOST_AT_ONCE))


log = logging.getLogger(__name__)

T = TypeVar("T")

Event = Literal["created", "updated", "deleted"]

DocumentListener = Callable[[str, Event], None]
"""Called after a document has changed, with its name."""


class DocumentWriter:
    """Writes the documents of one collection. ``wake`` is called if chunks remain to be embedded.

    ``listeners`` may be added to at any time.
    """

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        embedding: PutEmbedding,
        wake: Callable[[], None],
        context: DocumentContext,
        listeners: Sequence[DocumentListener],
    ) -> None:
        self._collection, self._models, self._embedding = collection, models, embedding
        self._wake, self._context, self._listeners = wake, context, listeners
        # Locks by name of document. A lock exists only while it is held or waited for.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: set[asyncio.Future[Any]] = set()

    async def put(self, drafts: Sequence[Draft]) -> list[PutOutcome | TabaneError]:
        """Store documents, replacing those with the same names. Return an outcome or an error for each.

        If two drafts have one name, the later one stays. A draft that fails does not affect the others.
        """
        checked = await asyncio.to_thread(_check_drafts, drafts, self._context.largest)
        results: dict[int, PutOutcome | TabaneError] = {
            place: error for place, error in enumerate(checked) if isinstance(error, TabaneError)
        }
        ready = {place: draft for place, draft in enumerate(checked) if isinstance(draft, Draft)}
        turns: list[dict[int, Draft]] = []
        seen: Counter[str] = Counter()
        for place, draft in ready.items():
            if seen[draft.filepath] == len(turns):
                turns.append({})
            turns[seen[draft.filepath]][place] = draft
            seen[draft.filepath] += 1
        for turn in turns:
            results |= await self._shielded(self._put_together(turn))
        return [results[place] for place in range(len(drafts))]

    async def delete(self, filepaths: Iterable[str]) -> int:
        """Delete documents. Return how many existed. Raises BadArguments for an invalid name."""
        names = list(dict.fromkeys(checked_filepath(filepath) for filepath in filepaths))
        return await self._shielded(self._delete_locked(names))

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that continues if its caller is canceled, because later writes depend on it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    @asynccontextmanager
    async def _locked(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of these names. They are taken in sorted order, which prevents deadlocks."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            yield

    async def _delete_locked(self, names: Sequence[str]) -> int:
        removed = 0
        async with self._locked(names):
            collection = await self._collection()
            for document in await DocumentReader(collection).documents(names):
                if document is not None:
                    await collection.exchange((), document.keys)
                    self._tell_listeners(document.filepath, "deleted")
                    removed += 1
        return removed

    async def _put_together(self, drafts: Mapping[int, Draft]) -> dict[int, PutOutcome | TabaneError]:
        """Store drafts with different names: embed them together, commit them one by one."""
        async with self._locked(draft.filepath for draft in drafts.values()):
            try:
                collection = await self._collection()
                names = [draft.filepath for draft in drafts.values()]
                before = await DocumentReader(collection).documents(names)
                changes = await asyncio.to_thread(self._make_changes, drafts, before)
                outcomes = await write_changes(collection, self._embedding, changes)
            except TabaneError as error:
                return dict.fromkeys(drafts, error)
            if any(isinstance(each, PutOutcome) and not each.embedded for each in outcomes.values()):
                self._wake()
            for each in outcomes.values():
                if isinstance(each, PutOutcome) and not each.unchanged:
                    self._tell_listeners(each.document.filepath, "updated" if each.existed else "created")
            return outcomes

    def _tell_listeners(self, filepath: str, event: Event) -> None:
        for listener in self._listeners:
            listener(filepath, event)

    def _make_changes(
        self, drafts: Mapping[int, Draft], before: Sequence[Document | None]
    ) -> dict[int, DocumentChange | TabaneError]:
        """Compute the changes. Blocks, because measuring long texts takes time."""
        measure, now = self._models.measure(), self._context.now()
        changes: dict[int, DocumentChange | TabaneError] = {}
        for (place, draft), stored in zip(drafts.items(), before, strict=True):
            try:
                changes[place] = change(_check_replaced(draft, stored), stored, measure, now)
            except TabaneError as error:
                changes[place] = error
            except Exception:
                # A defect in cutting one text must not lose the others.
                log.exception("%s cannot be cut into chunks", draft.filepath)
                changes[place] = HubError(
                    say("The text could not be split into chunks. The hub's log has the reason: tabane logs")
                )
        return changes


def _check_drafts(drafts: Sequence[Draft], largest: int) -> list[Draft | TabaneError]:
    """Return each draft as it is stored, or why it cannot be. Blocks: front matter is parsed."""
    results: list[Draft | TabaneError] = []
    for draft in drafts:
        try:
            results.append(checked(draft, largest))
        except TabaneError as error:
            results.append(error)
    return results


def _check_replaced(draft: Draft, stored: Document | None) -> Draft:
    """Return the draft. Raise Conflict if it may not replace the stored document.

    An edit of a text does not change its kind.
    """
    if draft.replaces is None or draft.replaces == (stored.hash if stored else ""):
        keeps_kind = draft.replaces and stored and not draft.kind
        return structs.replace(draft, kind=stored.kind) if stored and keeps_kind else draft
    if stored is None:
        raise Conflict(say("{filepath} was deleted in the meantime.", filepath=draft.filepath))
    if not draft.replaces:
        raise Conflict(say("A document {filepath} exists already.", filepath=draft.filepath))
    raise Conflict(say("{filepath} was changed in the meantime.", filepath=draft.filepath))
