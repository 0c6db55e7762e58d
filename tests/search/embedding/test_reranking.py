"""A cross-encoder's scores, against float64 by hand on models made here; which one is found; its process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tabane.errors import ModelError, ModelMissing
from tabane.search.embedding.model_files import DESCRIBING, HubPlace
from tabane.search.embedding.model_finder import (
    DEFAULT_RERANKER,
    ModelChoice,
    ModelFinder,
)
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.embedding.process import LocalReranker
from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.worker.loading import load_model
from tabane.search.embedding.worker.onnx import scores
from tests.harness.patience import LONG
from tests.search.embedding import crossing, tiny
from tests.search.embedding.servers import FakeHub

TEXTS = ["the cat sat", "a dog", "", "猫 は 家 が 犬 unknown", "the red house and the blue tree " * 9]


def _spec(folder: Path, **more: Any) -> ModelSpec:
    return ModelSpec("onnx", str(folder), "onnx/model.onnx", **{"max_tokens": 32, "scores": True, **more})


def _finder(tmp_path: Path, url: str = "http://127.0.0.1:9", **more: Any) -> ModelFinder:
    place = HubPlace(str(tmp_path / "cache"), url)
    return ModelFinder(
        ModelHub(place, pause=0.01, attempts=1, expected=DESCRIBING), str(tmp_path / "kept"), **more
    )


@asynccontextmanager
async def open_reranker(tmp_path: Path, **more: Any) -> AsyncIterator[LocalReranker]:
    async with asyncio.timeout(LONG):
        folder = crossing.make(tmp_path / "judge", seed=2)
        found = await _finder(tmp_path).find_reranker(ModelChoice(str(folder), **more))
        reranker = await found.open_reranker(os.environ)
        try:
            yield reranker
        finally:
            await reranker.close()


@pytest.mark.parametrize("labels", [1, 2])
def test_a_score_is_what_the_model_gives_the_pair(tmp_path: Path, labels: int) -> None:
    model = load_model(_spec(crossing.make(tmp_path, seed=3, labels=labels)))
    found = model.vectors(model.tokens(TEXTS, "the red dog"))
    assert found.shape == (5, 1)
    assert np.abs(found[:, 0] - crossing.expected(3, labels, "the red dog", TEXTS)).max() < 2e-6
    assert np.ptp(found) > 0.001


def test_a_pair_alone_scores_what_it_scores_beside_longer_ones(tmp_path: Path) -> None:
    model = load_model(_spec(crossing.make(tmp_path)))
    together = model.vectors(model.tokens(TEXTS, "the dog"))
    alone = np.concatenate([model.vectors(model.tokens([text], "the dog")) for text in TEXTS])
    assert np.abs(together - alone).max() < 2e-6


def test_only_the_text_of_a_pair_is_cut(tmp_path: Path) -> None:
    model = load_model(_spec(crossing.make(tmp_path), max_tokens=12))
    tokens = model.tokens(TEXTS, "the red dog")
    assert [len(each) for each in tokens] == [9, 8, 6, 12, 12]
    expected = crossing.expected(1, 1, "the red dog", TEXTS, most=12)
    assert np.abs(model.vectors(tokens)[:, 0] - expected).max() < 2e-6


def test_a_question_that_is_longer_than_a_pair_may_be_leaves_half_to_the_text(tmp_path: Path) -> None:
    model = load_model(_spec(crossing.make(tmp_path), max_tokens=12))
    tokens = model.tokens(["the cat", "a dog " * 50_000], "the red dog " * 50_000)
    assert [len(each) for each in tokens] == [11, 12]
    expected = crossing.expected(1, 1, "the red dog the red dog", ["the cat"], most=12)
    assert np.abs(model.vectors(tokens[:1])[:, 0] - expected).max() < 2e-6


def test_other_logits_than_one_or_two_are_refused() -> None:
    with pytest.raises(ValueError, match="3 logits"):
        scores(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        scores(np.array([[np.nan]]))
    assert scores(np.array([[-1e9], [1e9]])).ravel().tolist() == pytest.approx([0, 1])


async def test_a_reranker_scores_in_its_process_in_order_however_many_there_are(tmp_path: Path) -> None:
    async with open_reranker(tmp_path, budget=64) as reranker:
        texts = [TEXTS[number % 5] + " tree" * (number % 7) for number in range(300)]
        found = await reranker.score("the dog", texts)
        assert np.abs(np.array(found) - crossing.expected(2, 1, "the dog", texts)).max() < 2e-6
        assert await reranker.score("the dog", []) == []
        assert await reranker.score("", ["\ud800 cat"]) == pytest.approx(await reranker.score("", ["? cat"]))


async def test_a_reranker_that_was_killed_is_back(tmp_path: Path) -> None:
    async with open_reranker(tmp_path) as reranker:
        before = await reranker.score("the dog", TEXTS)
        assert reranker.pid is not None
        os.kill(reranker.pid, signal.SIGKILL)
        assert await reranker.score("the dog", TEXTS) == before


async def test_a_reranker_of_the_hub_is_fetched_without_its_weights_for_other_programs(
    tmp_path: Path,
) -> None:
    fake = FakeHub()
    source = crossing.make(tmp_path / "source")
    (source / "model.safetensors").write_bytes(b"the same once more")
    fake.add(DEFAULT_RERANKER, source)
    async with asyncio.timeout(LONG), fake.serving() as url:
        finder = _finder(tmp_path, url)
        try:
            found = await finder.find_reranker(ModelChoice("auto"))
            assert (found.recipe.model, found.recipe.revision) == (DEFAULT_RERANKER, "a" * 40)
            assert found.spec is not None
            assert found.spec.max_tokens == 32
            reranker = await found.open_reranker(os.environ)
            try:
                score = (await reranker.score("a", ["the cat"]))[0]
            finally:
                await reranker.close()
            assert score == pytest.approx(crossing.expected(1, 1, "a", ["the cat"])[0], abs=2e-6)
        finally:
            await finder.hub.close()
    assert not any("safetensors" in what for what in fake.fetched("file"))


async def test_a_folder_without_a_graph_is_no_reranker(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path / "bert")
    with pytest.raises(ModelMissing, match="no ONNX graph"):
        await _finder(tmp_path).find_reranker(ModelChoice(str(folder)))
    with pytest.raises(ModelMissing, match="no model folder"):
        await _finder(tmp_path).find_reranker(ModelChoice(str(tmp_path / "nowhere")))
    with pytest.raises(ModelMissing, match=r"To run embedding models, run: .*models"):
        await _finder(tmp_path, installed=lambda name: False).find_reranker(ModelChoice("auto"))


async def test_a_graph_that_is_no_classification_is_said_not_to_fit(tmp_path: Path) -> None:
    folder = crossing.make(tmp_path, labels=3)
    found = await _finder(tmp_path).find_reranker(ModelChoice(str(folder)))
    with pytest.raises(ModelError, match="3 logits"):
        await found.open_reranker(os.environ)
