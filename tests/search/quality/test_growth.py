"""Meaning holds while an archive grows, and while its texts are being embedded."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from benchmarks.search.hybrid import WAYS, Rankings, among, judged, opened, rankings
from benchmarks.search.quality import Corpus, Query

from tabane.search.analysis import FUNCTION_WORDS, tokens
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.universal_encoder import MODEL
from tests.search.quality import floor

DIARY = floor.FOLDER / "diary.json"
"""Notes of a person, half in each language, and a question to each that shares no word with it."""
SIZE = 1_500

pytestmark = pytest.mark.heavy("thousands of texts are embedded")


def sentences() -> Corpus:
    """The sentences of Tabane's manual, in both languages."""
    pages = sorted(Path("docs").glob("*.md"))
    lines = {
        sentence.strip()
        for page in pages
        for line in page.read_text("utf-8").splitlines()
        for sentence in re.split(r"(?<=[.。])\s*", line)
        if 20 <= len(sentence) <= 300
    }
    return Corpus({str(place): line for place, line in enumerate(sorted(lines))}, ())


async def _found(corpus: Corpus, embedded: float) -> Mapping[str, Rankings]:
    with tempfile.TemporaryDirectory() as folder:
        model = await opened(ModelChoice(MODEL, threads=2), folder)
        assert not isinstance(model, NoModel)
        try:
            return await rankings(corpus, model, folder, embedded)
        finally:
            await model.close()


@pytest.fixture(scope="module", params=["ja", "en"])
def grown(request: pytest.FixtureRequest) -> Corpus:
    """The diary in one language among sentences in both."""
    whole = Corpus.read(DIARY)
    texts = {key: text for key, text in whole.texts.items() if key.startswith(request.param)}
    queries = tuple(query for query in whole.queries if query.right <= texts.keys())
    return among(Corpus(texts, queries), [sentences()], SIZE)


@pytest.fixture(scope="module")
def found(grown: Corpus) -> Mapping[str, Rankings]:
    return asyncio.run(_found(grown, 1.0))


def hits(found: Mapping[str, Rankings], queries: Sequence[Query], way: str, depth: int = 5) -> float:
    """Return the share of queries with a right text among the first ones."""
    return sum(bool(set(WAYS[way](found[each.name])[:depth]) & each.right) for each in queries) / len(queries)


def test_questions_share_no_word_with_their_notes() -> None:
    whole = Corpus.read(DIARY)
    grammar = set(tokens(" ".join(FUNCTION_WORDS)))
    shared = {
        query.name: (set(tokens(query.text)) & set(tokens(whole.texts[key]))) - grammar
        for query in whole.queries
        for key in query.right
    }
    assert {name: words for name, words in shared.items() if words} == {}


def test_what_is_meant_is_found_in_a_large_archive(found: Mapping[str, Rankings], grown: Corpus) -> None:
    assert hits(found, grown.queries, "words") <= 0.25
    assert hits(found, grown.queries, "both") >= 0.95 * hits(found, grown.queries, "meaning") >= 0.6


def test_the_embedded_share_is_found_as_when_all_are_embedded(
    found: Mapping[str, Rankings], grown: Corpus
) -> None:
    partly = asyncio.run(_found(grown, 0.5))
    embedded = [query for query in grown.queries if query.right & partly[query.name].embedded]
    assert 0.3 < len(embedded) / len(grown.queries) < 0.7
    now, complete = (judged(each, embedded, WAYS["both"]).mean() for each in (partly, found))
    assert now >= 0.95 * complete
