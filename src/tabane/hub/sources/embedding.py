"""Stores that the settings name, and the background embedding of the collections in them.

Each record without a vector gets one. The collection itself shows which records have none, so the next hub
continues after a hub was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from tabane.errors import BadArguments, ModelError
from tabane.hub.context import HubContext
from tabane.hub.stores.domain_stores import FOLDER, UNFINISHED, Shapes, Stores
from tabane.messages import Message, say
from tabane.operations import Caller, Lazy, Operation, Progress, Starter

if TYPE_CHECKING:
    from tabane.hub.sources.embedded_collections import EmbeddedCollection
    from tabane.hub.sources.embedding_lane import CollectionLane
    from tabane.search.embedding.embedder import NoModel
    from tabane.search.engine import Collection
    from tabane.search.pipeline import Incomplete, Meaning
    from tabane.search.source import Models
    from tabane.settings import Settings


def stores_of(settings: Settings, environment: Mapping[str, str]) -> Stores:
    """Return the stores that the settings name, none of which is open yet."""
    cache_size = settings.embedding_cache
    if not settings.engine:
        return Stores(settings.home, _shapes, cache_size=cache_size)
    from tabane.hub.sources.embedded_collections import OWN
    from tabane.hub.stores.postgres_engine import named_engine

    engine = named_engine(settings, environment)
    return Stores(settings.home, _shapes, engine, OWN, settings.local_replica, cache_size)


def _shapes() -> Shapes:
    from tabane.hub.sources.embedded_collections import SHAPES

    return SHAPES


class Reembed(Struct, frozen=True, forbid_unknown_fields=True):
    """``collection``: default all. ``model``: default that of the settings."""

    collection: Annotated[str, Meta(max_length=64)] | None = None
    model: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class ReembeddedCollection(Struct, frozen=True):
    """``spaces`` are those that were embedded again; none if all had this model already."""

    collection: str
    spaces: list[str]


class Reembedded(Struct, frozen=True):
    """The result of the operation. ``model`` is the fingerprint of the model."""

    model: str
    results: list[ReembeddedCollection]


class CollectionEmbedder:
    """Keeps collections embedded, and turns questions into vectors. Each collection has its own lane."""

    def __init__(
        self,
        context: HubContext,
        stores: Stores,
        models: Models,
        jobs: Starter,
        collections: Sequence[EmbeddedCollection] | None = None,
    ) -> None:
        """Keep the arguments. ``collections`` are those of a hub, imported on first use, if not given."""
        self._context, self._stores, self._models, self._jobs = context, stores, models, jobs
        self._folder, self._collections = context.home / FOLDER, collections
        self._lanes = Lazy(self._make_lanes)

    def _make_lanes(self) -> Mapping[str, CollectionLane]:
        from tabane.hub.sources.embedded_collections import EMBEDDED, EmbeddingCoverage
        from tabane.hub.sources.embedding_lane import CollectionLane

        return {
            each.name: CollectionLane(
                self._folder,
                each,
                self._stores,
                self._models,
                self._jobs,
                EmbeddingCoverage(each, self._context),
            )
            for each in (EMBEDDED if self._collections is None else self._collections)
        }

    def open(self) -> None:
        """Continue the work that an earlier hub did not finish."""
        if not any(self._folder.glob(f"*{UNFINISHED}")):
            return
        for lane in self._lanes().values():
            if lane.unfinished:
                lane.wake()

    def wake(self, name: str) -> None:
        """Embed the new records of that collection."""
        self._lanes()[name].wake()

    async def idle(self) -> None:
        """Wait until the embedding that the hub itself began is done."""
        for lane in (self._lanes.opened or {}).values():
            await lane.idle()

    async def question(self, collection: Collection, text: str, spaces: Iterable[str]) -> Meaning | NoModel:
        """Return the question as vectors for these spaces of a collection, or why there are none.

        Raises BadArguments if the collection has vectors, but none in such a space.
        """
        return await self._lanes()[collection.shape.name].question(collection, text, tuple(spaces))

    async def missing(self, collection: Collection, spaces: Iterable[str]) -> Incomplete | None:
        """Return how much of these spaces of a collection is embedded; None if all of it is."""
        return await self._lanes()[collection.shape.name].missing(collection, tuple(spaces))

    async def own_models(self) -> list[tuple[str, Message, str]]:
        """Return name, title and model of each collection that keeps the model of its vectors."""
        lanes = self._lanes().items()
        return [
            (name, lane.called, model) for name, lane in lanes for model in sorted(await lane.own_models())
        ]

    def table(self) -> list[Operation]:
        """Return the operation that embeds collections again."""
        return [
            Operation(
                "reembed",
                "Embed collections again with another model; the one they have serves until that is done.",
                Reembed, self.reembed_collections, kind="job", title=self._title,
            )
        ]  # fmt: skip

    def _title(self, params: Reembed) -> Message:
        lanes = [lane for name, lane in self._lanes().items() if params.collection in (None, name)]
        # an unknown collection is refused when the job begins
        return lanes[0].title if len(lanes) == 1 else say("Indexing for semantic search")

    async def reembed(self, progress: Progress) -> Reembedded:
        """Embed all collections with the model of the settings, as the operation does."""
        return await self._reembedded(Reembed(), progress)

    async def close(self) -> None:
        """Stop. What was embedded is on the disk; the next hub continues."""
        for lane in (self._lanes.opened or {}).values():
            await lane.close()

    async def reembed_collections(self, caller: Caller, params: Reembed, progress: Progress) -> Reembedded:
        """Embed collections again. Raises BadArguments and ModelError."""
        return await self._reembedded(params, progress)

    async def _reembedded(self, params: Reembed, progress: Progress) -> Reembedded:
        from tabane.search.embedding.embedder import NoModel

        if params.collection is not None and params.collection not in self._lanes():
            known = ", ".join(self._lanes())
            message = say("collection: {name} is not one of {known}", name=params.collection, known=known)
            raise BadArguments(message, "collection")
        model = await (self._models.serving(params.model) if params.model else self._models.wanted())
        if isinstance(model, NoModel):
            raise ModelError(model.reason)
        names = list(self._lanes()) if params.collection is None else [params.collection]
        chosen = params.model is not None
        spaces = {name: await self._lanes()[name].reembed(model, progress, chosen) for name in names}
        rows = [ReembeddedCollection(name, done) for name, done in spaces.items()]
        return Reembedded(model.fingerprint, rows)
