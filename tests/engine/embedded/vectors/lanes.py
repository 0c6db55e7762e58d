"""The lanes of :mod:`tests.engine.embedded.lanes` with vectors that show from which record they are made."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec

from tabane.search.records import EmbeddingSpace, Record, Shape
from tests.engine.embedded import shapes
from tests.engine.embedded.lanes import Operation
from tests.engine.embedded.vectors.oracle import packed

SHAPE = Shape(
    shapes.SHAPE.name,
    shapes.SHAPE.texts,
    shapes.SHAPE.fields,
    (EmbeddingSpace("text", 64), EmbeddingSpace("image", 3)),
)


def vectors_of(record: Record) -> dict[str, bytes]:
    """What the record's vectors are: one in each space, or only one of them."""
    digest = hashlib.sha512(record.payload + record.key.encode()).digest()
    found = {"text": packed([byte - 127.5 for byte in digest])}
    return found if digest[0] % 3 else found | {"image": packed([byte + 1.0 for byte in digest[:3]])}


def with_vectors(operation: Operation) -> Operation:
    return replace(
        operation,
        records=tuple(
            msgspec.structs.replace(record, vectors=vectors_of(record)) for record in operation.records
        ),
    )


# Many and large ones: what is read at an opening shows beside what is there.

LARGE = Shape("large", spaces=(EmbeddingSpace("text", 1024),))


def large(number: int) -> Record:
    digest = hashlib.sha256(str(number).encode()).digest()
    vector = packed([byte - 127.5 for byte in digest * 32])
    return Record(key=f"{number:06}", payload=digest * 128, vectors={"text": vector})


# Generations: a collection whose one space is succeeded again and again.

BARE = Shape("notes")
RECORDS = 200


def space_of(name: str, generation: int) -> EmbeddingSpace:
    return EmbeddingSpace(name, 3 + generation % 2, str(generation))


def of_generation(generation: int) -> bytes:
    return packed([1.0, float(generation), 0.0, 1.0][: 3 + generation % 2])
