"""Cached pages: stored whole, searchable, and evicted when space is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ReadError
from tabane.messages import say
from tabane.operations import Caller, Face
from tabane.reader.page import HEADS, PASSAGES, SHAPE, SPACE, Page, Picture
from tabane.reader.page_records import TOTAL, PageSearch, cut, head_key, meaning, together
from tabane.reader.url_reader import CachedPage, CacheValidators
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record, checked
from tabane.search.source import Reranker, SearchRequest, shown
from tests.reader.shelves import NoModels, Words, no_meaning, shelved

URL = "https://a.test/cats"
TEXT = (
    "# Cats\n\nThey sleep all day.\n\n## Food\n\n"
    + "Fish, and more fish. " * 30
    + "\n\n"
    + "猫は眠る。" * 40
    + "\n"
)
PAGE = Page(
    URL, TEXT, title="About cats", author="Ann", date="2024-03-15", site="A", lang="en", way="extracted",
    share=0.8, canonical="https://a.test/c", warnings=(say("{way}: {reason}", way="x", reason=say("no.")),),
)  # fmt: skip


def kept(page: Page = PAGE, when: float = 1_700_000_000.0) -> CachedPage:
    return CachedPage(page, when, CacheValidators(page.url, "text/html", '"1"', None))


def page(number: int, text: str = TEXT) -> Page:
    return Page(f"https://a.test/{number}", text, title=f"Page {number}", way="plain")


async def test_what_comes_back_is_what_was_put() -> None:
    async with shelved() as here:
        assert await here.shelf.get(URL) is None
        await here.shelf.put(URL, kept())
        assert await here.shelf.get(URL) == kept()
        assert await here.collection.count(PASSAGES) > 3
        assert here.wakes


async def test_it_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    async with shelved(home=str(tmp_path)) as here:
        await here.shelf.put(URL, kept())
    async with shelved(home=str(tmp_path)) as here:
        assert await here.shelf.get(URL) == kept()


@given(
    st.lists(
        st.sampled_from(["# H\n\n", "word " * 50, "猫" * 90, "\n\n", "```\nx\n```\n", "- a\n", " ", "😀"])
    ),
    st.booleans(),
)
def test_the_passages_of_any_text_are_all_of_it(texts: list[str], raw: bool) -> None:
    whole = "".join(texts)
    pieces, first, records = cut(replace(PAGE, markdown=whole), "=key", Words(), raw=raw)
    there = {"=key": Record(key="=key", texts=first, payload=b"what is known"), **records}
    assert together(pieces, [there[piece.key] for piece in pieces]) == whole
    assert all(record == checked(record, SHAPE) for record in there.values())
    if pieces:
        assert (pieces[0].key == "=key") is not raw
        assert together(pieces, [None, *(there[piece.key] for piece in pieces[1:])]) is None


async def test_the_source_is_kept_beside_the_page_and_not_found() -> None:
    async with shelved() as here:
        await here.shelf.put(URL, kept())
        await here.shelf.put(URL, kept(replace(PAGE, markdown="<p>" * 100_000)), raw=True)
        found = await here.shelf.get(URL, raw=True)
        assert found is not None
        assert found.page.markdown == "<p>" * 100_000
        assert await here.shelf.get(URL) == kept()
        assert await here.collection.count(HEADS) == 1
        assert await here.shelf.forget(URL) == 2
        assert await here.collection.count(EVERYTHING) == 1


async def test_a_page_is_found_by_the_url_that_was_asked_for_and_by_its_own() -> None:
    asked = "https://short.test/x"
    async with shelved() as here:
        await here.shelf.put(asked, kept())
        assert await here.shelf.get(asked) == await here.shelf.get(URL) == kept()
        assert await here.collection.count(HEADS) == 1
        assert await here.shelf.forget(asked) == 1
        assert await here.shelf.get(URL) is None
        assert await here.shelf.get(asked) is None


async def test_a_url_that_leads_elsewhere_now_gives_what_it_leads_to() -> None:
    asked = "https://a.test/old"
    async with shelved() as here:
        await here.shelf.put(asked, kept(replace(PAGE, url=asked, markdown="old text")))
        await here.shelf.put(asked, kept())
        assert await here.shelf.get(asked) == kept()
        assert await here.collection.count(HEADS) == 1


async def test_a_page_that_changed_takes_the_place_of_the_old_one_and_keeps_what_is_the_same() -> None:
    async with shelved() as here:
        await here.shelf.put(URL, kept())
        before = {
            stored.record.key: stored.row for stored in (await here.collection.select(PASSAGES)).records
        }
        changed = replace(PAGE, markdown=TEXT.replace("Fish, and more fish.", "Fish, and less fish.", 1))
        await here.shelf.put(URL, kept(changed, 1_700_000_500.0))
        after = {stored.record.key: stored.row for stored in (await here.collection.select(PASSAGES)).records}
        found = await here.shelf.get(URL)
        assert found is not None
        assert found.page == changed
        same = before.keys() & after.keys() - {head_key(URL)}
        assert 0 < len(same) < len(before)
        assert all(before[key] == after[key] for key in same)  # a row that stays keeps its vectors


async def test_a_page_that_is_read_again_and_is_the_same_keeps_its_vectors() -> None:
    async with shelved() as here:
        await here.collection.add_space(EmbeddingSpace(SPACE, 2, "model"))
        await here.shelf.put(URL, kept())
        keys = [stored.record.key for stored in (await here.collection.select(PASSAGES)).records]
        vector = np.array([0.6, 0.8], "<f4").tobytes()
        there = [record for record in await here.collection.get(keys) if record is not None]
        await here.collection.upsert(
            [msgspec.structs.replace(each, vectors={SPACE: vector}) for each in there]
        )
        here.clock.now += 100
        await here.shelf.put(URL, kept(when=1_700_000_900.0))
        assert None not in await here.collection.vectors(keys, SPACE)
        changed = replace(PAGE, markdown=TEXT.replace("They sleep all day.", "They hunt all night."))
        await here.shelf.put(URL, kept(changed, 1_700_000_950.0))
        assert await here.collection.vectors([head_key(URL)], SPACE) == [None]


async def test_what_was_just_read_is_not_written_again_and_the_time_of_reading_is_kept() -> None:
    async with shelved() as here:
        await here.shelf.put(URL, kept())
        changes = here.collection.changes
        await here.shelf.put(URL, kept())
        assert here.collection.changes == changes
        here.clock.now += 100
        await here.shelf.put(URL, kept())
        (row,), _ = await here.shelf.rows(None, 10, None)
        assert row.read == here.clock.now
        assert row.checked == 1_700_000_000.0


async def test_those_read_longest_ago_make_way() -> None:
    most = 15_000
    async with shelved(most) as here:
        for number in range(6):
            here.clock.now += 100
            await here.shelf.put(page(number).url, kept(page(number)))
            here.clock.now += 100
            await here.shelf.put(page(0).url, kept(page(0)))  # read again and again
        rows, _ = await here.shelf.rows(None, 10, None)
        assert [row.url.rpartition("/")[2] for row in rows] == ["0", "5", "4"]
        assert sum(row.size for row in rows) <= most < 4 * rows[0].size
        (total,) = await here.collection.get([TOTAL])
        assert total is not None
        assert int(total.payload) == sum(row.size for row in rows)
        whole = await here.collection.count(EVERYTHING)
        assert whole == 1 + await here.collection.count(PASSAGES)


async def test_what_is_too_large_or_has_pictures_is_not_kept() -> None:
    async with shelved() as here:
        for large in (
            replace(PAGE, pictures=(Picture("image/png", b"x"),)),
            replace(PAGE, markdown="word " * 3_000_000),
        ):
            await here.shelf.put(URL, kept())
            await here.shelf.put(URL, kept(large, 1_700_000_900.0))
            assert await here.shelf.get(URL) is None
            assert await here.collection.count(EVERYTHING) == 1


async def test_a_url_of_any_length_is_a_key() -> None:
    async with shelved() as here:
        long = [f"https://a.test/{'x' * 3000}{number}" for number in range(2)]
        for url in long:
            await here.shelf.put(url, kept(replace(PAGE, url=url, title=url)))
        for url in long:
            found = await here.shelf.get(url)
            assert found is not None
            assert found.page.url == url


async def test_pages_are_listed_and_forgotten() -> None:
    async with shelved() as here:
        for number in range(3):
            here.clock.now += 1
            await here.shelf.put(page(number).url, kept(page(number)))
        await here.shelf.put("https://b.test/", kept(replace(PAGE, url="https://b.test/")))
        first, after = await here.shelf.rows("a.test", 2, None)
        rest, end = await here.shelf.rows("a.test", 2, after)
        assert [row.title for row in (*first, *rest)] == ["Page 2", "Page 1", "Page 0"]
        assert end is None
        assert await here.shelf.forget(page(1).url) == 1
        assert await here.shelf.forget(page(1).url) == 0
        with pytest.raises(ReadError, match="not a URL"):
            await here.shelf.forget("nonsense")


async def test_a_page_is_found_once_by_its_best_passage() -> None:
    async with shelved() as here:
        await here.shelf.put(URL, kept())
        for number in range(3):
            await here.shelf.put(page(number).url, kept(page(number, "Dogs bark. " * 20)))
        await here.shelf.put(URL, kept(replace(PAGE, markdown="cats cats cats")), raw=True)

        async def collection() -> object:
            return here.collection

        source = PageSearch(collection, NoModels(), no_meaning)  # type: ignore[arg-type]
        caller = Caller("local", Face.RPC, "test")
        answer = await shown(source, caller, SearchRequest("fish", 5))
        (hit,) = answer.hits
        assert hit.item.card.key == URL
        assert "Food" in hit.item.card.title
        assert "fish" in hit.item.snippet().text.lower()
        assert answer.warning is not None
        dogs = await shown(source, caller, SearchRequest("dogs", 5))
        assert {hit.item.card.key for hit in dogs.hits} == {page(number).url for number in range(3)}


async def test_a_page_of_many_passages_leaves_room_for_others() -> None:
    async with shelved() as here:
        long = "\n\n".join(f"# Part {number}\n\nFish and more fish. " for number in range(30))
        await here.shelf.put(URL, kept(replace(PAGE, markdown=long)))
        other = "A bird that eats a fish, seen from far away, by people who were on a long walk."
        await here.shelf.put(page(1).url, kept(page(1, other)))

        async def collection() -> object:
            return here.collection

        source = PageSearch(collection, NoModels(), no_meaning)  # type: ignore[arg-type]
        answer = await source.search(Caller("local", Face.RPC, "test"), SearchRequest("fish", 2))
        assert [hit.item.url for hit in answer.hits] == [URL, page(1).url]


class WalksFirst(NoModels):
    """Models of which the reranker likes texts about walks."""

    def reranker(self) -> Reranker:
        return self

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float("walk" in text) for text in texts]


async def test_a_reranker_chooses_the_passage_of_a_page() -> None:
    async with shelved() as here:
        parts = ["# One\n\nFish, fish, fish.", "# Two\n\nA fish that was seen on a long walk."]
        await here.shelf.put(URL, kept(replace(PAGE, markdown="\n\n".join(parts))))

        async def collection() -> object:
            return here.collection

        best = {}
        for models in (NoModels(), WalksFirst()):
            source = PageSearch(collection, models, no_meaning)  # type: ignore[arg-type]
            answer = await source.search(Caller("local", Face.RPC, "test"), SearchRequest("fish", 1))
            (hit,) = answer.hits
            best[type(models)] = hit.item.passage.texts["text"]
        assert "Fish, fish" in best[NoModels]
        assert "walk" in best[WalksFirst]


async def test_what_is_embedded_has_no_addresses() -> None:
    async with shelved() as here:
        await here.shelf.put(URL, kept(replace(PAGE, markdown="See [the cats](https://a.test/123).")))
        (stored,) = (await here.collection.select(PASSAGES)).records
        assert meaning(stored.record) == "About cats\nSee the cats."
