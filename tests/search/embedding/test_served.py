"""A model at a server that speaks OpenAI's protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.utils import formatdate, parsedate_to_datetime
from typing import Any

import numpy as np
import pytest

from tabane.errors import ModelError, ModelUnavailable
from tabane.search.embedding.embedding_service import EmbeddingService, ServedEmbedder
from tabane.search.embedding.model_files import Recipe
from tests.harness.patience import LONG
from tests.harness.ports import reserved_port
from tests.search.embedding import tiny
from tests.search.embedding.servers import FakeService

RECIPE = Recipe("bge-m3", query="q: ")
PATIENCE = 2.0
"""Seconds after which a request is given up: enough for an answer of this machine, however loaded."""


@asynccontextmanager
async def open_embedder(
    service: FakeService | None = None, recipe: Recipe = RECIPE, **more: Any
) -> AsyncIterator[tuple[ServedEmbedder, FakeService]]:
    fake = service or FakeService()
    async with asyncio.timeout(LONG), fake.serving() as url:
        given = {"pause": 0.01, **more}
        embedder = await ServedEmbedder.open(recipe, EmbeddingService(f"{url}/v1", **given))
        try:
            yield embedder, fake
        finally:
            await embedder.close()


def _expected(texts: list[str]) -> tiny.Array:
    return np.stack([tiny.unit(np.array(FakeService.vector(text))) for text in texts])


async def test_texts_go_out_in_batches_and_come_back_in_their_order() -> None:
    async with open_embedder() as (embedder, fake):
        texts = [chr(97 + number % 26) * (number % 50 + 1) for number in range(600)]
        assert np.abs(tiny.floats(await embedder.embed(texts)) - _expected(texts)).max() < 1e-6
        assert embedder.dimension == 3
    sizes = [len(asked["input"]) for asked in fake.asked[1:]]
    assert sum(sizes) == 600
    assert sizes[0] == 4
    assert sorted(sizes)[-8:] == [32] * 8
    assert {(asked["model"], asked["encoding_format"]) for asked in fake.asked} == {("bge-m3", "float")}


async def test_the_prefix_of_the_kind_is_in_front() -> None:
    async with open_embedder() as (embedder, fake):
        await embedder.embed(["x"], "query")
        await embedder.embed(["x"])
        assert [asked["input"] for asked in fake.asked[1:]] == [["q: x"], ["x"]]


async def test_the_key_goes_out_as_a_bearer_token_and_is_in_no_repr() -> None:
    async with open_embedder(key="sesame") as (_, fake):
        assert fake.keys == ["Bearer sesame"]
    assert "sesame" not in repr(EmbeddingService("http://x", key="sesame"))


async def test_without_a_key_none_is_sent() -> None:
    async with open_embedder() as (_, fake):
        assert fake.keys == [None]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    async with open_embedder() as (embedder, fake):
        fake.faults = [(status, {}), (status, {})]
        assert len(await embedder.embed(["x"])) == 1


@pytest.mark.parametrize("date", [False, True])
async def test_a_pause_that_the_server_asks_for_is_kept(date: bool) -> None:
    async with open_embedder() as (embedder, fake):
        asked = formatdate(time.time() + 2, usegmt=True) if date else "1"
        fake.faults = [(429, {"Retry-After": asked})]
        begun = time.monotonic()
        await embedder.embed(["x"])
        if date:
            assert time.time() >= parsedate_to_datetime(asked).timestamp() - 0.05
        else:
            assert time.monotonic() - begun >= 0.95


async def test_a_pause_without_end_is_not_kept() -> None:
    async with open_embedder(longest_pause=0.05) as (embedder, fake):
        fake.faults = [(429, {"Retry-After": "86400"})]
        assert len(await embedder.embed(["x"])) == 1


async def test_a_server_that_stays_away_is_unavailable() -> None:
    async with open_embedder() as (embedder, fake):
        fake.faults = [(503, {})] * 5
        with pytest.raises(ModelUnavailable, match="HTTP 503"):
            await embedder.embed(["x"])
        assert fake.faults == []


async def test_nobody_at_the_address_is_unavailable() -> None:
    nobody = FakeService()
    service = EmbeddingService(f"http://127.0.0.1:{reserved_port(nobody)}/v1", attempts=2, pause=0.01)
    with pytest.raises(ModelUnavailable):
        await ServedEmbedder.open(RECIPE, service)


async def test_a_server_that_is_too_slow_is_unavailable() -> None:
    async with open_embedder(timeout=0.3, attempts=2) as (embedder, fake):
        fake.silent = True
        with pytest.raises(ModelUnavailable, match="Timeout"):
            await embedder.embed(["x"])


async def test_a_refusal_is_not_tried_again_and_says_what_the_server_said() -> None:
    async with open_embedder() as (embedder, fake):
        fake.faults = [(404, {})]
        with pytest.raises(ModelError, match=r"HTTP 404.*no such model"):
            await embedder.embed(["x"])
    assert len(fake.keys) == 2


async def test_batches_that_are_too_large_for_the_server_are_halved() -> None:
    async with open_embedder() as (embedder, fake):
        fake.most = 5
        texts = [chr(97 + number) for number in range(20)]
        assert np.abs(tiny.floats(await embedder.embed(texts)) - _expected(texts)).max() < 1e-6
        fake.most = 0
        with pytest.raises(ModelError, match="not accept a text of 7 characters"):
            await embedder.embed(["x" * 7])


async def test_a_slow_server_gets_smaller_batches_until_all_texts_have_a_vector() -> None:
    texts = [f"text {number}" for number in range(8)]
    taken: dict[int, bytes] = {}
    steps: list[int] = []

    async def take(positions: Sequence[int], vectors: Sequence[bytes]) -> None:
        taken.update(zip(positions, vectors, strict=True))
        steps.append(len(positions))

    async with open_embedder(timeout=PATIENCE) as (embedder, fake):
        fake.unanswered, fake.seconds = 1, PATIENCE / 6
        await embedder.embed_parts(texts, take)
    sizes = [len(asked["input"]) for asked in fake.asked[1:]]
    assert sizes[:2] == [4, 2]  # four texts are not answered in time, two slowly
    assert set(sizes[2:]) == {1}  # one takes a sixth of the patience, which is no quick answer either
    assert sum(sizes) == 4 + len(texts)  # only what was not answered is asked again
    assert steps == sizes[1:]
    assert sorted(taken) == list(range(len(texts)))


async def test_a_query_does_not_wait_for_the_texts_of_a_slow_server() -> None:
    async with open_embedder() as (embedder, fake):
        fake.stuck = {"text"}
        fake.begun.clear()
        texts = asyncio.create_task(embedder.embed(["text"]))
        await fake.begun.wait()
        assert len(await embedder.embed(["q"], "query")) == 1
        assert not texts.done()
        texts.cancel()


@pytest.mark.parametrize("fault", ["stuck", "refused"])
async def test_one_text_that_cannot_be_embedded_keeps_no_other_from_its_vector(fault: str) -> None:
    texts = [f"text {number}" for number in range(20)]
    taken: set[int] = set()

    async def take(positions: Sequence[int], vectors: Sequence[bytes]) -> None:
        taken.update(positions)

    async with open_embedder(timeout=PATIENCE, attempts=2) as (embedder, fake):
        setattr(fake, fault, {"text 7"})
        with pytest.raises(ModelError):
            await embedder.embed_parts(texts, take)
        assert taken == {*range(20)} - {7}


async def test_a_server_that_stays_away_is_not_asked_for_each_text() -> None:
    async with open_embedder(attempts=2) as (embedder, fake):
        fake.faults = [(503, {})] * 100
        with pytest.raises(ModelUnavailable):
            await embedder.embed([f"text {number}" for number in range(100)])
        assert len(fake.faults) >= 100 - 2 * 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"nonsense", "malformed"),
        ({"data": []}, "0 vectors for 1 texts"),
        ({"data": [{"index": 1, "embedding": [1.0, 2.0, 3.0]}]}, "1 vectors for 1 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}]}, "1 components in place of 3"),
        ({"data": [{"index": 0, "embedding": []}]}, "without finite components"),
        ({"data": [{"index": 0, "embedding": [1.7e308, 1.7e308]}]}, "without finite components"),
        ({"data": [{"index": 0, "embedding": ["x"]}]}, "Expected `float`"),
    ],
)
async def test_an_answer_that_does_not_fit_is_an_error(answer: Any, said: str) -> None:
    async with open_embedder() as (embedder, fake):
        fake.answer = lambda texts: answer
        with pytest.raises(ModelError, match=said):
            await embedder.embed(["x"])


async def test_the_first_components_alone_are_of_length_one_again() -> None:
    async with open_embedder(recipe=Recipe("bge-m3", dimension=2)) as (embedder, _):
        (vector,) = tiny.floats(await embedder.embed(["xx"]))
        assert vector.tolist() == pytest.approx(tiny.unit(np.array([2.0, 120.0])).tolist())
        assert embedder.dimension == 2


async def test_text_that_is_no_unicode_goes_out_all_the_same() -> None:
    async with open_embedder() as (embedder, fake):
        await embedder.embed(["\ud83d"])
        assert fake.asked[-1]["input"] == ["?"]
