"""Documents of a head and parts, put again and again by exchanges: anybody can work out what is there.

Generation after generation, a quarter of a document's parts is another one: these come, their predecessors
go, the head says which parts it has now, and all others stay as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import chain

import msgspec

from tabane.search.engine import Collection
from tabane.search.records import EmbeddingSpace, Equal, Field, Kind, Record, Shape, TextField
from tests.engine.embedded.model import all_of
from tests.engine.embedded.vectors.oracle import packed

SHAPE = Shape(
    "documents",
    (TextField("body"),),
    (Field("document", Kind.STRING), Field("part", Kind.STRING), Field("generation", Kind.NUMBER)),
    (EmbeddingSpace("text", 8),),
)
SIZES = {"a": 3, "b": 30, "c": 450}
"""Documents and how many parts each has: some share a commit with others, some are larger than a commit."""

_CHANGED = 4  # one part of so many is another one each time


def document(name: str, generation: int, parts: int = 6) -> list[Record]:
    """Head and parts of a document as of a generation."""
    found = [_part(name, number, generation - (generation + number) % _CHANGED) for number in range(parts)]
    head = Record(
        key="=" + name,
        fields={"document": name, "part": "head", "generation": generation},
        payload=json.dumps([part.key for part in found]).encode(),
    )
    return [head, *found]


def _part(name: str, number: int, version: int) -> Record:
    key = f"{name}:{number:05}:{version}"
    digest = hashlib.sha256(key.encode()).digest()
    return Record(
        key=key,
        texts={"body": f"東京 {name} part{number} version{version} " + digest.hex() * (number % 3)},
        fields={"document": name, "part": "part"},
        payload=digest,
        vectors={"text": packed([byte - 127.5 for byte in digest[:8]])},
    )


def gone(before: Sequence[Record], after: Sequence[Record]) -> list[str]:
    """The keys of what is no more."""
    return sorted({record.key for record in before} - {record.key for record in after})


async def advance(collection: Collection, name: str, generation: int, parts: int = 6) -> None:
    """Exchange the generation before this one, where there is one, for this one."""
    now = document(name, generation, parts)
    before = document(name, generation - 1, parts) if generation else []
    known = {record.key for record in before}
    # What stays comes without its vectors, as from one who does not want to work them out again.
    given = [bare(each) if each.key in known else each for each in now]
    done = await collection.exchange(given, gone(before, now))
    changed = {each.key for each in now} - known | {"=" + name}
    assert [each.key for each, new in zip(now, done.results, strict=True) if new] == [
        each.key for each in now if each.key in changed
    ]
    assert done.deleted == len(gone(before, now))


def bare(record: Record) -> Record:
    """The record as it comes back."""
    return msgspec.structs.replace(record, vectors={})


async def generation_of(collection: Collection, name: str, parts: int = 6) -> int | None:
    """Which generation of a document is there, None where nothing is; it is whole, with its vectors."""
    records = await all_of(collection, Equal("document", name), limit=1000)
    if not records:
        return None
    head = records[0]
    assert head.key == "=" + name, "parts without a head"
    generation = head.fields["generation"]
    assert isinstance(generation, int)
    expected = document(name, generation, parts)
    assert {each.key: each for each in records} == {each.key: bare(each) for each in expected}
    keys = [each.key for each in expected]
    vectors = [await collection.vectors(keys[at : at + 1000], "text") for at in range(0, len(keys), 1000)]
    assert list(chain(*vectors)) == [each.vectors.get("text") for each in expected]
    return generation
