"""Notes are found by what they mean, in English and Japanese, by the model of the default install."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping

import pytest
from benchmarks.search.hybrid import Rankings, opened, rankings
from benchmarks.search.quality import Corpus, Query

from tabane.search.analysis import FUNCTION_WORDS, tokens
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.minilm_encoder import MODEL
from tabane.search.embedding.model_finder import ModelChoice
from tests.search.quality import floor

NOTES = floor.FOLDER / "notes.json"
"""Notes of a person, half in each language, and a question to each that shares no word with it.

A note that says the same in the other language is right too.
"""


def corpus() -> Corpus:
    return Corpus.read(NOTES)


def japanese(queries: tuple[Query, ...]) -> list[Query]:
    return [query for query in queries if not query.text.isascii()]


@pytest.fixture(scope="module")
def found() -> Mapping[str, Rankings]:
    async def run() -> Mapping[str, Rankings]:
        with tempfile.TemporaryDirectory() as folder:
            model = await opened(ModelChoice(MODEL, threads=2), folder)
            assert not isinstance(model, NoModel)
            try:
                return await rankings(corpus(), model, folder)
            finally:
                await model.close()

    return asyncio.run(run())


def test_questions_share_no_word_with_their_notes() -> None:
    whole = corpus()
    assert len(japanese(whole.queries)) == len(whole.queries) - len(japanese(whole.queries)) == 20
    grammar = set(tokens(" ".join(FUNCTION_WORDS)))
    shared = {
        query.name: (set(tokens(query.text)) & set(tokens(whole.texts[key]))) - grammar
        for query in whole.queries
        for key in query.right
    }
    assert {name: words for name, words in shared.items() if words} == {}


def hits(found: Mapping[str, Rankings], queries: list[Query], depth: int) -> float:
    return sum(bool(set(found[each.name].shipped[:depth]) & each.right) for each in queries) / len(queries)


def test_notes_are_found_by_their_meaning(found: Mapping[str, Rankings]) -> None:
    whole = corpus()
    asked = japanese(whole.queries)
    assert hits(found, asked, 1) >= 0.6
    assert hits(found, asked, 5) >= 0.95
    assert hits(found, list(whole.queries), 5) >= 0.85


def test_the_notes_are_json_without_repetition() -> None:
    given = json.loads(NOTES.read_text("utf-8"))
    assert len({each["key"] for each in given["docs"]}) == len(given["docs"]) == 40
