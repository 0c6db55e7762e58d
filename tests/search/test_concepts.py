"""A question is what it asks for, with lesser weight what could say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.search.concepts import (
    MOST_CHINESE,
    MOST_CONCEPTS,
    MOST_VARIANTS,
    Concept,
    Glossary,
    concepts,
    glossary,
)

SMALL = Glossary(["delete remove\t削除 消す\n", "file\tファイル\n", "pull_request pr\tプルリクエスト\n"])


def said(concept: Concept) -> tuple[str, ...]:
    return concept.variants[0].tokens


def test_words_that_say_nothing_are_left_out() -> None:
    assert [said(c) for c in concepts("please delete the files", SMALL)] == [("delet",), ("file",)]


def test_a_question_of_nothing_else_is_taken_at_its_word() -> None:
    assert [said(c) for c in concepts("what can you do", SMALL)] == [("what",), ("can",), ("you",), ("do",)]


def test_a_word_that_comes_twice_counts_once() -> None:
    assert len(concepts("file files FILE", SMALL)) == 1


def test_synonyms_and_translations_stand_beside_the_word() -> None:
    (concept,) = concepts("delete", SMALL)
    assert [variant.tokens for variant in concept.variants] == [("delet",), ("remov",), ("削除",), ("消す",)]
    assert concept.variants[0].weight == 1
    assert all(variant.weight < 1 for variant in concept.variants[1:])


def test_japanese_variants_are_left_out_where_nothing_is_japanese() -> None:
    (concept,) = concepts("delete", SMALL, japanese=False)
    assert [variant.tokens for variant in concept.variants] == [("delet",), ("remov",)]


def test_japanese_is_cut_at_headwords_and_translated() -> None:
    found = concepts("ファイルを削除したい", SMALL)
    assert [said(concept) for concept in found] == [("ファ", "ァイ", "イル"), ("削除",)]
    assert ("delet",) in [variant.tokens for variant in found[1].variants]


def test_japanese_that_is_no_headword_is_searched_by_its_bigrams() -> None:
    assert [said(concept) for concept in concepts("経費精算", SMALL)] == [("経費",), ("費精",), ("精算",)]


def test_phrases_count_as_one_concept_of_all_their_words() -> None:
    found = concepts("open a pull request", SMALL)
    phrase = next(concept for concept in found if len(said(concept)) == 2)
    assert said(phrase) == ("pull", "request")
    assert phrase.variants[0].strict


def test_words_of_asking_count_less_beside_a_thing_and_least_in_a_sentence() -> None:
    (alone,) = concepts("show", SMALL)
    beside, commits = concepts("show commits", SMALL)
    sentence = concepts("show commits made yesterday by alice on branch main", SMALL)
    within = next(concept for concept in sentence if said(concept) == ("show",))
    assert alone.weight == commits.weight == 1
    assert alone.weight > beside.weight > within.weight


@given(st.text(max_size=500))
def test_any_question_has_bounded_concepts(text: str) -> None:
    found = concepts(text, glossary())
    assert len(found) <= MOST_CONCEPTS
    for concept in found:
        assert 0 < concept.weight <= 1
        assert concept.variants[0].weight == 1
        assert len(concept.variants) <= 2 * (1 + MOST_VARIANTS) + MOST_CHINESE
        assert all(variant.tokens and 0 < variant.weight <= 1 for variant in concept.variants)
