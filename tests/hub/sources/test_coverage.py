"""Searches of a partly embedded archive: no misleading results, and a note on how much is indexed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tabane.hub.sources.embedded_collections import EMBEDDED
from tabane.hub.sources.embedding import CollectionEmbedder
from tabane.operations import Door, OperationTable
from tabane.posts.operations import Archive
from tabane.posts.post import SHAPE, Post, record_of
from tabane.posts.table import PostRows, posts_table
from tabane.search.embedding.embedder import Kind, Take
from tabane.search.records import EVERYTHING, EmbeddingSpace
from tabane.search.source import SearchRequest
from tabane.wire import json
from tests.hub.sources.letter_models import CALLER, EmbeddingHub, LetterModel, LetterModels, embedding_hub

MINILM = "sentence-transformers/all-MiniLM-L6-v2#1"
MANY = "org/many-languages#1"
POSTS = next(each for each in EMBEDDED if each.shape is SHAPE)
ENGLISH, JAPANESE = "a note about lunch", "昼ごはんについての覚え書き"


@dataclass
class Gated(LetterModel):
    """A model that answers questions at once, and embeds texts only while its gate is open."""

    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed_parts(self, texts: Sequence[str], take: Take, kind: Kind = "document") -> None:
        await take(range(len(texts)), await self.embed(texts, kind))

    async def embed(self, texts: Sequence[str], kind: Kind = "document") -> list[bytes]:
        if kind == "document":
            await self.open.wait()
        return await super().embed(texts, kind)


class Place:
    """An archive of posts in a house, and its door."""

    def __init__(self, built: EmbeddingHub, model: LetterModel, embedding: CollectionEmbedder) -> None:
        self.built, self.model, self.embedding = built, model, embedding
        self.archive = Archive(
            built.collection,
            LetterModels(model, wants=model.fingerprint),
            lambda: UTC,
            missing=embedding.missing,
        )
        self._door = Door(OperationTable(posts_table(lambda: self.archive)))

    async def put(self, contents: Mapping[int, str], vectors: Sequence[int] = ()) -> None:
        """Put posts in the order of their numbers and days; those in ``vectors`` with a vector."""
        collection = await self.built.collection()
        if vectors:
            await collection.add_space(
                EmbeddingSpace("content", self.model.dimension, self.model.fingerprint)
            )
        posts = [
            Post(post_id=number, content=content, at=86_400.0 * number)
            for number, content in contents.items()
        ]
        await collection.upsert(
            [
                record_of(
                    post, {"content": self.model.vector(post.content)} if post.post_id in vectors else {}
                )
                for post in posts
            ]
        )

    async def search(self, **params: Any) -> tuple[list[int], str]:
        """Return the numbers of the posts that were found, and the warning."""
        found = await self._door.invoke(CALLER, "search_similar", json.encode(params))
        assert isinstance(found, PostRows)  # a list for programs, with or without a warning
        assert isinstance(json.decode(json.encode(found)), list)
        numbers = [row["post"]["post_id"] for row in found]
        return numbers, str(found.warning) if found.warning else ""

    async def embedded(self, space: str = "content") -> int:
        return await (await self.built.collection()).embedded(space, EVERYTHING)


@asynccontextmanager
async def archive(home: Path, model: LetterModel, *, named: bool = False) -> AsyncIterator[Place]:
    async with embedding_hub(home, LetterModels(model, wants=model.fingerprint), POSTS) as built:
        if named:
            built.name_model()
        yield Place(built, model, built.embedding)


async def test_four_percent_of_an_archive_do_not_answer_for_all_of_it(tmp_path: Path) -> None:
    contents = {number: f"zebra zoo {number} lunch" for number in range(500)}
    contents[470] = "the comet passed our garden tonight"
    model = Gated(MANY)
    async with archive(tmp_path, model) as place:
        await place.put(contents, range(20))
        found, warning = await place.search(query="comet garden")
        assert found[0] == 470
        assert "20 of 500 so far (4%), newest first" in warning
        assert "your posts" in warning
        assert "keywords only" in warning
        for words, filters in (("comet|garden", {}), ("comet", {"date_filter": {"from": "1970-06-01"}})):
            assert (await place.search(query=words, **filters))[0][:1] == [470]
        oldest, warned = await place.search(query="comet garden", mode="content")
        assert oldest
        assert set(oldest) <= set(range(20))
        assert "4%" in warned
        hybrid, warned = await place.search(query="comet garden", mode="hybrid")
        assert hybrid[0] == 470
        near, _ = await place.search(query="zebar zoo")  # no post has the first word: only vectors know
        assert near
        assert "4%" in warned
        model.open.set()
        await place.built.quiet()
        assert await place.embedded() == 500
        found, warning = await place.search(query="comet garden")
        assert (found[0], warning) == (470, "")


async def test_vectors_take_part_and_no_post_is_out_of_reach(tmp_path: Path) -> None:
    contents = {number: f"zebra zoo {number} lunch" for number in range(100)}
    contents[97] = "the comet passed our garden tonight"
    async with archive(tmp_path, Gated(MANY)) as place:
        await place.put(contents, range(80))
        found, warning = await place.search(query="comet garden", top_k=5)
        assert 97 in found[:2]
        assert "80 of 100 so far (80%)" in warning
        near, _ = await place.search(query="zebar zoo", top_k=5)  # no post has the word: only vectors know
        assert near


async def test_the_newest_posts_are_embedded_first_whenever_they_were_written(tmp_path: Path) -> None:
    model = Gated(MANY)
    async with archive(tmp_path, model) as place:
        await place.put({number: f"later {number}" for number in range(400, 700)})
        await place.put({number: f"earlier {number}" for number in range(400)})
        place.embedding.wake(SHAPE.name)
        model.open.set()
        await place.built.quiet()
        assert len(model.embedded) == 700
        days = [int(text.split()[1]) for text in model.embedded]
        assert days == sorted(days, reverse=True)


async def test_what_is_written_while_the_rest_is_embedded_comes_next(tmp_path: Path) -> None:
    model = Gated(MANY)
    async with archive(tmp_path, model) as place:
        await place.put({number: f"note {number}" for number in range(1000)})
        place.embedding.wake(SHAPE.name)
        model.open.set()
        async with asyncio.timeout(60):
            await model.steps.get()
        await place.put({5000: "note 5000"})
        place.embedding.wake(SHAPE.name)
        await place.built.quiet()
        assert await place.embedded() == 1001
        assert model.embedded.index("note 5000") < model.embedded.index("note 0")


async def test_posts_without_a_text_to_embed_are_not_missing(tmp_path: Path) -> None:
    blank = dict.fromkeys(range(1500), "https://example.org/x")
    model = Gated(MANY)
    model.open.set()
    async with archive(tmp_path, model) as place:
        await place.put({**blank, 2000: "a comet", 2001: "a garden"})
        place.embedding.wake(SHAPE.name)
        await place.built.quiet()
        assert await place.search(query="comet") == ([2000, 2001], "")


async def test_a_question_in_a_script_that_the_model_cannot_read_keeps_the_default_and_warns(
    tmp_path: Path,
) -> None:
    model = Gated(MINILM)
    model.open.set()
    async with archive(tmp_path, model, named=True) as place:
        await place.put({1: ENGLISH, 2: JAPANESE, 3: "another note"}, (1, 2, 3))
        found, warning = await place.search(query="昼ごはん")
        assert "reads English only" in warning
        asked, warned = await place.search(query="昼ごはん", mode="content")
        assert len(asked) == 3
        assert "reads English only" in warned
        assert found == asked
        by_words, _ = await place.search(query="昼ごはん", mode="hybrid")
        assert by_words == [2]


@pytest.mark.parametrize("named", [False, True])
async def test_a_model_of_english_alone_is_used_for_japanese_only_if_the_settings_name_it(
    tmp_path: Path, named: bool
) -> None:
    model = Gated(MINILM)
    model.open.set()
    async with archive(tmp_path, model, named=named) as place:
        await place.put({number: ENGLISH if number % 20 == 0 else JAPANESE for number in range(100)})
        place.embedding.wake(SHAPE.name)
        await place.built.quiet()
        assert await place.embedded() == (100 if named else 0)
        found, warning = await place.search(query="昼ごはん", mode="hybrid")
        assert len(found) == 1  # the others say the same
        assert found[0] % 20
        assert "reads English only" in warning
        assert ("models reembed" in warning) is not named
        usual, warning = await place.search(query="昼ごはん")
        assert sorted(number % 20 > 0 for number in usual) == ([False, True] if named else [True])
        assert "reads English only" in warning
        if not named:
            assert (await place.search(query="lunch"))[0]


async def test_a_minority_that_the_model_reads_is_found_by_meaning_if_that_is_asked_for(
    tmp_path: Path,
) -> None:
    model = Gated(MINILM)
    model.open.set()
    async with archive(tmp_path, model) as place:
        await place.put({number: ENGLISH if number % 5 == 0 else JAPANESE for number in range(100)})
        place.embedding.wake(SHAPE.name)
        await place.built.quiet()
        assert set(model.embedded) == {ENGLISH}
        found, warning = await place.search(query="lunch", mode="content")
        assert [number % 5 == 0 for number in found] == [True]
        assert "reads English only" in warning


async def test_of_a_mixed_archive_the_texts_that_the_model_reads_are_embedded(tmp_path: Path) -> None:
    model = Gated(MINILM)
    model.open.set()
    async with archive(tmp_path, model) as place:
        await place.put({number: JAPANESE if number % 5 == 0 else ENGLISH for number in range(100)})
        place.embedding.wake(SHAPE.name)
        await place.built.quiet()
        assert await place.embedded() == 80
        assert set(model.embedded) == {ENGLISH}
        found, warning = await place.search(query="lunch")
        assert [number % 5 > 0 for number in found] == [True]  # the others say the same
        assert warning == ""


async def test_texts_that_were_left_out_are_embedded_once_the_settings_name_the_model(tmp_path: Path) -> None:
    """The next question sees to it, without a restart of the hub."""
    model = Gated(MINILM)
    model.open.set()
    async with archive(tmp_path, model) as place:
        await place.put({number: JAPANESE if number % 5 == 0 else ENGLISH for number in range(100)})
        place.embedding.wake(SHAPE.name)
        await place.built.quiet()
        assert await place.embedded() == 80
        place.built.name_model()
        await place.search(query="lunch")
        await place.built.quiet()
        assert await place.embedded() == 100


async def test_a_collection_without_records_is_no_reason_to_warn(tmp_path: Path) -> None:
    async with archive(tmp_path, Gated(MANY)) as place:
        collection = await place.built.collection()
        assert await place.embedding.missing(collection, ("content",)) is None
        question = await place.embedding.question(collection, "comet", ("content",))
        assert getattr(question, "query", "none there") is None


def test_the_warning_has_words_of_the_user_in_both_languages() -> None:
    for each in EMBEDDED:
        assert each.called is not None
        shown = {lang: each.title.render(lang) for lang in ("en", "ja")}
        assert each.shape.name not in (shown["en"], shown["ja"])
        assert shown["en"] != shown["ja"]
    assert structs.replace(POSTS, called=None).title.render("en") == "posts"


async def test_posts_found_for_a_search_over_everything_have_their_cosine(tmp_path: Path) -> None:
    async with archive(tmp_path, Gated(MANY)) as place:
        await place.put({1: "a comet", 2: "a garden"}, (1, 2))
        answer = await place.archive.searching.search(CALLER, SearchRequest("comet", 5))
        assert answer.warning is None
        assert answer.hits[0].item.post_id == 1
        assert all(hit.cosine is not None for hit in answer.hits)
