"""Search finds what people ask for, and never less of it than before."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from benchmarks.search.quality import Corpus, Quality, measured

from tabane.engine.query_plans import japanese
from tests.search.quality import floor

LEXICAL, WORDS = "lexical", "words"


@pytest.mark.parametrize("name", [LEXICAL, WORDS])
def test_quality_keeps_its_floor(name: str) -> None:
    if name == WORDS and japanese() is None:
        pytest.skip("needs the extra [ja]")
    corpus = Corpus.read(floor.CORPUS)
    least = getattr(floor.read()[-1], name)
    quality, found = measured(corpus, words=name == WORDS)
    assert quality.ndcg >= least, _worst(corpus, found)
    if floor.floored(quality.ndcg) > least:
        warnings.warn(
            f"{quality.ndcg:.3f} is above the floor: python -m tests.search.quality --raise", stacklevel=1
        )


def _worst(corpus: Corpus, found: dict[str, list[str]]) -> str:
    """The queries that are answered worst, to begin with."""
    scored = sorted(corpus.queries, key=lambda query: Quality.of(found, [query]).ndcg)
    return "\n".join(
        f"{query.text}: {found[query.name][:3]}, not {sorted(query.right)}" for query in scored[:8]
    )


def test_the_floor_was_never_lowered_without_a_reason() -> None:
    assert list(floor.faults(floor.read())) == []


def test_the_corpus_is_the_one_that_the_floor_was_measured_on() -> None:
    assert floor.read()[-1].corpus == floor.digest(), (
        'python -m tests.search.quality --lower "what was changed in it"'
    )


def test_every_question_has_its_answer_in_the_corpus() -> None:
    corpus = Corpus.read(floor.CORPUS)
    assert len({query.name for query in corpus.queries}) == len(corpus.queries) >= 80
    assert len(corpus.texts) == len(json.loads(floor.CORPUS.read_text("utf-8"))["docs"]) >= 150
    assert [
        query.name for query in corpus.queries if not query.right or query.right - corpus.texts.keys()
    ] == []


STEP = floor.Step("one", 0.9, 0.95)


@pytest.mark.parametrize(
    "lower", [floor.Step("one", 0.89, 0.95), floor.Step("one", 0.9, 0.94), floor.Step("other", 0.99, 0.99)]
)
def test_a_step_down_needs_a_reason(lower: floor.Step) -> None:
    assert len(list(floor.faults([STEP, lower]))) == 1
    with pytest.raises(ValueError, match="--lower"):
        floor.raised([STEP], lower)
    with pytest.raises(ValueError, match="why"):
        floor.lowered([STEP], lower, " ")
    steps = floor.lowered([STEP], lower, "the questions are harder now")
    assert list(floor.faults(steps)) == []
    assert steps[-1].reason == "the questions are harder now"


def test_a_step_up_needs_none() -> None:
    higher = floor.Step("one", 0.91, 0.95)
    assert floor.raised([STEP], higher) == [STEP, higher]
    assert list(floor.faults([STEP, higher])) == []


def test_what_is_no_step_is_not_written_down() -> None:
    lowered = floor.Step("one", 0.9, 0.95, "once lower")
    assert floor.raised([lowered], STEP) == [lowered]


def test_quality_is_what_its_definition_says() -> None:
    """The second of two right texts at place three: (1 + 1/2) / (1 + 1/log2 3)."""
    corpus = Corpus.of({"docs": ["a", "b", "c"], "queries": [{"id": 1, "q": "?", "rel": [0, 2]}]})
    queries = corpus.queries
    quality = Quality.of({"1": ["0", "1", "2"]}, queries)
    assert (quality.ndcg, quality.recall, quality.mrr) == pytest.approx((1.5 / 1.6309298, 1.0, 1.0))
    quality = Quality.of({"1": ["1", "2"]}, queries)
    assert (quality.ndcg, quality.recall, quality.mrr) == pytest.approx((0.6309298 / 1.6309298, 0.5, 0.5))
    assert Quality.of({"1": []}, queries) == Quality(0.0, 0.0, 0.0)


def test_a_folder_is_read_as_beir_has_it(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "Wings", "text": "in a stream"}\n{"_id": "b", "title": "", "text": "heat"}\n'
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "1", "text": "lift?"}\n{"_id": "2", "text": "unjudged"}\n'
    )
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n")
    corpus = Corpus.read(tmp_path)
    assert corpus.texts == {"a": "Wings in a stream", "b": "heat"}
    assert [(query.name, query.text, query.right) for query in corpus.queries] == [
        ("1", "lift?", frozenset({"a"}))
    ]
