"""Relevance is comparable between kinds: in 0..1, and more evidence never makes it less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.search.analysis import HitWords, closeness, coverages, name_fit, raised, relevance

shares = st.floats(0, 1)
cosines = st.floats(-1, 1)
words = st.lists(
    st.sampled_from(["dentist", "wifi", "soup", "温泉", "地図", "bridge", "when", "the"]), max_size=6
)


@given(words, st.lists(st.tuples(words, words), max_size=5), st.booleans())
def test_coverage_is_a_share(query: list[str], hits: list[tuple[list[str], list[str]]], typing: bool) -> None:
    found = [HitWords.of(" ".join(title), " ".join(body)) for title, body in hits]
    covered = coverages(" ".join(query), found, unfinished=typing)
    assert len(covered) == len(hits)
    assert all(0 <= share <= 1 for share in covered)


@given(words, words, words, st.sampled_from(["dentist", "wifi", "温泉"]))
def test_a_hit_with_more_of_the_words_covers_no_less(
    query: list[str], title: list[str], body: list[str], more: str
) -> None:
    hits = [HitWords.of(" ".join(title), " ".join(said)) for said in (body, [*body, more])]
    less, both = coverages(" ".join(query), hits)
    assert both >= less


@given(shares, shares, cosines, cosines, st.floats(-0.5, 0.9))
def test_more_evidence_is_more_relevant(
    one: float, other: float, near: float, nearer: float, usual: float
) -> None:
    (low, high), (far, close) = sorted((one, other)), sorted((near, nearer))
    assert relevance(low, None) <= relevance(high, None)
    less = relevance(low, closeness(far, usual))
    assert 0 <= less <= relevance(high, closeness(close, usual)) <= 1


@given(shares, shares, st.floats(0, 5))
def test_what_speaks_for_a_hit_keeps_the_order(one: float, other: float, times: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= low <= raised(low, times) + 1e-12
    assert raised(low, times) <= raised(high, times) <= 1


def test_words_of_grammar_cover_nothing() -> None:
    hits = [HitWords.of("Kyoto", "When is the best time to visit?"), HitWords.of("Dentist", "Tuesday 9:30")]
    kyoto, dentist = coverages("when is the dentist appointment", hits)
    assert kyoto == 0 < dentist


def test_a_word_in_the_title_counts_more() -> None:
    titled, inside = coverages(
        "dentist", [HitWords.of("Dentist", "9:30"), HitWords.of("Diary", "the dentist")]
    )
    assert titled > inside > 0


def test_the_last_word_may_be_unfinished() -> None:
    hits = [HitWords.of("Dentist", "")]
    assert coverages("dent", hits) == [0.0]
    assert coverages("dent", hits, unfinished=True) == [1.0]


def test_a_name_fits_by_the_share_of_its_words() -> None:
    assert name_fit("when is the dentist appointment", "Dentist") == 1
    assert name_fit("lentil soup", "Red lentil soup") == 2 / 3
    assert name_fit("lentil soup", "") == 0
