"""A word leads to the words that stand for it, in both languages, and no further."""

from __future__ import annotations

from pathlib import Path

import pytest

import tabane.search.concepts
from tabane.search.analysis import cjk_runs
from tabane.search.concepts import LONGEST_HEADWORD, Glossary, glossary

SMALL = Glossary(
    [
        "# a comment\n",
        "delete remove erase\t削除 消す\n",
        "log record\tログ 記録\n",
        "log\tろぐ\n",
        "pull_request pr\tプルリクエスト\n",
        "read\t読 読む\n",
        "weather forecast < sunny umbrella\t傘\n",
    ]
)
ROWS = [
    line.rstrip("\n")
    for line in Path(tabane.search.concepts.__file__).with_name("glossary.tsv").read_text().splitlines()
    if line and not line.startswith("#")
]


def test_the_first_word_of_a_concept_is_nearest() -> None:
    assert SMALL.translations("削除") == {"delet": 1.0, "remov": 0.6, "eras": 0.6}
    near = SMALL.synonyms("eras")
    assert set(near) == {"delet", "remov"}
    assert near["delet"] > near["remov"]


def test_every_synonym_weighs_less_than_the_word_itself() -> None:
    for word in ("delet", "remov", "log", "pull_request", "sunni"):
        assert all(0 < weight < 1 for weight in SMALL.synonyms(word).values())


def test_english_leads_to_the_headwords_of_all_its_concepts() -> None:
    assert SMALL.headwords("log") == ["ログ", "記録", "ろぐ"]


def test_a_kind_leads_to_what_it_is_a_kind_of_and_not_back() -> None:
    assert set(SMALL.synonyms("sunni")) == {"weather", "forecast"}
    assert SMALL.synonyms("weather") == {}
    assert set(SMALL.translations("傘")) == {"weather", "forecast"}
    assert SMALL.headwords("weather") == []


def test_a_word_that_is_not_there_leads_nowhere() -> None:
    assert SMALL.synonyms("zzz") == {}
    assert SMALL.translations("無") == {}
    assert SMALL.headwords("zzz") == []


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("ログを削除する", ["ログ", "削除"]),
        ("プルリクエスト一覧", ["プルリクエスト"]),
        ("削除ログ", ["削除", "ログ"]),
        ("ブログ", []),
        ("文書を読み", ["読"]),
        ("読者", []),
        ("", []),
    ],
)
def test_headwords_are_found_whole_and_longest_first(run: str, expected: list[str]) -> None:
    assert [run[start:end] for start, end in SMALL.segments(run)] == expected


def test_the_glossary_of_tabane_joins_both_languages() -> None:
    assert "read" in glossary().translations("読む")
    assert "ファイル" in glossary().headwords("file")
    assert "remov" in glossary().synonyms("delet")


def test_every_line_of_the_glossary_can_be_looked_up() -> None:
    faults = [f"{row!r}: {fault}" for row in ROWS if (fault := wrong_with(row))]
    assert faults == []


def wrong_with(row: str) -> str:
    english, _, japanese = row.partition("\t")
    headwords = japanese.split()
    if len(english.split()) + len(headwords) < 2:
        return "leads from nothing to nothing"
    if not english.isascii() or english != english.lower() or "\t" in japanese:
        return "English is lower case ASCII, and one tab ends it"
    for headword in headwords:
        if "".join(cjk_runs(headword)).replace("ー", "") != headword.replace("ー", ""):
            return f"{headword} is not Japanese alone"
        if len(headword) > LONGEST_HEADWORD:
            return f"{headword} is too long to be found"
    return ""
