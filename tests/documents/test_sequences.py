"""Whatever is put, changed and deleted in whatever order, the documents are those of a plain dictionary."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.documents.document import CHUNKS, SPACE, meaning
from tests.documents.library import Asked, opened

NAMES = st.sampled_from(["a.md", "b.txt", "c.py", "が.md", "dir/a.md"])
PARTS = st.sampled_from(
    [
        "# Title\n\n", "## Part\n", "apples and pears ", "りんごとなし。", "\n\n", "```\ncode here\n```\n",
        "\r\n", "- item\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "\t", "x" * 50, "e\u0301", "🍎", "\0",
        "same words. ",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PARTS, max_size=12).map("".join), st.text(max_size=80))
OWN = st.dictionaries(st.sampled_from(["n", "s"]), st.sampled_from([1, 2, "x"]), max_size=1)


@dataclass(frozen=True)
class Put:
    filepath: str
    text: str
    file_type: str | None
    metadata: Mapping[str, Any]


PUTS = st.builds(Put, NAMES, TEXTS, st.sampled_from([None, "spec"]), OWN)
STEPS = st.lists(st.one_of(PUTS, st.lists(PUTS, max_size=4), NAMES), max_size=8)


@pytest.mark.heavy("many files")
@settings(max_examples=60)
@given(STEPS)
async def test_documents_are_those_of_a_dictionary(steps: list[Put | list[Put] | str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with opened(folder=folder) as asked:
            model: dict[str, Put] = {}
            for step in steps:
                await _taken(asked, model, step)
            await _same(asked, model)


async def _taken(asked: Asked, model: dict[str, Put], step: Put | list[Put] | str) -> None:
    if isinstance(step, str):
        found = await asked.call("delete_document", filepath=step)
        assert found["deleted_count"] == (1 if model.pop(step, None) else 0)
        return
    puts = step if isinstance(step, list) else [step]
    if not puts:
        return
    documents = [_params(put) for put in puts]
    if isinstance(step, Put):
        results = [await asked.call("put_document", **documents[0])]
    else:
        results = (await asked.call("put_documents", documents=documents))["results"]
    before = dict(model)
    for put, result in zip(puts, results, strict=True):
        if not put.text.strip():
            assert result["error_type"] == "EmbeddingError"
            continue
        details = result["details"]
        assert details["unchanged"] == (model.get(put.filepath) == put)
        assert details["updated"] == (put.filepath in model and model[put.filepath] != put)
        assert details["embedded"] is True
        model[put.filepath] = put
    assert before.keys() <= model.keys()


def _params(put: Put) -> dict[str, Any]:
    given_ones = {"text": put.text, "filepath": put.filepath, "metadata": dict(put.metadata)}
    return given_ones if put.file_type is None else given_ones | {"file_type": put.file_type}


async def _same(asked: Asked, model: Mapping[str, Put]) -> None:
    """What is listed, read back and kept is what was put, and nothing else."""
    listed = (await asked.call("list_documents"))["documents"]
    shown = {each["filepath"]: (each["file_type"], each["metadata"]) for each in listed}
    assert shown == {name: (put.file_type, put.metadata) for name, put in model.items()}
    for name, put in model.items():
        assert await asked.whole(name) == put.text
        whole = await (await asked.documents.reading()).text(name)
        assert whole is not None
        assert whole[1].encode() == put.text.encode()
    documents = [each async for each in (await asked.documents.reading()).all()]
    keys = {key for document in documents for key in document.keys}
    records = (await asked.collection.select(CHUNKS, limit=1000)).records
    assert {each.record.key for each in records} == keys
    texts = [meaning(each.record) for each in records]
    vectors = await asked.collection.vectors([each.record.key for each in records], SPACE) if records else []
    model_of = asked.models.known["letters#1"]
    assert vectors == [model_of.vector(text) for text in texts]
