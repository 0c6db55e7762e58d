"""Writes and deletes documents. A head and its chunks change together, even if the process dies."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

from tabane.documents import cutting
from tabane.documents.cutting import DocumentChange
from tabane.documents.document import Document, Draft
from tabane.documents.document_names import checked_filepath
from tabane.documents.document_reader import DocumentReader
from tabane.documents.put_batch import PutOutcome, written
from tabane.documents.put_embedding import PutEmbedding
from tabane.errors import HubError, TabaneError
from tabane.messages import say
from tabane.search.engine import Collection
from tabane.search.models import Models


class DocumentLocks:
    """A lock for each name that is in use or waited for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Yield all of these, taken in one order by everybody, so that no two wait for each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield


log = logging.getLogger(__name__)

T = TypeVar("T")

Event = Literal["created", "updated", "deleted"]
Told = Callable[[str, Event], None]


class DocumentWriter:
    """Writes the documents of one collection. ``wake`` is called where something is left to be embedded."""

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        embedding: PutEmbedding,
        reading: DocumentReader,
        wake: Callable[[], None],
        clock: Callable[[], float],
        largest: Callable[[], int],
        told: Told,
    ) -> None:
        self._collection, self._models, self._embedding = collection, models, embedding
        self._reading, self._wake, self._clock, self._largest = reading, wake, clock, largest
        self._told = told
        self._locks = DocumentLocks()
        self._running: set[asyncio.Future[Any]] = set()

    async def put(self, drafts: Sequence[Draft]) -> list[PutOutcome | TabaneError]:
        """Put documents, each in place of the one of its name: what became of each, or why it could not be.

        Of two drafts with one name the later one stays. One that fails takes no other with it.
        """
        results: list[PutOutcome | TabaneError | None] = [None] * len(drafts)
        ready: dict[int, Draft] = {}
        for place, draft in enumerate(drafts):
            try:
                ready[place] = cutting.checked(draft, self._largest())
            except TabaneError as error:
                results[place] = error
        for turn in _turns(ready):
            for place, result in (await self._begun(self._together(turn))).items():
                results[place] = result
        return [result for result in results if result is not None]

    async def delete(self, filepaths: Iterable[str]) -> int:
        """Take documents out; how many there were. Raises BadArguments for what can be no name."""
        names = list(dict.fromkeys(checked_filepath(filepath) for filepath in filepaths))
        return await self._begun(self._delete(names))

    async def _begun(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that continues if its caller is cancelled: later writes read what it wrote."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _delete(self, names: Sequence[str]) -> int:
        removed = 0
        async with self._locks.held(names):
            collection = await self._collection()
            for document in await self._reading.documents(names):
                if document is not None:
                    await collection.exchange((), document.keys)
                    self._told(document.filepath, "deleted")
                    removed += 1
        return removed

    async def _together(self, drafts: Mapping[int, Draft]) -> dict[int, PutOutcome | TabaneError]:
        """Put drafts of different names: embedded together, committed one by one."""
        async with self._locks.held(draft.filepath for draft in drafts.values()):
            try:
                before = await self._reading.documents([draft.filepath for draft in drafts.values()])
                changes = await asyncio.to_thread(self._changes, drafts, before)
                found = await written(await self._collection(), self._embedding, changes)
            except TabaneError as error:
                return dict.fromkeys(drafts, error)
            if any(isinstance(each, PutOutcome) and not each.embedded for each in found.values()):
                self._wake()
            for each in found.values():
                if isinstance(each, PutOutcome) and not each.unchanged:
                    self._told(each.document.filepath, "updated" if each.existed else "created")
            return found

    def _changes(
        self, drafts: Mapping[int, Draft], before: Sequence[Document | None]
    ) -> dict[int, DocumentChange | TabaneError]:
        """Blocks: long texts take their time to be measured."""
        measure, now = self._models.measure(), self._clock()
        found: dict[int, DocumentChange | TabaneError] = {}
        for (place, draft), there in zip(drafts.items(), before, strict=True):
            try:
                found[place] = cutting.change(draft, there, measure, now)
            except TabaneError as error:
                found[place] = error
            except Exception:
                # One text that the rules of cutting stumble over is no reason to lose the others.
                log.exception("%s cannot be cut into chunks", draft.filepath)
                found[place] = HubError(
                    say("The text could not be split into chunks. The hub's log has the reason: tabane logs")
                )
        return found


def _turns(drafts: Mapping[int, Draft]) -> list[dict[int, Draft]]:
    """Return the drafts by how often their name came before."""
    turns: list[dict[int, Draft]] = []
    seen: Counter[str] = Counter()
    for place, draft in drafts.items():
        if seen[draft.filepath] == len(turns):
            turns.append({})
        turns[seen[draft.filepath]][place] = draft
        seen[draft.filepath] += 1
    return turns
