"""Words with the same meaning get the same tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.analysis import (
    GAP,
    bigrams,
    cjk_runs,
    groups,
    identifier_tokens,
    is_mixed,
    normalize,
    positioned,
    stem,
    tokens,
    units,
)

# Any text that Python can hold, lone surrogates included, with scripts that the rules know.
TEXT = st.text(st.one_of(st.characters(), st.sampled_from("aZ09_-./'’ 東京のをァーｱﾞ가𠮷")), max_size=60)


@pytest.mark.parametrize(
    "words",
    [
        "file files filing filed",
        "query queries querying queried",
        "delete deletes deleted deleting",
        "search searches searched searching",
        "add adds adding added",
        "log logs logging logged",
        "cancel cancelled canceled cancelling",
        "box boxes",
        "status statuses",
        "alias aliases",
        "copy copies copied copying",
        "write writes writing written",
        "embed embeds embedded embedding embeddings",
        "analyze analyse analysis analyses analyzing",
        "summarize summarise summarizing summarised",
        "organization organisation organizations",
        "colour color colours",
        "schema schemas",
        "release released releasing releases",
    ],
)
def test_inflections_of_a_word_share_a_stem(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("news", "new"),
        ("string", "str"),
        ("speed", "spe"),
        ("process", "proces"),
        ("add", "ad"),
        ("need", "ne"),
    ],
)
def test_different_words_keep_different_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", ["read", "file", "readfile"]),
        ("readFile", ["read", "file", "readfile"]),
        ("read-file", ["read", "file", "readfile"]),
        ("files.read", ["file", "read", "filesread"]),
        ("getHTTPResponse", ["get", "http", "respons", "gethttpresponse"]),
        ("createGitHubIssue", ["creat", "github", "issu", "creategithubissue"]),
        ("fetch", ["fetch"]),
        ("領収書を登録", ["領収", "収書", "書を", "を登", "登録"]),
        ("___", []),
    ],
)
def test_a_name_gives_its_parts_and_itself(name: str, expected: list[str]) -> None:
    assert identifier_tokens(name) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The user's files", ["the", "user", "file"]),
        ("an e-mail", ["an", "e", "mail", "email"]),
        ("GitHub and C++ or C#", ["github", "and", "c++", "or", "c#"]),
        ("call readFile()", ["call", "read", "file", "readfile"]),
        ("ファイルを読む", ["ファ", "ァイ", "イル", "ルを", "を読", "読む"]),
        ("すべての値", ["の値"]),
        ("１２３ ＡＢＣ", ["123", "abc"]),
        ("東", ["東"]),
        ("の", []),
        ("한국어", ["한국", "국어"]),
        ("cut \ud83d emoji 😀", ["cut", "emoji"]),
        ("", []),
    ],
)
def test_text_becomes_these_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("サーバー", "サーバ"),
        ("ﾌｧｲﾙ", "ファイル"),
        ("ユーザー管理", "ユーザ管理"),
        ("ＰＤＦ", "pdf"),
        ("Café", "CAFÉ"),
    ],
)
def test_spellings_of_one_word_give_the_same_tokens(one: str, other: str) -> None:
    assert tokens(one) == tokens(other)


def test_a_short_katakana_word_keeps_its_final_mark() -> None:
    assert tokens("バー") != tokens("バ")


def test_runs_are_spelt_as_their_tokens_are_cut() -> None:
    assert cjk_runs("サーバーとFTPサーバー") == ["サーバと", "サーバ"]
    assert [pair for run in cjk_runs("東京tower大阪") for pair in bigrams(run)] == ["東京", "大阪"]


@given(TEXT)
def test_no_token_is_empty_or_holds_a_blank(text: str) -> None:
    for token in tokens(text) + identifier_tokens(text):
        assert token
        assert not any(character.isspace() for character in token)


def test_one_text_has_one_spelling() -> None:
    assert normalize("Ｒｅａｄ ﾌｧｲﾙ") == normalize("READ ファイル") == "read ファイル"


@given(
    st.lists(
        st.sampled_from(["read", "file", "list", "Table", "users", "検索", "東京", "データ"]), max_size=8
    )
)
def test_texts_put_side_by_side_give_their_tokens_side_by_side(words: list[str]) -> None:
    assert tokens(" ".join(words)) == [token for word in words for token in tokens(word)]


@given(TEXT)
def test_places_hold_the_tokens_and_gaps_for_what_is_left_out(text: str) -> None:
    places = positioned(text)
    assert [token for token in places if token != GAP] == tokens(text)
    assert [token for group in groups(text) for token in group] == places


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京のです 大阪", ["東京", "京の", GAP, GAP, "大阪"]),
        ("read_file の", ["read", "file", "readfile", GAP]),
        ("すべて", [GAP, GAP]),
    ],
)
def test_a_bigram_that_is_left_out_keeps_its_place(text: str, expected: list[str]) -> None:
    assert positioned(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京都の株価", ["東京", "株価"]),
        ("京都へ", ["京都"]),
        ("長期金利", ["長期", "金利"]),
        ("ブログとログ", ["ブログ", "ログ"]),
        ("ｻｰﾊﾞｰ", ["サーバ"]),
        ("plain text の", []),
    ],
)
def test_units_are_where_words_are_likely(text: str, expected: list[str]) -> None:
    assert units(text) == expected


def test_a_bigram_that_is_half_hiragana_is_told_from_content() -> None:
    assert [is_mixed(token) for token in ("京の", "を読", "東京", "ログ", "file")] == [
        True,
        True,
        False,
        False,
        False,
    ]
