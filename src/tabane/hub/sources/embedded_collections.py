"""Embedded collections of a hub: the texts of each that are embedded, and how many of them are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tabane.documents import document
from tabane.messages import Message, say
from tabane.posts import post
from tabane.posts.post import cleaned
from tabane.reader import page as pages
from tabane.search.embedding.model_families import reads
from tabane.search.engine import Order
from tabane.search.pipeline import Incomplete
from tabane.search.records import (
    EVERYTHING,
    EmbeddingSpace,
    Equal,
    Field,
    Filter,
    Kind,
    Record,
    Shape,
    TextField,
)

if TYPE_CHECKING:
    from tabane.hub.context import HubContext
    from tabane.search.engine import Collection

_LOOKED_AT = 1000  # records without a vector that are checked for a text to embed
_SAMPLE = 200
_MOST = 0.5  # share of readable texts from which on nobody is told of the others

WORTH = 0.1
"""Share of texts that a model must be able to read. Below it, a collection is not embedded at all."""


class EmbeddedCollection(Struct, frozen=True):
    """A collection with semantic search.

    ``spaces``: the name of each, and which records have something to embed in it. ``text`` returns that
    text, "" if there is none. ``follows``: the contents are derived, so they take another model as soon as
    the settings name one; other collections keep their model until they are re-embedded. ``newest`` is the
    field with the time of a record; without one, the record that was written last is the newest. ``called``
    is the name of the collection in its user's words.
    """

    domain: str
    shape: Shape
    spaces: Mapping[str, Filter]
    text: Callable[[Record, str], str]
    follows: bool = False
    newest: str | None = None
    called: Message | None = None

    @property
    def name(self) -> str:
        return self.shape.name

    @property
    def title(self) -> Message:
        return self.called or say("{name}", name=self.name)


class EmbeddingCoverage:
    """Counts the records of one collection that have a vector, and those that will never have one.

    If the settings leave the choice of the model to Tabane, texts that the model cannot read are not
    embedded: their vectors would be noise.
    """

    def __init__(self, whose: EmbeddedCollection, context: HubContext) -> None:
        self._definition, self._context = whose, context
        self._settled: dict[tuple[EmbeddingSpace, bool], int] = {}
        self._known: dict[str, tuple[object, Incomplete | None]] = {}

    @property
    def named(self) -> bool:
        """Return whether the settings name the model now. If so, it is assumed to read all texts."""
        return self._context.names_model

    def settle(self, space: EmbeddingSpace, lacking: int) -> None:
        """Remember that all records with a readable text have a vector: ``lacking`` others have none."""
        self._settled[space, self.named] = lacking
        self._known.clear()

    def text(self, record: Record, name: str, model: str) -> str:
        """Return the text to embed, "" if there is none or the model cannot read it."""
        text = self._definition.text(record, name)
        return text if self._readable(text, model) else ""

    def _readable(self, text: str, model: str) -> bool:
        return self.named or reads(model, text)

    async def unfit(self, collection: Collection, name: str, model: str) -> Message | None:
        """Return why a model that Tabane chose does not fit: it can read hardly any of the newest texts."""
        texts = await self.sample(collection, name)
        readable = [text for text in texts if self._readable(text, model)]
        if not texts or len(readable) >= WORTH * len(texts):
            return None
        return _unread(self._definition.title, model)

    async def sample(self, collection: Collection, name: str) -> list[str]:
        """Return the texts of the newest records that have one to embed; 200 records are read."""
        newest, where = self._definition.newest, self._definition.spaces[name]
        order = (Order(newest, descending=True),) if newest else ()
        page = await collection.select(where, order=order, limit=_SAMPLE)
        texts = (self._definition.text(stored.record, name) for stored in page.records)
        return [text for text in texts if text]

    async def incomplete(
        self, collection: Collection, names: Iterable[str], problem: Message | None
    ) -> Incomplete | None:
        """Return the status of the space that lacks most vectors; None if none is missing.

        ``problem`` prevents the rest from being embedded.
        """
        gaps = [await self._of_space(collection, name, problem) for name in names]
        return min(filter(None, gaps), key=lambda each: each.share, default=None)

    async def _of_space(
        self, collection: Collection, name: str, problem: Message | None
    ) -> Incomplete | None:
        moment = (collection, collection.changes, collection.remark, problem, self.named)
        remembered = self._known.get(name)
        if remembered is None or remembered[0] != moment:
            where = self._definition.spaces[name]
            total = await collection.count(where)
            embedded = await collection.embedded(name, where)
            incomplete = None
            if embedded < total:
                incomplete = await self._looked(collection, name, embedded, total, problem)
            remembered = self._known[name] = moment, incomplete
        return remembered[1]

    async def _looked(
        self, collection: Collection, name: str, embedded: int, total: int, problem: Message | None
    ) -> Incomplete | None:
        """Separate texts that are still to be embedded from blank ones and those that cannot be read."""
        space = next((each for each in collection.spaces if each.name == name), None)
        if space is None:
            return self._told(embedded, total, problem) if await self.sample(collection, name) else None
        lacking = total - embedded
        settled = lacking <= self._settled.get((space, self.named), 0)
        away = collection.remark is not None  # and a copy does not know which records wait
        if away or (not settled and lacking > _LOOKED_AT):
            return None if settled else self._told(embedded, total, problem)
        page = await collection.waiting(
            name, self._definition.spaces[name], None, 0, min(lacking, _LOOKED_AT)
        )
        texts = [text for stored in page if (text := self._definition.text(stored.record, space.name))]
        readable = sum(self._readable(text, space.model) for text in texts)
        todo, unread = readable, len(texts) - readable
        # If there are many, only a part was checked: the others are assumed to be alike.
        unread = unread * lacking // max(1, len(page))
        if todo and not settled:
            return self._told(embedded, embedded + todo + unread, problem)
        if not unread:
            return None
        share = embedded / (embedded + unread)
        return Incomplete(share, _unread(self._definition.title, space.model), tells=share < _MOST)

    def _told(self, embedded: int, total: int, problem: Message | None) -> Incomplete:
        share = embedded / total
        counts = {
            "what": self._definition.title,
            "embedded": f"{embedded:,}",
            "total": f"{total:,}",
            "share": "<1%"
            if 0 < share < 0.01
            else f"{int(share * 100)}%",  # never 100% if something is missing
        }
        if problem is not None:
            state = say(
                "Only {share} of {what} are indexed for semantic search ({embedded} of {total}): {problem}",
                problem=problem,
                **counts,
            )
        else:
            state = say(
                "Semantic search of {what} covers {embedded} of {total} so far ({share}), newest first; "
                "see: tabane jobs list.",
                **counts,
            )
        return Incomplete(share, state, problem=problem)


def _unread(what: Message, model: str) -> Message:
    return say(
        "{model} reads English only, so most of {what} are not indexed for semantic search. Choose a model "
        "that reads their language with the setting model, then run: tabane models reembed.",
        model=model.partition("#")[0],
        what=what,
    )


MANUAL = Shape(
    "manual",
    (TextField("title", 2.0), TextField("text")),
    (Field("page", Kind.STRING), Field("lang", Kind.STRING)),
)
"""The collection of the sections of Tabane's documentation."""


