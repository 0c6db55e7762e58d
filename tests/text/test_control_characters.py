"""Untrusted text cannot steer a terminal or deceive its reader, and real writing keeps its characters."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.text.control_characters import ascii_json, escaped_controls, without_controls

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
HOSTILE = st.text(
    st.sampled_from(
        '\x1b[]0;m1\x07\x9b\x9d\x9c\\\r\n\x7f\u200b\u200d\u202e\u2066\ufeff\U000e0041\U0001f468aé猫"'
    )
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07a \x1b]52;c;c2VjcmV0\x1b\\b \x9d0;t\x9cc", "a b c"),
        ("\x1bPq#0\x1b\\a\x1bcb\x1b(Bc", "abc"),
        ("\x1b\x1b[31m[32mgreen", "\ufffd[32mgreen"),
        ("a\tb\r\nc\rd\x07\x7f\x00日本語", "a\tb\nc\ufffdd\ufffd\ufffd\ufffd日本語"),
        ("\x1b]0;without an end", "0;without an end"),
        ("end \x1b", "end \ufffd"),
        ("ad\u202enimda\u202c \u2066x\u2069", "adnimda x"),
        ("pass\u200bword pass\u200dword\u200c \ufeffa\u2060b 猫\u200d猫", "password password ab 猫猫"),
        ("\u200dstart end\u200d", "start end"),
        ("hidden\U000e0068\U000e0069", "hidden"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_what_steers_or_deceives_is_not_printed(text: str, printed: str) -> None:
    assert without_controls(text) == printed


@pytest.mark.parametrize(
    "text",
    [
        "日本語とEnglish\n\tمرحبا שלום",
        "👨\u200d👩\u200d👧 ❤️\u200d🔥 🏳️\u200d🌈",
        "می\u200cخواهم क्\u200dष",
        f"{ENGLAND} 葛\U000e0100",
        "",
    ],
)
def test_what_a_writing_system_needs_stays(text: str) -> None:
    assert without_controls(text) == text


@given(HOSTILE)
def test_nothing_forbidden_is_left(text: str) -> None:
    assert FORBIDDEN.search(without_controls(text)) is None


@given(st.text(st.characters()))
def test_any_text_can_be_printed(text: str) -> None:
    without_controls(text).encode()


@given(st.recursive(HOSTILE, lambda inner: st.lists(inner) | st.dictionaries(HOSTILE, inner), max_leaves=5))
def test_json_says_the_same_without_these_characters(value: object) -> None:
    written = escaped_controls(json.dumps(value, ensure_ascii=False, indent=1))
    assert FORBIDDEN.search(written) is None
    assert json.loads(written) == value
    assert json.loads(ascii_json(written)) == value
    assert ascii_json(written).isascii()


def test_a_long_text_of_beginnings_is_read_once() -> None:
    assert without_controls("\x1b]" * 200_000) == ""
    assert len(without_controls("\x9d0;" * 200_000)) == 600_000
