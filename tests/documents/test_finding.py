"""Search results among documents, their text, and reading a document."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.documents.document import ChunkSpan, Draft
from tabane.documents.document_reader import covering, joined
from tabane.operations import Caller, Face
from tabane.search.source import SearchAnswer, SearchRequest, shown
from tests.documents.library import ASSISTANT, CALLER, opened
from tests.documents.test_putting import GUIDE

ENGLISH = Caller("local", Face.RPC, "test", "en")


async def test_a_search_answers_with_the_originals_envelope_and_the_passages() -> None:
    async with opened() as asked:
        await asked.put("guide.md", GUIDE, file_type="spec", metadata={"year": 2020})
        await asked.put("other.txt", "Nothing of the kind.")
        found = await asked.call("search", query="bananas", top_k=1)
        (result,) = found.pop("results")
        assert found == {
            "status": "success",
            "message": "検索が完了しました",
            "count": 1,
            "top_k": 1,
            "query_vector_dimension": 26,
            "persist_directory": "folder",
        }
        passages = result.pop("passages")
        score = result.pop("score")
        assert result == {
            "id": "guide.md",
            "filepath": "guide.md",
            "file_type": "spec",
            "document": GUIDE,
            "metadata": {
                "filepath": "guide.md",
                "updated_at": "2025-11-13T02:13:20Z",
                "file_type": "spec",
                "title": "Guide",
                "year": 2020,
            },
        }
        best = passages[0]
        assert best["text"] == GUIDE[best["start"] : best["end"]]
        assert "bananas" in best["text"]
        assert best["heading"] == ["Guide", "Install"]
        assert best["score"] == score
        assert 0 < best["cosine"] <= 1
        scores = [passage["score"] for passage in passages]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= each <= 1 for each in scores)


async def test_an_assistant_gets_the_passage_and_asks_for_more() -> None:
    async with opened() as asked:
        long = "# Fruit\n\n" + " ".join(f"word{number}" for number in range(400)) + " bananas at the end"
        asked.models.measured = _Long()
        await asked.put("fruit.md", long)
        brief = {"query": "bananas", "include_documents": False}
        found = await asked.call("search_documents", ASSISTANT, **brief)
        (result,) = found["results"]
        assert result["document"] is None
        best = result["passages"][0]
        assert "bananas" in best["text"]
        assert len(best["text"]) <= 600
        assert best["text"] == long[best["start"] : best["end"]]
        shown = await asked.text("search_documents", **brief)
        assert shown.startswith("🔍 ドキュメント: 1件\n\n1. [")
        assert "fruit.md › Fruit" in shown
        assert "bananas at the end" in shown
        assert len(shown) < 800
        for wanted in ({}, {"include_documents": True}, {"include_documents": None}):
            whole = await asked.call("search_documents", ASSISTANT, query="bananas", **wanted)
            assert whole["results"][0]["document"] == long
            assert "word0 word1" in await asked.text("search_documents", query="bananas", **wanted)
        cut = await asked.call("search_documents", query="bananas", max_content_length=5)
        assert (cut["results"][0]["document"], cut["results"][0]["truncated"]) == ("# Fru", True)


class _Long:
    capacity, name = 1_000, "long"

    def count(self, text: str) -> int:
        return len(text.split())


async def test_documents_are_many_though_one_has_all_the_best_passages() -> None:
    async with opened() as asked:
        asked.models.measured = _Lines()
        many = "\n\n".join(f"apple apple apple {number}" for number in range(1_300))
        await asked.put("many.txt", many)
        for number in range(4):
            await asked.put(f"one{number}.txt", f"An apple, and a lot of others that are none {number}")
        found = await asked.found("apple", mode="lexical", top_k=3)
        assert found[0] == "many.txt"
        assert len(set(found)) == 3
        assert len(await asked.found("apple", mode="lexical", top_k=100)) == 5
        assert len(set(await asked.found("apple", top_k=5))) == 5


class _Lines:
    """So small that each line is a chunk."""

    capacity, name = 4, "lines"

    def count(self, text: str) -> int:
        return len(text.split())


async def test_each_request_opens_the_collection_once() -> None:
    requests: dict[str, dict[str, Any]] = {
        "put_document": {"filepath": "other.md", "text": GUIDE},
        "search": {"query": "bananas", "filters": {"year": 2020}},
        "get_document": {"filepath": "guide.md"},
        "get_documents_by_prefix": {"prefix": "g"},
        "list_documents": {},
        "list_document_folders": {},
        "get_document_stats": {},
        "delete_document": {"filepath": "other.md"},
    }
    async with opened() as asked:
        await asked.put("guide.md", GUIDE, metadata={"year": 2020})
        for name, params in requests.items():
            before = asked.openings
            await asked.call(name, **params)
            assert asked.openings == before + 1, name


async def test_modes_look_by_words_by_meaning_or_by_both() -> None:
    async with opened() as asked:
        await asked.put("a.txt", "tac act")
        await asked.put("b.txt", "zebra")
        assert await asked.found("cat", mode="lexical") == []
        assert (await asked.found("cat", mode="vector"))[0] == "a.txt"
        assert (await asked.found("zebra"))[0] == "b.txt"
        nothing = await asked.call("search_documents", query='-word "')
        assert nothing["status"] in ("success", "error")
        empty = await asked.call("search_documents", query="  ")
        assert (empty["status"], empty["error_type"]) == ("error", "ValidationError")
        many = await asked.call("search_documents", query="a", top_k=101)
        assert (many["status"], many["error_type"]) == ("error", "ValidationError")


async def test_a_document_is_read_in_parts_of_one_text() -> None:
    async with opened() as asked:
        text = "".join(f"第{number}章。\n\nりんごとなし🍎。" for number in range(30))
        await asked.put("章.txt", text)
        assert await asked.whole("章.txt") == text
        part = await asked.call("get_document", filepath="章.txt", offset=5, length=10)
        assert (part["document"], part["start"], part["end"]) == (text[5:15], 5, 15)
        assert part["length"] == len(text)
        await asked.put("章.txt", text + "New.")
        stale = await asked.call("get_document", filepath="章.txt", cursor=part["next_cursor"])
        assert (stale["status"], stale["error_type"]) == ("error", "ValidationError")
        for cursor in ("", "x", "0" * 16 + ":-1", "0" * 16 + ":²"):
            bad = await asked.call("get_document", filepath="章.txt", cursor=cursor)
            assert bad["error_type"] == "ValidationError"
        beyond = await asked.call("get_document", filepath="章.txt", offset=10_000)
        assert (beyond["document"], beyond["next_cursor"]) == ("", None)
        missing = await asked.call("get_document", filepath="none.txt")
        assert (missing["status"], missing["error_type"]) == ("error", "NotFoundError")
        shown = await asked.text("get_document", filepath="章.txt", length=10)
        assert shown.startswith(text[:10] + "\n\n[全")
        assert await asked.text("get_document", filepath="章.txt") == text + "New."


async def test_deleted_documents_are_gone_with_all_of_their_chunks() -> None:
    async with opened() as asked:
        await asked.put("guide.md", GUIDE)
        await asked.put("other.txt", "bananas")
        found = await asked.call("delete_document", filepath="guide.md")
        assert (found["status"], found["deleted_count"]) == ("success", 1)
        again = await asked.call("delete_document", filepath="guide.md")
        assert (again["status"], again["deleted_count"]) == ("success", 0)
        assert await asked.found("bananas") == ["other.txt"]
        assert await asked.chunks() == 1
        assert asked.heard[-1] == ("guide.md", "deleted")
        refused = await asked.call("delete_document", filepath="../a")
        assert refused["error_type"] == "ValidationError"


async def test_documents_are_listed_in_pages_and_by_their_beginnings() -> None:
    async with opened() as asked:
        names = sorted(f"{folder}/{number:02}.txt" for folder in ("a", "b_", "b") for number in range(5))
        for name in names:
            await asked.put(name, f"text of {name}", file_type=name[0], metadata={"n": int(name[-6:-4])})
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await asked.call("list_documents", limit=4, **cursor)
            seen += [each["filepath"] for each in page["documents"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == names
        found = await asked.call("get_documents_by_prefix", prefix="b/")
        assert [each["filepath"] for each in found["results"]] == [f"b/{n:02}.txt" for n in range(5)]
        assert found["results"][0]["document"] == "text of b/00.txt"
        few = await asked.call("get_documents_by_prefix", ASSISTANT, prefix="b", top_k=3, file_type="b")
        rows = few.pop("results")
        assert few == {
            "status": "success",
            "message": "3件のドキュメントが見つかりました",
            "prefix": "b",
            "file_type": "b",
            "include_documents": True,
            "top_k": 3,
            "count": 3,
            "more": True,
        }
        assert {"id", "filepath", "file_type", "updated_at", "document", "metadata"} == rows[0].keys()
        assert rows[0]["document"] == "text of b/00.txt"
        asked_for = {"prefix": "b", "include_documents": False}
        bare = await asked.call("get_documents_by_prefix", ASSISTANT, **asked_for)
        assert {row["document"] for row in bare["results"]} == {None}
        assert bare["top_k"] is None
        cut = await asked.call("get_documents_by_prefix", prefix="b/00", max_content_length=4)
        assert (cut["results"][0]["document"], cut["results"][0]["truncated"]) == ("text", True)
        high = await asked.call("list_documents", filters={"n": {"gte": 3}}, prefix="a/", file_type="a")
        assert [each["filepath"] for each in high["documents"]] == ["a/03.txt", "a/04.txt"]
        assert "a/03.txt" in await asked.text("list_documents")
        documents = await asked.documents.reading()
        assert [each.filepath for each in (await documents.behind("b/03.txt", 3)).documents] == [
            "b/04.txt", "b_/00.txt", "b_/01.txt",
        ]  # fmt: skip
        assert [each.filepath async for each in documents.all("b_")] == [f"b_/{n:02}.txt" for n in range(5)]
        assert await documents.text("none") is None
        assert await asked.documents.beginning("b", 6) == names[5:11]


async def test_statistics_count_documents_chunks_and_vectors() -> None:
    async with opened() as asked:
        empty = await asked.call("get_document_stats")
        assert (empty["documents"], empty["chunks"], empty["vector_dimension"]) == (0, 0, None)
        await asked.put("guide.md", GUIDE, file_type="spec")
        asked.now += 86_400
        await asked.put("other.md", GUIDE, file_type="spec")
        await asked.put("third.md", "Third.")
        found = await asked.call("get_document_stats")
        assert found["documents"] == 3
        assert found["chunks"] == found["embedded_chunks"] == await asked.chunks()
        assert found["file_types"] == {"spec": 2}
        assert found["updated"] == {"earliest": "2025-11-13T02:13:20Z", "latest": "2025-11-14T02:13:20Z"}
        assert (found["model"], found["vector_dimension"]) == ("letters", 26)
        hello = await asked.call("hello", name="Tabane")
        assert hello["message"] == "Hello, Tabane!"
        assert await asked.text("hello") == "Hello, World!"


async def test_times_filter_by_moments_and_by_days() -> None:
    async with opened() as asked:
        for day in range(3):
            await asked.put(f"{day}.txt", f"apples {day}")
            asked.now += 86_400
        for filters, expected in (
            ({"updated_at": "2025-11-14"}, {"1.txt"}),
            ({"updated_at": {"gte": "2025-11-14"}}, {"1.txt", "2.txt"}),
            ({"updated_at": {"gt": "2025-11-14"}}, {"2.txt"}),
            ({"updated_at": {"lte": "2025-11-14"}}, {"0.txt", "1.txt"}),
            ({"updated_at": {"lt": "2025-11-14"}}, {"0.txt"}),
            ({"updated_at": {"gt": "2025-11-14T02:13:20Z"}}, {"2.txt"}),
            ({"updated_at": {"gte": "2025-11-14T11:13:20+09:00"}}, {"1.txt", "2.txt"}),
            ({"updated_at": {"ne": "2025-11-14"}, "filepath": {"in": ["0.txt", "1.txt"]}}, {"0.txt"}),
            ({"$not": {"updated_at": {"lt": 1_763_000_001}}}, {"1.txt", "2.txt"}),
            ({"updated_at": {"gt": "2030-01-01"}}, set()),
        ):
            assert set(await asked.found("apples", filters=filters)) == expected, filters
            listed = await asked.call("list_documents", filters=filters)
            assert {each["filepath"] for each in listed["documents"]} == expected


async def test_documents_are_found_among_other_things() -> None:
    async with opened() as asked:
        await asked.put("guide.md", GUIDE)
        source = asked.documents.searching
        answer = await shown(source, CALLER, SearchRequest("bananas", 5))
        assert answer.warning is None
        (item,) = (hit.item for hit in answer.hits)
        card, passage = item.card, item.snippet()
        assert (card.key, card.title) == ("guide.md", "Guide › Install")
        assert [passage.text[start:end] for start, end in passage.marks] == ["bananas"]
        assert await source.search(CALLER, SearchRequest(" ", 5)) == SearchAnswer()


@pytest.mark.heavy("many files")
async def test_a_search_during_puts_shows_documents_as_they_were_at_one_moment() -> None:
    async with opened() as asked:
        texts = [GUIDE, GUIDE.replace("\n\n", "\n\nOne more paragraph of apples here.\n\n")]
        await asked.put("guide.md", texts[0])
        done = asyncio.Event()

        async def write() -> None:
            for turn in range(40):
                await asked.documents.put([Draft("guide.md", texts[turn % 2])])
            done.set()

        writing = asyncio.create_task(write())
        while not done.is_set():
            found = await asked.call("search_documents", query="apples bananas", max_content_length=0)
            for result in found["results"]:
                for passage in result["passages"]:
                    place = slice(passage["start"], passage["end"])
                    assert passage["text"] in [text[place] for text in texts]
            whole = await (await asked.documents.reading()).text("guide.md")
            assert whole is not None
            assert whole[1] in texts
        await writing


async def test_everything_is_there_after_the_store_was_closed(tmp_path: Path) -> None:
    async with opened(folder=str(tmp_path)) as asked:
        await asked.put("guide.md", GUIDE)
    async with opened(folder=str(tmp_path)) as asked:
        assert (await asked.put("guide.md", GUIDE))["unchanged"] is True
        assert await asked.found("bananas") == ["guide.md"]
        assert await asked.whole("guide.md") == GUIDE


@given(st.data())
def test_pieces_make_the_text_they_were_cut_from(data: st.DataObject) -> None:
    text = data.draw(st.text(min_size=1, max_size=60))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=8)) | {len(text)})
    starts = [0, *cuts[:-1]]
    back = [max(0, start - data.draw(st.integers(0, 3))) for start in starts]
    begins = [max(back[: place + 1]) for place in range(len(back))]
    pieces = [ChunkSpan("", begin, end) for begin, end in zip(begins, cuts, strict=True)]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text) + 5))
    chosen = pieces[covering(pieces, start, end)]
    found = joined(chosen, [text[piece.start : piece.end] for piece in chosen], start, end)
    assert found == text[start:end]


async def test_a_query_in_kana_or_romaji_finds_and_marks_the_kanji() -> None:
    async with opened() as asked:
        await asked.put("dentist.md", "歯医者の予約は木曜の16時")
        await asked.put("move.md", "引っ越しの見積もりは三社に頼んだ")
        for query in ("はいしゃのよやく", "haisha no yoyaku"):
            found = await asked.call("search", query=query, mode="lexical")
            assert [result["id"] for result in found["results"]] == ["dentist.md"]
        assert "引っ越し" in await asked.text("search_documents", query="ひっこし", include_documents=False)
