"""Tokens are counted with the model's own tokenizer, in a process beside the hub."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tabane.search.chunking import Chunk, chunks
from tabane.search.embedding.model_families import ModelTraits
from tabane.search.embedding.model_files import minilm
from tabane.search.embedding.recipe import Recipe, settled
from tabane.search.embedding.token_counting import (
    TARGET,
    TokenCounter,
    TokenizerMeasure,
    estimated,
    exact,
    room_of,
)

DOCS = sorted((Path(__file__).parents[3] / "docs").glob("*.md"))
MINILM = settled("sentence-transformers/all-MiniLM-L6-v2", "a" * 40)
TEXTS = ["Hello world", "", "unbelievable tokenization", "日本語の文", "a\ud800b", "word " * 4000, "x" * 300]


@pytest.fixture(scope="module")
def file() -> str:
    package = minilm()
    assert package is not None
    return os.path.join(package[0], "tokenizer.json")


@pytest.fixture(scope="module")
def tokenizer(file: str) -> Tokenizer:
    found = Tokenizer.from_file(file)
    found.no_padding()  # the published file cuts to 128 tokens, and fills up to them
    found.no_truncation()
    return found


@pytest.fixture
def counter(file: str) -> Iterator[TokenCounter]:
    made = TokenCounter(file, os.environ)
    yield made
    made.close()


def expected(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    return [len(tokenizer.encode(text, add_special_tokens=False)) for text in clean]


def test_counts_are_those_of_the_tokenizer_in_the_order_of_the_texts(
    counter: TokenCounter, tokenizer: Tokenizer
) -> None:
    assert counter.counts(TEXTS) == expected(tokenizer, TEXTS)
    assert counter.counts([]) == []
    many = [f"text {'word ' * (number % 7)}" for number in range(9000)]
    assert counter.counts(many) == expected(tokenizer, many)


def test_a_process_that_was_killed_is_started_again(counter: TokenCounter) -> None:
    counts = counter.counts(TEXTS)
    before = counter.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert counter.counts(TEXTS) == counts
    assert counter.pid != before


def test_a_process_that_is_not_asked_ends(file: str) -> None:
    counter = TokenCounter(file, os.environ, idle=0.05)
    counter.counts(["a"])
    deadline = time.monotonic() + 20
    while counter.pid is not None:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    assert counter.counts(["Hello world"]) == [2]
    counter.close()


def test_a_process_that_hangs_is_given_up(file: str) -> None:
    hanging = TokenCounter(file, os.environ, silence=0.001)
    with pytest.raises(OSError):
        hanging.counts(["word " * 90_000] * 3)
    hanging.close()


def test_threads_take_turns(counter: TokenCounter) -> None:
    counts = counter.counts(TEXTS)
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(counter.counts(TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [counts] * 4


def test_without_a_tokenizer_everything_is_estimated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    measure = exact(MINILM, TokenCounter(str(broken), os.environ))
    texts = ["Hello world", "unbelievable tokenization"]
    assert measure.counts(texts) == measure.estimate.counts(texts)
    assert "estimated" in caplog.text
    measure.counter.close()
    assert measure.count("Hello world") == 2


def test_chunks_of_real_documents_hold_what_the_model_takes(
    counter: TokenCounter, tokenizer: Tokenizer
) -> None:
    measure = exact(MINILM, counter)
    assert measure.capacity == 238
    for path in DOCS:
        text = path.read_text("utf-8")
        found = chunks(text, "markdown", measure)
        if not path.name.endswith(".ja.md"):  # which the model does not read
            assert max(len(tokenizer.encode(_embedded(text, chunk))) for chunk in found) <= 256


def _embedded(text: str, chunk: Chunk) -> str:
    return "\n".join((*chunk.headings, text[chunk.start : chunk.end]))


def test_the_estimate_is_never_far_too_low(tokenizer: Tokenizer) -> None:
    measure = estimated(None)
    for path in DOCS:
        text = path.read_text("utf-8")
        parts = [text[start:end] for start, end, _ in chunks(text, "markdown", measure)]
        if not path.name.endswith(".ja.md"):
            for part, tokens in zip(parts, expected(tokenizer, parts), strict=True):
                assert tokens <= measure.count(part) * 1.15 + 5
            assert 0.6 * sum(map(measure.count, parts)) <= sum(expected(tokenizer, parts))


def test_text_that_the_model_cannot_read_is_cut_for_the_search_by_words(counter: TokenCounter) -> None:
    japanese = "これは日本語の長い段落で、英語だけのモデルには読めない。" * 40
    measure = exact(MINILM, counter)
    assert len(chunks(japanese, "text", measure)) <= len(chunks(japanese, "text", estimated(None))) + 1
    multilingual = TokenizerMeasure(
        measure.capacity, "m", "intfloat/multilingual-e5-small", counter, measure.estimate
    )
    assert len(chunks(japanese, "text", multilingual)) > len(chunks(japanese, "text", measure))


@pytest.mark.parametrize(
    ("recipe", "room"),
    [
        (MINILM, 238),
        (settled("hotchpotch/bekko-embedding-v1-a25m"), TARGET),
        (settled("intfloat/multilingual-e5-small"), 512 - 2 - 3 - 16),
        (settled("paraphrase-multilingual-minilm-l12"), 128 - 2 - 15),
        (settled("any", overrides=ModelTraits(max_tokens=1)), 1),
    ],
)
def test_a_chunk_has_room_in_the_model_beside_what_is_put_around_it(recipe: Recipe, room: int) -> None:
    assert room_of(recipe) == room


def test_measures_are_named_by_what_they_count_with(counter: TokenCounter) -> None:
    other = settled("sentence-transformers/all-MiniLM-L6-v2", "b" * 40)
    shorter = settled(MINILM.model, "a" * 40, overrides=ModelTraits(max_tokens=128))
    names = [exact(recipe, counter).name for recipe in (MINILM, other, shorter)]
    names += [estimated(None).name, estimated(MINILM).name]
    assert len(set(names)) == 5
    assert exact(MINILM, counter).name == names[0]
