"""Rows of twilog.csv; a damaged row affects only itself."""

from __future__ import annotations

import csv
import io
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.posts.importing.import_report import RejectedRow
from tabane.posts.importing.twilog_csv import COLUMNS, EXAMPLE, TwilogCsv, unescaped, user_of
from tabane.posts.post import BOOKMARK, Post
from tests.posts.importing.archives import FIRST, row, write_csv

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=80)
AWKWARD = st.sampled_from(['"', '""', "\n", ',"\n', "&amp;", "<b>", '\n"1","x', "日本語\n\n", "\ufeff", "'"])
CONTENTS = st.lists(LINES | AWKWARD, max_size=4).map("".join)


def read(path: Path | str) -> list[Post | RejectedRow]:
    source = TwilogCsv(str(path), UTC)
    try:
        return list(source)
    finally:
        source.close()


def posts_of(text: str | bytes, folder: Path) -> list[Post | RejectedRow]:
    path = folder / "twilog.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path)


@given(
    st.lists(CONTENTS, min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans()
)
def test_every_content_comes_back_as_it_was(
    contents: list[str], end: str, mark: bool, all_quoted: bool
) -> None:
    file = io.StringIO(newline="")
    quoting: int = csv.QUOTE_ALL if all_quoted else csv.QUOTE_NONNUMERIC
    writer = csv.writer(file, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
    writer.writerows(row(FIRST + number, content) for number, content in enumerate(contents))
    with TemporaryDirectory() as folder:
        found = posts_of("\ufeff" * mark + file.getvalue(), Path(folder))
    assert [each.content if isinstance(each, Post) else each for each in found] == contents


def test_a_row_becomes_a_post(tmp_path: Path) -> None:
    text = (
        '"1234567890123456789","https://twitter.com/Alice/status/1234567890123456789",'
        '"2024-03-15 14:30:25","Pythonで検索 &amp; 分類 #tag","3"\n'
    )
    (path := tmp_path / "twilog.csv").write_text(text)
    assert list(TwilogCsv(str(path), ZoneInfo("Asia/Tokyo"))) == [
        Post(
            post_id=1234567890123456789,
            content="Pythonで検索 & 分類 #tag",
            timestamp="2024-03-15 14:30:25",
            url="https://twitter.com/Alice/status/1234567890123456789",
            user="Alice",
            log_type=BOOKMARK,
            at=1710480625,
        )
    ]


@pytest.mark.parametrize(
    ("url", "user"),
    [
        ("https://twitter.com/alice/status/12", "alice"),
        ("http://www.x.com/a_1/status/12", "a_1"),
        ("https://x.com/alice/status/12/photo/1", "alice"),
        ("https://x.com/alice/status/13", ""),
        ("https://x.com/alice/status/123", ""),
        ("https://example.com/alice/status/12", ""),
        ("https://x.com/i/status/12", ""),
        ("", ""),
    ],
)
def test_the_user_is_in_the_address_of_that_very_post(url: str, user: str) -> None:
    assert user_of(url, 12) == user


def test_entities_are_resolved_once_and_addresses_left_alone() -> None:
    assert unescaped("&lt;b&gt; &amp;amp; &quot;&#39;&#x3042;") == "<b> &amp; \"'あ"
    assert unescaped("?a=1&copy=2&amp;lt=3 &unknown; &") == "?a=1&copy=2&lt=3 &unknown; &"


@pytest.mark.parametrize("header", ["post_id,url,timestamp,content,log_type", "ID,アドレス,日時,本文,種類"])
def test_a_line_of_names_is_passed_over(tmp_path: Path, header: str) -> None:
    path = write_csv(tmp_path / "twilog.csv", [row(FIRST, "one")], begin=f"\ufeff{header}\n")
    assert [each.content for each in read(path) if isinstance(each, Post)] == ["one"]


def test_named_columns_may_stand_in_another_order(tmp_path: Path) -> None:
    order = [3, 0, 4, 2, 1]
    cells = row(FIRST, "one", log_type=2)
    names = ",".join(COLUMNS[column] for column in order)
    path = write_csv(tmp_path / "twilog.csv", [[cells[column] for column in order]], begin=names + "\n")
    assert read(path) == read(write_csv(tmp_path / "other.csv", [cells]))


def test_bad_rows_are_told_with_their_line_and_cost_no_other(tmp_path: Path) -> None:
    good = EXAMPLE.encode() + b"\n"
    rows = [
        good,
        good.replace(b'"1"\n', b'"4"\n'),
        b'"7","https://x.com/a/status/7","2024-01-01 00:00:00","two\nlines","1"\n',
        b'"8","https://x.com/a/status/8","yesterday","","1"\n',
        b'"9","https://x.com/a/status/9","2024-01-01 00:00:00","never closed,"1"\n',
        good,
        b'"10","https://x.com/a/status/10","2024-01-01 00:00:00","\xff","1"\n',
        b"\n",
        b"a,b\n",
        b'"11","' + b"x" * 200_000 + b'","","","1"\n',
        good,
        b'"12","https://x.com/a/status/12","2024-01-01 00:00:00","cut off in the mid',
    ]
    found = posts_of(b"".join(rows), tmp_path)
    bad = [each for each in found if isinstance(each, RejectedRow)]
    assert [(each.line, each.post_id) for each in bad] == [
        (2, 1234567890123456789), (5, 8), (6, 9), (8, 10), (10, 0), (11, 11), (13, 12)
    ]  # fmt: skip
    assert [str(each.reason) for each in bad] == [
        "log_type must be 1, 2 or 3, not “4”",
        "“yesterday” is not a time",
        "a quote is not closed",
        "not UTF-8",
        "2 columns instead of 5",
        "longer than 131072 bytes",
        "a quote is not closed",
    ]
    assert [each.post_id for each in found if isinstance(each, Post)] == [
        1234567890123456789, 7, 1234567890123456789, 1234567890123456789
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"\x7fELF\0\0\0", "it is not text"),
        (EXAMPLE.encode("utf-16"), "it is UTF-16"),
        ("日時,本文\n2024,こんにちは\n".encode("cp932"), "line 1: not UTF-8"),
        (b"name,age\nalice,7\n", "line 1: 2 columns instead of 5"),
        (b"id,user,text,likes,lang\n1,alice,hi,3,en\n", "line 2: log_type must be 1, 2 or 3, not"),
        (b"post_id,url,timestamp,content,log_type\n", ""),
        (b"<html>\n" * 50, "line 1: 1 column instead of 5"),
    ],
)
def test_another_file_is_one_error_at_once_that_shows_a_row(tmp_path: Path, content: bytes, why: str) -> None:
    (path := tmp_path / "twilog.csv").write_bytes(content)
    if not why:  # an archive without a post
        assert read(path) == []
        return
    with pytest.raises(BadArguments) as raised:
        TwilogCsv(str(path), UTC)
    assert f"{path} is not a twilog.csv: {why}" in str(raised.value)
    assert EXAMPLE in str(raised.value)