def meaning_of_section(record: Record) -> str:
    """Return what of a section is embedded: its headings, then the text below them."""
    return "\n".join(filter(None, (record.texts.get("title"), record.texts.get("text"))))


def _meaning_of_passage(record: Record, space: str) -> str:
    # The modules for pages are imported with the first page.
    from tabane.reader.page_records import meaning

    return meaning(record)


EMBEDDED = (
    EmbeddedCollection(
        "cache",
        MANUAL,
        {"text": EVERYTHING},
        lambda record, _: meaning_of_section(record),
        follows=True,
        called=say("Tabane's documentation"),
    ),
    EmbeddedCollection(
        post.DOMAIN,
        post.SHAPE,
        {name: Equal("has", name) for name in post.SPACES},
        lambda record, space: cleaned(record.texts.get(space, "")),
        newest="at",
        called=say("your posts"),
    ),
    EmbeddedCollection(
        pages.DOMAIN,
        pages.SHAPE,
        {pages.SPACE: pages.PASSAGES},
        _meaning_of_passage,
        follows=True,
        called=say("the pages you have read"),
    ),
    EmbeddedCollection(
        document.DOMAIN,
        document.SHAPE,
        {document.SPACE: document.CHUNKS},
        document.meaning,
        called=say("your documents"),
    ),
)

SHAPES = {
    domain: tuple(each.shape for each in EMBEDDED if each.domain == domain)
    for domain in dict.fromkeys(each.domain for each in EMBEDDED)
}
"""The collections by domain."""

OWN = frozenset({MANUAL.name})
"""Collections that belong to this copy of Tabane: its documentation. They stay in its home."""
