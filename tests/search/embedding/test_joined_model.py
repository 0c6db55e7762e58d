"""MiniLM over numpy against its weights in 32 bits and its own tokenizer, and the joined model."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tabane.search.embedding.minilm_encoder import MODEL, minilm_encoder
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.search.embedding.worker.joined_model import SHARE, is_english
from tabane.search.embedding.worker.minilm import WordPieces, encoder_in, tensors_of
from tests.search.embedding import tiny

ENGLISH = [
    "Slept badly again, awake at three until the birds started.",
    "The landlord sends somebody on Friday because water comes through the ceiling.",
    "insomnia",
]
OTHERS = ["昨夜は眠りが浅く、三時に目が覚めた。", "J'ai mal dormi cette nuit, je ne sais pas pourquoi."]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


def weights() -> str:
    path = minilm_encoder()
    assert path is not None
    return path


@cache
def pieces() -> WordPieces:
    return WordPieces()


@cache
def oracle() -> Tokenizer:
    package = read_packed_model(PACKAGES[MINILM])
    assert package is not None
    tokenizer = Tokenizer.from_file(os.path.join(package.folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(64)
    return tokenizer


# Characters that Unicode has had for long: the two libraries know different versions of it.
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs", "Cn", "Co"]), max_size=60)


@settings(deadline=None, max_examples=200)
@given(TEXTS)
def test_pieces_are_those_of_the_models_own_tokenizer(text: str) -> None:
    assert pieces().encode(text, 64) == oracle().encode(text).ids


def test_any_text_has_a_limited_number_of_pieces() -> None:
    for text in ("", "a" * 1_000_000, "a " * 1_000_000, "\u0301" * 1_000_000, "\ud800"):
        assert 2 <= len(pieces().encode(text, 256)) <= 256


@pytest.mark.heavy("a real embedding model")
def test_vectors_are_those_of_the_weights_in_32_bits(kept: Path) -> None:
    texts = [*ENGLISH, " ".join(ENGLISH * 20)]
    found = encoder_in(weights()).vectors([pieces().encode(text, 256) for text in texts])
    exact = tiny.embedded(kept, ModelChoice(MINILM, threads=2), texts)
    assert (found * exact).sum(axis=1).min() > 0.998


@pytest.mark.heavy("a real embedding model")
def test_each_language_is_compared_by_the_model_that_knows_it(kept: Path) -> None:
    joined = tiny.embedded(kept, ModelChoice(MODEL, threads=2), ENGLISH + OTHERS)
    universal = tiny.embedded(kept, ModelChoice(USE, threads=2), ENGLISH + OTHERS)
    minilm = encoder_in(weights()).vectors([pieces().encode(text, 256) for text in ENGLISH])
    assert joined.shape == (5, 896)
    assert np.abs(np.linalg.norm(joined, axis=1) - 1).max() < 1e-5
    cosines, known, count = joined @ joined.T, universal @ universal.T, len(ENGLISH)
    mean = (1 - SHARE) * known[:count, :count] + SHARE * minilm @ minilm.T
    assert np.abs(cosines[:count, :count] - mean).max() < 1e-5
    assert np.abs(cosines[count:, count:] - known[count:, count:]).max() < 1e-5
    between = (1 - SHARE) ** 0.5 * known[:count, count:]
    assert np.abs(cosines[:count, count:] - between).max() < 1e-5


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("insomnia last night", True),
        ("Rio de Janeiro trip", True),
        ("the best restaurants in Los Angeles", True),
        ("git rebase --onto main", True),
        ("Ich habe gestern nicht gut geschlafen", False),
        ("J'ai mal dormi cette nuit, je ne sais pas pourquoi", False),
        ("¿Dónde está la llave del coche?", False),
        ("よく眠れない", False),
        ("東京 ramen", True),
        ("не спится", False),
        ("12345 !?", False),
        ("", False),
    ],
)
def test_what_is_english_is_known_by_script_and_grammar(text: str, english: bool) -> None:
    assert is_english(text) is english


def test_weights_that_are_other_ones_are_refused(tmp_path: Path) -> None:
    changed = bytearray(Path(weights()).read_bytes())
    changed[1_000_000] ^= 1
    path = tmp_path / "model.onnx"
    path.write_bytes(changed)
    with pytest.raises(ValueError, match="checksum"):
        encoder_in(str(path))


@given(st.binary(max_size=200))
def test_a_file_that_is_no_graph_is_refused_or_has_no_tensors(content: bytes) -> None:
    with contextlib.suppress(ValueError, IndexError):
        assert isinstance(tensors_of(np.frombuffer(content, np.uint8)), dict)
