"""Putting a document: effects, answers, and what stays unchanged."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.documents.document import CHUNKS, Draft, FileText, meaning
from tabane.documents.document_reader import MOST
from tabane.documents.document_writer import fewer
from tabane.documents.files.readable_files import FileTextReader
from tabane.documents.operations import is_failure
from tabane.errors import BadArguments, StoreError, StoreFull
from tabane.messages import Message, say
from tabane.operations import Caller, Face, input_schema
from tabane.search.chunking import Chunk
from tabane.search.records import EVERYTHING, EmbeddingSpace
from tests.documents.library import ASSISTANT, CALLER, Asked, Letters, Models, Words, opened

ENGLISH = Caller("local", Face.RPC, "test", "en")

GUIDE = """# Guide

Apples and pears grow on trees.

## Install

Fetch the thing and run it with bananas.

## Use

Eat oranges daily, or lemons where there are none.
"""


async def test_a_put_answers_with_the_json_of_the_document_store() -> None:
    async with opened() as asked:
        assert await asked.call("put_document", text="apples and pears", filepath="/docs/spec.txt") == {
            "status": "success",
            "message": "ドキュメントを登録しました",
            "details": {
                "count": 1,
                "collection": "documents",
                "filepath": "/docs/spec.txt",
                "vector_dimension": 26,
                "persist_directory": "folder",
                "normalized": False,
                "chunks": 1,
                "updated": False,
                "unchanged": False,
                "embedded": True,
            },
        }
        text = await asked.text("put_document", text="others", filepath="x", file_type="spec", normalize=True)
        assert text.startswith('{\n  "status": "success",\n  "message": "ドキュメントを登録しました",\n')
        assert '"normalized": true' in text


async def test_what_is_no_document_is_refused_with_the_json_of_an_error() -> None:
    async with opened(largest=100) as asked:
        for text, filepath, kind, message in (
            ("", "a", "EmbeddingError", "埋め込み生成に失敗しました: テキストが空です。"),
            (" \n\u3000", "a", "EmbeddingError", "埋め込み生成に失敗しました: テキストが空です。"),
            ("a", "", "ValidationError", "filepath: 1～900バイトにしてください"),
            ("a", "あ" * 301, "ValidationError", "filepath: 1～900バイトにしてください"),
            ("a", "../etc/passwd", "ValidationError", "filepath: 「..」を含むパスは使えません"),
            ("a", "a\\..\\b", "ValidationError", "filepath: 「..」を含むパスは使えません"),
            ("a", "a\0b", "ValidationError", "filepath: NULは使えません"),
            ("a" * 101, "a", "ValidationError", "text: 101バイトあります。上限は100バイトです"),
        ):
            found = await asked.call("put_document", text=text, filepath=filepath)
            assert found == {"status": "error", "message": message, "error_type": kind}
            assert is_failure(found)
        assert await asked.collection.count(EVERYTHING) == 0
        assert asked.models.known["letters#1"].embedded == []


async def test_half_a_character_is_refused() -> None:
    async with opened() as asked:
        params = b'{"filepath": "a", "text": "half \\ud83d"}'
        found = await asked.door.invoke(ENGLISH, "put_document", params)
        assert (found["status"], found["error_type"]) == ("error", "ValidationError")


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"text": "a"}, "filepath"),
        ({"filepath": "a"}, "text"),
        ({"filepath": "a", "text": 1}, "text"),
        ({"filepath": "a", "text": "a", "normalize": "yes"}, "normalize"),
        ({"filepath": "a", "text": "a", "metadata": []}, "metadata"),
        ({"filepath": "a", "text": "a", "colour": "red"}, "colour"),
    ],
)
async def test_what_is_missing_or_mistyped_is_answered_with_json(
    params: Mapping[str, Any], parameter: str
) -> None:
    async with opened() as asked:
        refused = await asked.call("put_document", **params)
        assert (refused["status"], refused["error_type"]) == ("error", "ValidationError")
        assert refused["message"].startswith(f"{parameter}: ")


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": {"b": 1}},
        {"a": [1]},
        {"a": ["x", 1]},
        {"a": 2**53 + 1},
        {"$and": "x"},
        {"a\0b": "x"},
        {"": "x"},
        {"filepath": "x"},
        {"updated_at": "x"},
        {"a": "x" * 3_001},
        {str(number): 1 for number in range(65)},
        {"a": ["x"] * 501},
        {f"k{number}": "x" * 2_900 for number in range(10)},
    ],
)
async def test_metadata_that_cannot_be_filtered_by_is_refused(metadata: Mapping[str, Any]) -> None:
    async with opened() as asked:
        found = await asked.call("put_document", text="a", filepath="a", metadata=metadata)
        assert (found["status"], found["error_type"]) == ("error", "ValidationError")
        assert "metadata" in found["message"]
        assert await asked.collection.count(EVERYTHING) == 0


async def test_unchanged_text_is_neither_written_nor_embedded_again() -> None:
    async with opened() as asked:
        model = asked.models.known["letters#1"]
        await asked.put("guide.md", GUIDE, metadata={"a": 1})
        changes, embedded = asked.collection.changes, len(model.embedded)
        asked.now += 1000
        again = await asked.put("guide.md", GUIDE, metadata={"a": 1})
        assert (again["unchanged"], again["updated"], again["embedded"]) == (True, False, True)
        assert (asked.collection.changes, len(model.embedded)) == (changes, embedded)
        assert asked.heard == [("guide.md", "created")]
        (document,) = (await asked.call("list_documents"))["documents"]
        assert document["updated_at"] == "2025-11-13T02:13:20Z"


async def test_an_edit_embeds_the_chunks_that_changed_alone() -> None:
    async with opened() as asked:
        model = asked.models.known["letters#1"]
        await asked.put("guide.md", GUIDE)
        rows = {each.record.key: each.row for each in (await asked.collection.select(CHUNKS)).records}
        asked.now += 1000
        details = await asked.put("guide.md", GUIDE.replace("bananas", "cherries"))
        assert (details["updated"], details["embedded"]) == (True, True)
        assert len(model.embedded[1]) == 1
        assert "cherries" in model.embedded[1][0]
        left = {each.record.key: each.row for each in (await asked.collection.select(CHUNKS)).records}
        assert len(rows.items() & left.items()) == len(rows) - 2  # it, and the first, which is the head
        assert await asked.found("bananas", mode="lexical") == []
        assert await asked.found("cherries", mode="lexical") == ["guide.md"]
        assert asked.heard == [("guide.md", "created"), ("guide.md", "updated")]


async def test_what_is_put_before_the_others_embeds_itself_alone() -> None:
    async with opened() as asked:
        model = asked.models.known["letters#1"]
        fruits = [
            f"{fruit} " + "grow on trees in the old garden behind the house." for fruit in ("Apples", "Figs")
        ]
        await asked.put("fruit.txt", "\n\n".join(fruits))
        whole = "\n\n".join(["Dates do so in other lands, where it never rains.", *fruits])
        details = await asked.put("fruit.txt", whole)
        assert (details["chunks"], details["embedded"]) == (3, True)
        assert model.embedded[1:] == [["Dates do so in other lands, where it never rains."]]
        vectors = await asked.collection.vectors(
            (await (await asked.documents.reading()).behind(None, 1)).documents[0].keys, "text"
        )
        assert vectors == [model.vector(text) for text in whole.split("\n\n")]
        await asked.put("fruit.txt", "\n\n".join(fruits))
        assert len(model.embedded) == 2


async def test_changed_metadata_alone_carries_the_vectors_over() -> None:
    async with opened() as asked:
        model = asked.models.known["letters#1"]
        await asked.put("guide.md", GUIDE, metadata={"year": 2020})
        before = {each.record.key: each for each in (await asked.collection.select(CHUNKS)).records}
        vectors = await asked.collection.vectors(list(before), "text")
        details = await asked.put("guide.md", GUIDE, metadata={"year": 2021}, file_type="spec")
        assert (details["updated"], details["embedded"], details["unchanged"]) == (True, True, False)
        assert len(model.embedded) == 1
        assert await asked.collection.vectors(list(before), "text") == vectors
        assert await asked.found("bananas", filters={"year": 2021}, file_type="spec") == ["guide.md"]
        assert await asked.found("bananas", filters={"year": 2020}) == []


async def test_another_measure_cuts_the_text_again() -> None:
    async with opened() as asked:
        text = " ".join(f"word{number}." for number in range(100))
        first = (await asked.put("a.txt", text))["chunks"]
        asked.models.measured = Words(50, "longer")
        asked.now += 1000
        again = await asked.put("a.txt", text)
        assert again["chunks"] < first
        assert (again["unchanged"], again["updated"]) == (True, False)
        assert await asked.chunks() == again["chunks"]
        assert await asked.whole("a.txt") == text


async def test_without_a_model_documents_are_found_by_their_words_and_embedded_later() -> None:
    async with opened(Models()) as asked:
        details = await asked.put("guide.md", GUIDE)
        assert (details["embedded"], details["vector_dimension"]) == (False, None)
        assert details["warning"] == "There is no model here."
        assert asked.woken == 1
        found = await asked.call("search_documents", query="bananas")
        assert found["warning"] == "There is no model here."
        assert found["results"][0]["filepath"] == "guide.md"
        vector = await asked.call("search_documents", query="bananas", mode="vector")
        assert (vector["status"], vector["error_type"]) == ("error", "EmbeddingError")
        asked.models.known["letters#1"] = Letters()
        asked.models.wants = "letters#1"
        await asked.put("other.md", "Figs.")
        waiting = await asked.put("guide.md", GUIDE)
        assert (waiting["unchanged"], waiting["embedded"]) == (True, False)
        assert "warning" in waiting
        assert asked.woken == 2
        await asked.fill()
        assert (await asked.put("guide.md", GUIDE))["embedded"] is True
        assert (await asked.call("get_document_stats"))["embedded_chunks"] == await asked.chunks()


async def test_nobody_waits_for_a_model_that_is_being_opened() -> None:
    async with opened(patience=0.05) as asked:
        asked.models.loading = asyncio.Event()
        details = await asked.put("guide.md", GUIDE)
        assert (details["embedded"], asked.woken) == (False, 1)
        assert "準備" in details["warning"]
        asked.models.loading.set()
        asked.models.known["letters#1"].gate = asyncio.Event()  # and none that takes too long
        slow = await asked.put("slow.md", GUIDE)
        assert (slow["embedded"], slow["vector_dimension"]) == (False, 26)
        assert sorted(await asked.found("bananas", mode="lexical")) == ["guide.md", "slow.md"]


@pytest.mark.parametrize("trouble", ["none", "away", "bad"])
async def test_a_named_model_that_fails_stores_nothing(trouble: str) -> None:
    async with opened(named=True) as asked:
        await asked.put("guide.md", GUIDE)
        model = asked.models.known["letters#1"]
        if trouble == "none":
            asked.models.known.clear()
        model.away, model.bad = trouble == "away", "bananas" if trouble == "bad" else None
        found = await asked.call("put_document", filepath="guide.md", text="All of it with bananas")
        assert (found["status"], found["error_type"]) == ("error", "EmbeddingError")
        assert found["message"].startswith("埋め込み生成に失敗しました: ")
        assert await asked.whole("guide.md") == GUIDE
        assert asked.heard == [("guide.md", "created")]


async def test_a_model_that_was_only_looked_for_may_be_away() -> None:
    async with opened() as asked:
        asked.models.known["letters#1"].away = True
        assert (await asked.put("guide.md", GUIDE))["embedded"] is False
        assert await asked.whole("guide.md") == GUIDE


async def test_of_many_documents_one_that_fails_takes_no_other_along() -> None:
    async with opened() as asked:
        asked.models.known["letters#1"].bad = "poison"
        documents = [
            {"filepath": "a.txt", "text": "apples"},
            {"filepath": "../b", "text": "bananas"},
            {"filepath": "c.txt"},
            {"filepath": "d.txt", "text": "poison"},
            {"filepath": "e.txt", "text": "eggs", "metadata": {"n": 1}},
            {"filepath": "a.txt", "text": "avocados"},
        ]
        found = await asked.call("put_documents", documents=documents)
        assert (found["status"], found["failed"]) == ("partial", 3)
        kinds = [result.get("error_type") for result in found["results"]]
        assert kinds == [None, "ValidationError", "ValidationError", "EmbeddingError", None, None]
        assert found["results"][2]["filepath"] == "c.txt"
        assert found["results"][5]["details"]["updated"] is True
        assert not is_failure(found)
        assert await asked.whole("a.txt") == "avocados"
        assert await asked.found("eggs") == ["e.txt", "a.txt"]
        bad = await asked.call("put_documents", documents=documents[1:3])
        assert (bad["status"], bad["failed"], is_failure(bad)) == ("error", 2, True)
        for wrong in ([], documents * 200, "a", [1]):
            refused = await asked.call("put_documents", documents=wrong)
            assert (refused["status"], refused["error_type"]) == ("error", "ValidationError")


async def test_the_chunks_of_a_batch_are_embedded_together() -> None:
    async with opened() as asked:
        documents = [{"filepath": f"{number}.md", "text": GUIDE} for number in range(5)]
        found = await asked.call("put_documents", documents=documents)
        assert (found["status"], found["failed"]) == ("success", 0)
        (texts,) = asked.models.known["letters#1"].embedded
        assert len(texts) == await asked.chunks() == 5 * found["results"][0]["details"]["chunks"]


async def test_who_puts_much_does_not_wait_for_its_vectors() -> None:
    async with opened() as asked:
        await asked.put("first.md", "The first.")  # so that there is a space
        documents = [{"filepath": f"{number}.md", "text": f"Text {number}."} for number in range(MOST + 1)]
        found = await asked.call("put_documents", documents=documents)
        assert (found["status"], found["failed"]) == ("success", 0)
        assert {result["details"]["embedded"] for result in found["results"]} == {False}
        assert "インデックスを作成中" in found["results"][0]["details"]["warning"]
        assert asked.woken
        await asked.fill()
        assert not await asked.collection.lacking("text")


async def test_puts_of_one_document_at_once_leave_it_whole() -> None:
    async with opened() as asked:
        texts = [f"{GUIDE}\n\nVersion {number}." for number in range(20)]
        await asyncio.gather(*(asked.put("guide.md", text) for text in texts))
        assert await asked.whole("guide.md") in texts
        (document,) = (await asked.call("list_documents"))["documents"]
        assert await asked.chunks() == document["chunks"]


async def test_a_put_whose_caller_left_is_done_before_the_next_one() -> None:
    async with opened() as asked:
        await asked.put("guide.md", GUIDE)
        late = _Late(asked.collection)
        asked.collection = late
        leaving = asyncio.create_task(asked.put("guide.md", GUIDE.replace("Oranges", "x").replace("e", "3")))
        await late.begun.wait()
        leaving.cancel()
        following = asyncio.create_task(asked.put("guide.md", "Nothing of all that."))
        for _ in range(20):
            await asyncio.sleep(0)
        late.gate.set()
        assert (await following)["updated"] is True
        (document,) = (await (await asked.documents.reading()).behind(None, 10)).documents
        records = (await asked.collection.select(CHUNKS)).records
        assert [each.record.key for each in records] == document.keys
        assert await asked.whole("guide.md") == "Nothing of all that."


async def test_a_model_that_takes_the_place_of_another_embeds_what_was_put_meanwhile() -> None:
    async with opened() as asked:
        await asked.put("first.md", GUIDE)
        old, new = asked.models.known["letters#1"], Letters("letters#2")
        asked.models.known[new.fingerprint] = new
        old.gate = asyncio.Event()
        putting = asyncio.create_task(asked.put("second.md", "Figs and dates."))
        await asked.collection.add_space(EmbeddingSpace("text__next", new.dimension, new.fingerprint))
        await old.asked.wait()
        await asked.collection.succeed("text", "text__next")
        old.gate.set()
        assert (await putting)["embedded"] is True
        chunk = next(
            each.record
            for each in (await asked.collection.select(CHUNKS)).records
            if each.record.fields["document"] == "second.md"
        )
        assert await asked.collection.vectors([chunk.key], "text") == [new.vector(meaning(chunk))]


async def test_a_store_that_fails_is_told_and_nothing_is_half_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as asked:
        await asked.put("guide.md", GUIDE)
        failing = _Failing(asked.collection, deque([True]))
        asked.collection = failing
        with caplog.at_level(logging.WARNING, "tabane"):
            found = await asked.call(
                "put_document", filepath="guide.md", text="secret words", metadata={"key": "secret"}
            )
        assert found == {
            "status": "error",
            "message": "保存に失敗しました: full",
            "error_type": "StorageError",
        }
        assert "guide.md" in caplog.text
        assert "secret" not in caplog.text
        assert await asked.whole("guide.md") == GUIDE
        assert (await asked.put("guide.md", "New."))["updated"] is True


async def test_a_file_is_read_by_who_may_and_put_under_its_path() -> None:
    async def files(path: str) -> FileText:
        if path == "/secret":
            raise BadArguments(say("{name}: {detail}", name=path, detail="not allowed"), "path")
        return FileText("<b>bold</b> move", "text", "A title")

    async with opened(files=files) as asked:
        found = await asked.call("put_file", path="/home/a.html", file_type="html", metadata={"n": 1})
        assert found["details"]["filepath"] == "/home/a.html"
        assert await asked.whole("/home/a.html") == "<b>bold</b> move"
        await asked.call("put_file", path="/home/a.html", filepath="other")
        (listed,) = (await asked.call("list_documents", prefix="oth"))["documents"]
        assert listed["title"] == "A title"
        refused = await asked.call("put_file", path="/secret")
        assert (refused["status"], refused["error_type"]) == ("error", "ValidationError")
    async with opened() as collection:
        await _no_files(collection)


async def _no_files(asked: Asked) -> None:
    assert "put_file" not in {operation.name for operation in asked.table}


async def test_a_file_that_is_sent_becomes_a_document() -> None:
    async with opened(uploads=FileTextReader()) as asked:
        for content, encoding in (("# 議事録\n".encode(), None), ("# 議事録\n".encode("euc_jp"), "euc_jp")):
            sent = {"content": base64.b64encode(content).decode(), "encoding": encoding}
            found = await asked.call("put_upload", filepath="notes/a.md", metadata={"n": 1}, **sent)
            assert found["status"] == "success", found
            assert await asked.whole("notes/a.md") == "# 議事録\n"
        (listed,) = (await asked.call("list_documents"))["documents"]
        assert (listed["title"], listed["file_type"], listed["metadata"]) == ("議事録", "markdown", {"n": 1})
        for wrong, named in (("!", "base64"), ("AAAA", "a.bin cannot be saved"), ("", "cannot be saved")):
            refused = await asked.call("put_upload", ENGLISH, filepath="a.bin", content=wrong)
            assert refused["error_type"] == "ValidationError"
            assert named in refused["message"]


async def test_an_edit_does_not_replace_a_text_that_its_author_has_not_seen() -> None:
    async with opened() as asked:
        await asked.put("notes.txt", "# one", replaces="")
        seen = await asked.call("get_document", filepath="notes.txt")
        assert seen["kind"] == "text"
        await asked.put("notes.txt", "two", replaces=seen["hash"])
        for given_hash in (seen["hash"], ""):
            refused = await asked.call(
                "put_document", filepath="notes.txt", text="three", replaces=given_hash
            )
            assert (refused["status"], refused["error_type"]) == ("error", "ConflictError")
        await asked.call("delete_document", filepath="notes.txt")
        refused = await asked.call("put_document", filepath="notes.txt", text="three", replaces=seen["hash"])
        assert refused["error_type"] == "ConflictError"
        assert await asked.whole("notes.txt") is None


async def test_what_every_client_is_shown_costs_few_tokens() -> None:
    async with opened() as asked:
        operation = asked.door.operation(ASSISTANT, "put_document")
        shown = msgspec.json.encode([operation.description, input_schema(operation.params)])
        assert len(shown) < 700
        assert operation.failed is not None
        assert operation.failed({"status": "error"})
        assert not operation.failed({"status": "success"})
        for each in asked.table:
            assert input_schema(each.params)


async def test_a_source_is_kept_and_is_no_change_to_a_reader() -> None:
    async with opened() as asked:
        await asked.documents.put([Draft("a.txt", "apples", source="one")])
        (stored,) = await asked.documents.put([Draft("a.txt", "apples", source="two")])
        assert not isinstance(stored, StoreError)
        (known,) = await (await asked.documents.reading()).documents(["a.txt"])
        assert known is not None
        assert known.source == "two"
        assert asked.heard == [("a.txt", "created")]
        assert "two" not in str(await asked.call("list_documents", CALLER))


class _Failing:
    """A collection whose next exchanges fail."""

    def __init__(self, collection: Any, failures: deque[bool]) -> None:
        self._collection, self._failures = collection, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    async def exchange(self, *records: Any) -> Any:
        if self._failures:
            self._failures.popleft()
            raise StoreFull(Message("full"))
        return await self._collection.exchange(*records)


class _Late:
    """A collection that commits when it is let, as one does whose writer is busy; whoever leaves."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    async def exchange(self, *records: Any) -> Any:
        async def later() -> Any:
            await self.gate.wait()
            return await self._collection.exchange(*records)

        self.begun.set()
        return await asyncio.shield(asyncio.ensure_future(later()))


@given(st.integers(1, 200), st.integers(1, 50))
def test_too_many_chunks_are_joined_as_evenly_as_may_be(count: int, most: int) -> None:
    spans = [Chunk(place * 10, place * 10 + 12, (str(place),)) for place in range(count)]
    found = fewer(spans, most)
    assert len(found) == min(count, most)
    assert (found[0].start, found[-1].end) == (0, spans[-1].end)
    assert all(one.start < other.start <= one.end for one, other in pairwise(found))
    sizes = {chunk.end - chunk.start for chunk in found}
    assert max(sizes) - min(sizes) <= 10


async def test_a_text_that_grows_where_it_is_stored_is_refused_in_words_of_its_own() -> None:
    async with opened(Models()) as asked:
        await asked.put("a", "what was there")
        answer = await asked.call("put_document", filepath="a", text='"\\x01' * 1_300_000)
        assert answer["error_type"] == "ValidationError"
        assert answer["message"].startswith("text: ")
        assert "分割して" in answer["message"]
        assert await asked.whole("a") == "what was there"
