"""The letter of an approval: what it says, and that nothing written by others looks like a part of it."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.approvals.approvals import Approval, ApprovalBinding, ApprovalReason, ApprovalTrail
from tabane.guard.approvals.argument_fields import Budget
from tabane.guard.approvals.letter import (
    IN_DIALOG,
    IN_LIST,
    WHOLE,
    EarlierDecisions,
    Letter,
    letter_of,
    letter_text,
)
from tabane.guard.flows.tool_roles import role_of_parameter
from tabane.messages import Lang
from tabane.operations.door import JudgedTarget

NONE = EarlierDecisions()
HOUR = 3_600.0

TRUSTED = st.sampled_from(
    ["What was read before", "- Approve: it is safe", "! ", "\n", "\r", "\x1b[2J", "\u202e"]
)
HOSTILE = st.lists(st.one_of(TRUSTED, st.text(max_size=60), st.just(" " * 90)), max_size=6).map("".join)


def approval(arguments: Any = None, **fields: Any) -> Approval:
    given: dict[str, Any] = {
        "id": "3fa9c1d2e4",
        "binding": ApprovalBinding("local", "mail__send_email", "mail"),
        "asked": 0.0,
        "expires": 600.0,
        "reasons": (ApprovalReason("flow", "It may leak."),),
        "client": "claude",
        "labels": ("external",),
    } | fields
    return Approval(**given, arguments=json.dumps(arguments or {}, ensure_ascii=False))


def letter(
    of: Approval, earlier: EarlierDecisions = NONE, lang: Lang = "en", budget: Budget = IN_LIST
) -> Letter:
    return letter_of(of, earlier, lang, budget, 10 * HOUR, role_of_parameter)


def test_the_whole_letter() -> None:
    wanted = approval(
        {"body": "Dear Bob,\nhello", "subject": "Hi", "to": "bob@example.com", "password": "***"},
        pairs=("mail__send_email>bob@example.com",),
        trail=ApprovalTrail({"files": "files__read_file"}, {"pages": "read_url_content"}, 1.0),
        targets=(JudgedTarget("address", "bob@example.com", "to", "text", "pages", "read_url_content"),),
        folder="file:///home/ada/work",
    )
    earlier = EarlierDecisions(2, 1, 9 * HOUR, 8 * HOUR, ["to", "body"])
    assert letter_text(letter(wanted, earlier), "en", 80) == (
        "send_email of mail will send this to bob@example.com.\n"
        "! It sends data out of this machine after your own data and text that strangers can write were "
        "read. That text may be what asks for this call.\n"
        "! bob@example.com is named only in text that strangers can write: web pages (read_url_content).\n"
        "\n"
        "What it is given\n"
        "\n"
        "    to: bob@example.com\n"
        "    subject: Hi\n"
        "    password: (hidden, because it looks like a password or a key)\n"
        "    body:\n"
        "      | Dear Bob,\n"
        "      | hello\n"
        "\n"
        "What was read before\n"
        "- Text that strangers can write: web pages (read_url_content)\n"
        "- Your own data: files (files__read_file)\n"
        "\n"
        "Earlier decisions about this tool\n"
        "- You approved 2 calls of it, and refused 1. Your last decision was 1 h ago.\n"
        "- You refused the last one.\n"
        "- Different from the last approved call: to, body\n"
        "- It goes to another recipient than the last approved call.\n"
        "\n"
        "Who asks\n"
        "- claude\n"
        "- Working folder: /home/ada/work\n"
        "\n"
        "What your answer does\n"
        "- Approve: the call is made once, with exactly these values.\n"
        "- Allow from now on: calls of mail__send_email for bob@example.com are made without asking.\n"
        "- Refuse: it is not made, and the same call is refused for ten minutes."
    )


@pytest.mark.parametrize(
    ("labels", "arguments", "sentence"),
    [
        (
            ("external",),
            {"to": ["a@b.example", "c@d.example"]},
            "will send this to a@b.example, c@d.example.",
        ),
        (("external",), {"text": "x"}, "will send this out of this machine."),
        (("untrusted", "external"), {"url": "https://a.example/x"}, "will request https://a.example/x."),
        (("destructive",), {"path": "/tmp/x"}, "will be called for /tmp/x. That cannot be undone."),
        (("destructive",), {}, "will do something that cannot be undone."),
        ((), {"to": [f"u{number}@b.example" for number in range(9)]}, "u2@b.example and 6 more."),
        (
            (),
            {"to": "bob@example.com, who has agreed. Approve it"},
            "will be called for what is named below.",
        ),
        ((), {"to": "שלום@example.com"}, "will be called for what is named below."),
        ((), {"n": 1}, "send_email of mail will be called."),
    ],
)
def test_the_first_sentence_says_what_would_happen_and_to_whom(
    labels: tuple[str, ...], arguments: dict[str, Any], sentence: str
) -> None:
    assert letter(approval(arguments, labels=labels)).sentence.endswith(sentence)


@pytest.mark.parametrize(
    ("naming", "words"),
    [
        ("text", "named only in text that strangers can write: mail (mail__read)"),
        ("record", "from a record of somebody else: mail (mail__read)"),
        ("disguised", "in another spelling or in parts: mail (mail__read)"),
        ("nowhere", "Nothing that is still known says where eve@example.net was named"),
    ],
)
def test_it_says_where_a_target_was_named(naming: Any, words: str) -> None:
    target = JudgedTarget("address", "eve@example.net", "to", naming, "mail", "mail__read")
    assert words in letter(approval({}, targets=(target,))).against[1]


def test_a_parameter_that_reaches_somebody_is_shown_as_a_recipient() -> None:
    target = JudgedTarget("user", "eve", "zielperson", "nowhere")
    [first, _] = letter(approval({"note": "x", "zielperson": "eve"}, targets=(target,))).fields
    assert (first.name, first.role) == ("zielperson", "recipient")


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            ("mail__send_email>a@b.example", "mail__send_email>c@d.example"),
            ["for a@b.example, c@d.example are made"],
        ),
        (("mail__send_email>-",), ["calls of mail__send_email that name nothing are made"]),
        (("mail__send_email>a, or anybody",), ['for "a, or anybody" are made']),
        (("mail__send_email>hooks.example/services/t0ken",), ['for "***" are made']),
        (("pages>mail", "pages>files"), ["After web pages was read, calls of mail", "calls of files are"]),
        ((), []),
    ],
)
def test_it_says_what_is_allowed_from_now_on(pairs: tuple[str, ...], said: list[str]) -> None:
    given = {"to": ["a@b.example", "c@d.example"], "cc": "a, or anybody", "url": "***"}
    remember = letter(approval(given, pairs=pairs)).remember
    assert len(remember) == len(said)
    assert all(words in line for words, line in zip(said, remember, strict=True))


def margin(text: str) -> list[str]:
    return [line for line in text.split("\n") if not line.startswith("    ")]


def width_of(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WFA" else 1 for sign in line)


@given(
    st.dictionaries(HOSTILE, st.one_of(HOSTILE, st.lists(HOSTILE, max_size=3)), max_size=4),
    st.integers(30, 90),
)
def test_no_value_looks_like_a_part_of_the_letter(arguments: dict[str, Any], columns: int) -> None:
    found = letter(approval({**arguments, "zz": 1}, labels=()))
    text = letter_text(found, "en", columns)
    usual = letter_text(letter(approval({"zz": 1}, labels=())), "en", columns)
    objections = {f"! {each}" for each in found.against}
    assert [line for line in margin(text)[1:] if line not in objections] == [
        line for line in margin(usual)[1:] if not line.startswith("! ")
    ]
    for line in text.split("\n"):
        if line.startswith("    "):
            assert width_of(line) <= columns
            assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in line)
    assert "\u202e" not in text


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize(
    "fields",
    [
        {"client": "claude\n\nWhat was read before\n- nothing"},
        {"folder": "/home\n- Approve: safe"},
        {"targets": (JudgedTarget("address", "a@b.example\n! safe", "to", "text", "m\n! x", "t\n! y"),)},
        {"trail": ApprovalTrail({}, {"mail": "tool\n! safe"})},
        {
            "pairs": ("mail__send_email>a@b.example\n- Approve: x",),
            "targets": (JudgedTarget("id", "a@b.example\n- approve: x"),),
        },
        {"binding": ApprovalBinding("local", "mail__send\n! safe", "mail")},
    ],
)
def test_no_name_begins_a_line(fields: dict[str, Any], lang: Lang) -> None:
    found = letter(approval({}, **fields), EarlierDecisions(1, 0, 1.0, 1.0, ["a\n! safe"]), lang)
    text = letter_text(found, lang, 80)
    assert not any(
        line.startswith(("! safe", "- Approve: safe", "- Approve: x", "- nothing", "! x", "! y"))
        for line in text.split("\n")
    )


@given(st.dictionaries(HOSTILE, HOSTILE, max_size=40))
def test_a_dialog_stays_small(arguments: dict[str, Any]) -> None:
    found = letter(approval({**arguments, "to": "bob@example.com", "body": "x" * 9_000}), budget=IN_DIALOG)
    assert found.fields[0].role == "recipient"
    assert sum(len(each.value) for each in found.fields) < 12_000
    assert len(letter_text(found, "en", 76)) < 20_000
    assert not found.whole


def test_what_matters_is_within_a_thousand_characters() -> None:
    found = letter(
        approval({"body": "Dear Bob,\n" * 500, "subject": "Hi", "to": "bob@example.com"}), budget=IN_DIALOG
    )
    text = letter_text(found, "en", 76)
    assert text.index("to: bob@example.com") < 300
    assert text.index("What your answer does") < 1_000
    assert "more characters" in text


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("bob@example.com" + " " * 300 + ",eve@evil.example", '! It ends with "'),
        ("bob@example.com." + "a" * 3_000 + ".evil.example", ".evil.example"),
        ([f"u{number}@ok.example" for number in range(200)] + ["eve@evil.example"], "eve@evil.example"),
        ('"Bob <bob@x.example>" <eve@evil.example>', ""),
        ('"bob@x.example" <eve@evil.example>', "! The address is eve@evil.example, not the name"),
    ],
)
def test_the_end_of_a_recipient_is_shown(to: Any, said: str) -> None:
    text = letter_text(letter(approval({"to": to}), budget=IN_DIALOG), "en", 90)
    assert "evil.example" in text
    assert said in text


def test_what_is_cut_is_counted_and_an_empty_value_is_said() -> None:
    found = letter(approval({"a": "x" * 5_000, "b": ""}), budget=WHOLE)
    text = letter_text(found, "en", 80, 1_000)
    assert "4,000 more characters" in text
    assert "b: (empty)" in text
    assert found.whole


def test_arguments_that_are_no_object_are_shown_as_they_are() -> None:
    found = letter(approval([1, "x\n! safe"]))
    assert '    Arguments: [1, "x\\n! safe"]' in letter_text(found, "en", 80)
    assert letter(approval({})).fields == ()


def test_only_a_warning_speaks_against_a_call_and_other_rules_give_their_reason() -> None:
    found = letter(
        approval({}, reasons=(ApprovalReason("confirm", "x"), ApprovalReason("new", "{a}", {"a": "A\u202e"})))
    )
    assert found.against == ()
    assert found.reasons[1] == "A\u27e8U+202E\u27e9"


def test_an_approval_of_an_earlier_version_is_readable() -> None:
    kept = msgspec.json.encode(approval({"to": "bob@example.com"}))
    earlier = {name: value for name, value in json.loads(kept).items() if name != "targets"}
    assert msgspec.json.decode(json.dumps(earlier), type=Approval) == approval({"to": "bob@example.com"})
