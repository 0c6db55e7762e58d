"""Secrets are masked in every place and every spelling."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.redaction import Redactor

SECRET = 'pä/ss "wö"\\rd+1%'
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=4, max_size=30)


def test_values_are_hidden_in_text() -> None:
    redactor = Redactor(["hunter22"])
    assert redactor.text("password=hunter22, again hunter22") == "password=***, again ***"


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(SECRET).replace("/", "\\/"),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET).lower(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"user:" + SECRET.encode() + b":x").decode(),
        base64.urlsafe_b64encode(b"me:" + SECRET.encode()).decode(),
        base64.b64encode(b"user1:" + SECRET.encode()).decode(),
    ],
)
def test_each_writing_of_a_secret_is_hidden(written: str) -> None:
    redactor = Redactor([SECRET])
    hidden = redactor.text(f"<{written}>")
    assert "***" in hidden
    assert len(hidden) < len(written) / 2 + 8


def test_a_secret_that_holds_another_leaves_nothing_of_itself() -> None:
    assert Redactor(["abcd", "abcdefgh"]).text("abcdefgh abcd") == "*** ***"


def test_the_lines_of_a_secret_are_hidden_one_by_one() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----\n"
    assert Redactor([key]).text("read MIIEvQIBADAN") == "read ***"


def test_a_value_of_three_characters_is_not_hidden() -> None:
    assert Redactor(["abc", ""]).text("abcabc") == "abcabc"


@given(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4), st.data())
def test_no_secret_is_left_in_any_text(secrets: list[str], others: list[str], data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from([*secrets, *others, " "]), max_size=10))
    redactor = Redactor(secrets)
    hidden = redactor.text("".join(parts))
    assert not any(secret in hidden for secret in secrets)


@given(st.text())
def test_without_secrets_nothing_changes(text: str) -> None:
    redactor = Redactor([])
    assert redactor.text(text) is text
