"""Tokens are counted with the model's own tokenizer, in a process beside the hub."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tabane.search.chunking import Chunk, chunks
from tabane.search.embedding import model_packages
from tabane.search.embedding.model_families import ModelTraits
from tabane.search.embedding.model_files import Recipe, settled
from tabane.search.embedding.token_counting import (
    TARGET,
    TokenCounter,
    TokenizerMeasure,
    estimated,
    exact,
    room_of,
)
from tests.harness.patience import LONG, wait_until

DOCS = sorted((Path(__file__).parents[3] / "docs").glob("*.md"))
MINILM = settled("sentence-transformers/all-MiniLM-L6-v2", "a" * 40)
TEXTS = ["Hello world", "", "unbelievable tokenization", "日本語の文", "a\ud800b", "word " * 4000, "x" * 300]


@pytest.fixture(scope="module")
def file() -> str:
    package = model_packages.read_packed_model(model_packages.PACKAGES[model_packages.MINILM])
    assert package is not None
    return os.path.join(package.folder, "tokenizer.json")


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
    wait_until(lambda: counter.pid is None, "it ends")
    assert counter.counts(["Hello world"]) == [2]
    counter.close()


def test_a_process_that_hangs_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")  # who opens it waits for a writer
    hanging = TokenCounter(str(tmp_path / "tokenizer.json"), os.environ, silence=0.5)
    with pytest.raises(OSError, match="WorkerEnded"):
        hanging.counts(["word"])
    hanging.close()


def test_threads_take_turns(counter: TokenCounter) -> None:
    counts = counter.counts(TEXTS)
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(counter.counts(TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
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


@pytest.mark.heavy("a real embedding model")
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


SAMPLES = {
    "prose": (
        "Tabane is a local hub for MCP. Connect your AI assistant to it once, and the assistant can search "
        "and call the tools of all your MCP servers, your notes and post archive, and any web page. Each "
        "server runs once, however many assistants are connected."
    ),
    "shares": "| BM25 and vectors | .704/.926/.963 | .698/.921/.960 | .701/.925/.962 |\n" * 8,
    "times": "| start | 1,234 ms | 56.7 ms | 0.98 | 12.5 % | 3 of 120 |\n" * 8,
    "settings": "| `--max-tokens N` | `max_tokens` | length of a part, in tokens: 100 to 50000 |\n" * 8,
    "log": "2026-11-23T09:46:51.123456Z INFO hub 10.254.131.7:48080 GET /mcp 200 17482 bytes 0.0007 s\n" * 8,
    "decimals": "3.14159265358979 2.71828182845905 1.61803398874989 0.577215664901533\n" * 8,
    "identifiers": "550e8400-e29b-41d4-a716-446655440000 sha256 9f86d081884c7d659a2feaa0c55ad015\n" * 8,
    "code": "def fuse(ranks: list[int], k=60) -> float:\n    return sum(1 / (k + r) for r in ranks)\n" * 8,
    "json": '{"id": 17, "name": "github__create_issue", "ok": true, "ms": [12, 340, 5]}\n' * 8,
    "rules": "|---|---:|:---:|\n| **a** | *b* | `c` | [d](e) | <https://f.g/h?i=1&j=2> |\n" * 8,
}
"""Texts as documents have them, from prose to what is nearly all digits and signs."""

NUMBERS = st.one_of(
    st.integers(0, 10**12).map(str),
    st.floats(0, 10**6, allow_nan=False).map(lambda value: f"{value:,.3f}"),
    st.floats(0, 1, allow_nan=False).map(lambda value: f"{value:.3f}".lstrip("0")),
    st.dates().map(str),
)
WORDS = st.sampled_from(("the", "hub", "ranked", "words", "in", "median", "server", "ms", "of", "memory"))
CELLS = st.lists(st.one_of(NUMBERS, WORDS), min_size=1, max_size=6).flatmap(
    lambda found: st.sampled_from((" ", "/", ", ", " ± ", "-")).map(lambda sign: sign.join(found))
)
TABLES = st.lists(st.lists(CELLS, min_size=1, max_size=8), min_size=1, max_size=12).map(
    lambda rows: "\n".join(f"| {' | '.join(row)} |" for row in rows)
)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_estimate_is_neither_far_too_low_nor_far_too_high(tokenizer: Tokenizer, name: str) -> None:
    text = SAMPLES[name]
    (tokens,) = expected(tokenizer, [text])
    count = estimated(None).count(text)
    assert 0.7 * count <= tokens <= 1.15 * count + 5


@settings(max_examples=40, deadline=None)
@given(TABLES)
def test_no_table_has_twice_as_many_tokens_as_estimated(tokenizer: Tokenizer, table: str) -> None:
    (tokens,) = expected(tokenizer, [table])
    assert tokens <= 2 * estimated(None).count(table)


def test_the_estimate_of_many_numbers_is_right_on_average(tokenizer: Tokenizer) -> None:
    drawn = random.Random(7)  # fixed: the bound is one of averages
    for digits in range(1, 9):
        text = " | ".join(str(drawn.randrange(10**digits)) for _ in range(500))
        (tokens,) = expected(tokenizer, [text])
        count = estimated(None).count(text)
        assert 0.85 * count <= tokens <= 1.15 * count


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
