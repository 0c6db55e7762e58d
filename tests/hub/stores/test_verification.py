"""A copy that differs from its source in any way is not taken for the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.hub.stores.migration import verified
from tabane.search.records import Record
from tests.harness.stored_collections import DOCUMENTS, documents, fill, vector

RECORDS = documents(60)


def changed(place: int, **parts: object) -> list[Record]:
    return [*RECORDS[:place], msgspec.structs.replace(RECORDS[place], **parts), *RECORDS[place + 1 :]]


def differences(folder: Path, copied: list[Record]) -> list[str]:
    fill(folder / "source", "documents", DOCUMENTS, RECORDS)
    fill(folder / "target", "documents", DOCUMENTS, copied)

    async def comparing() -> list[str]:
        stores = [
            await Store.open(str(folder / name / "store"), "documents", lexical=open_lexical)
            for name in ("source", "target")
        ]
        try:
            source, target = [await each.collection(DOCUMENTS) for each in stores]
            found = await verified(source, target, DOCUMENTS, RECORDS)
            return [str(each) for each in found.differences]
        finally:
            for each in stores:
                await each.close()

    return asyncio.run(comparing())


def test_the_same_records_are_the_same(tmp_path: Path) -> None:
    assert differences(tmp_path, RECORDS) == []


@pytest.mark.parametrize(
    ("copied", "named"),
    [
        (RECORDS[1:], "number of records: 60, then 59"),
        (changed(7, vectors={}), "vectors of text: 54, then"),
        (changed(7, vectors={"text": vector(1000)}), "another record: d000007"),
        (changed(7, payload=b"other"), "another record: d000007"),
        (changed(7, fields={"part": "other"}), "values of part differ"),
        (changed(7, texts={"text": "nothing of it"}), "words of d000007 differ"),
    ],
)
def test_a_difference_is_named(tmp_path: Path, copied: list[Record], named: str) -> None:
    assert any(named in each for each in differences(tmp_path, copied))
