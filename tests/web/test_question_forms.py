"""The form of a server's question, the answer it gives, and the links that servers ask to open."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.web.pages.questions import answer_of, question_form, shown_link
from tabane.web.schema_forms import FilledField
from tests.harness.servers.questions import FORM

SCHEMA = {"type": "object", "properties": FORM, "required": ["name", "tools"]}


def values(form: FilledField) -> dict[str, list[str]]:
    """What a browser sends of a form that nobody has changed."""
    sent: dict[str, list[str]] = {}
    for each in form.fields:
        field = each.field
        if field.kind != "list":
            sent[field.path] = [each.value]
            continue
        chosen = {item.value for item in each.fields}
        choices = field.fields[0].choices
        assert each.item is not None
        for number, choice in enumerate(choices):
            sent[each.item.field.path.replace(each.mark, str(number))] = [choice.value]
        sent[f"i:{field.path}"] = [str(n) for n, choice in enumerate(choices) if choice.value in chosen]
    return sent


def test_a_form_has_the_defaults_of_its_schema_and_answers_with_them() -> None:
    sent = values(question_form(SCHEMA))
    sent |= {"/name": ["花"], "i:/tools": ["0", "1"]}
    read, _ = answer_of(SCHEMA, sent)
    assert read.errors == {}
    assert read.arguments == {
        "name": "花", "mail": "hana@example.com", "age": 30, "share": 0.25, "news": True, "color": "green",
        "size": "l", "days": ["tue"], "tools": ["a", "b"],
    }  # fmt: skip


def test_what_is_required_and_missing_is_named_and_the_rest_stays() -> None:
    read, form = answer_of(SCHEMA, values(question_form(SCHEMA)) | {"/age": ["31"]})
    assert set(read.errors) == {"/name", "/tools"}
    shown = {each.field.key: each for each in form.fields}
    assert shown["name"].error
    assert shown["age"].value == "31"


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("email", "a@example.com", "a"),
        ("uri", "https://example.com/", "example"),
        ("date", "2026-11-30", "30.11.2026"),
        ("date-time", "2026-11-30T09:00:00Z", "2026-11-30"),
    ],
)
def test_a_text_with_a_format_has_to_have_it(format: str, good: str, bad: str) -> None:
    schema = {"type": "object", "properties": {"it": {"type": "string", "format": format}}}
    assert answer_of(schema, {"/it": [good]})[0].errors == {}
    assert set(answer_of(schema, {"/it": [bad]})[0].errors) == {"/it"}
    assert answer_of(schema, {"/it": [""]})[0].arguments == {}


def test_choices_have_the_titles_of_either_revision() -> None:
    old = {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    new = {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
    for part in (old, new):
        (field,) = question_form({"type": "object", "properties": {"size": part}}).fields
        assert [(choice.value, choice.label) for choice in field.field.choices] == [
            ('"s"', "Small"),
            ('"l"', "Large"),
        ]


def test_a_choice_that_is_cleared_is_answered_as_empty_if_it_had_a_default() -> None:
    schema = {"type": "object", "properties": {"days": FORM["days"]}}
    assert answer_of(schema, {"e:/days": ["[]"]})[0].arguments == {"days": []}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "enum", "enumNames", "default", "items", "oneOf", "x"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(json_values, st.dictionaries(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=3)))
def test_no_schema_and_no_values_break_a_form(schema: Any, sent: dict[str, list[str]]) -> None:
    question_form(schema)
    read, _ = answer_of(schema, sent)
    assert isinstance(read.arguments, dict)


@pytest.mark.parametrize(
    ("url", "host", "rest"),
    [
        ("https://example.com/a?b=c#d", "example.com", "/a?b=c#d"),
        ("https://example.com", "example.com", ""),
        ("http://127.0.0.1:8080/x", "127.0.0.1", ":8080/x"),
        ("https://[::1]:1/", "[::1]", ":1/"),
        ("https://accounts.example.com?next=https://other.example/", "accounts.example.com", "?next=https://other.example/"),
    ],
)  # fmt: skip
def test_a_link_is_shown_with_its_host(url: str, host: str, rest: str) -> None:
    link = shown_link(url)
    assert (link.host, link.after, link.href, link.warnings) == (host, rest, url, ())


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://example.com@evil.example/",
        "https://example.com\\@evil.example/",
        "https:evil.example",
        "https:/\\evil.example/",
        "https://exa\tmple.com/",
        "https://example.com/\u202egpj.exe",
        "https:///example.com/",
        "https://exa%2fmple.com/",
        " https://example.com/",
        "HTTPS://example.com/\x00",
        "",
    ],
)
def test_a_link_that_may_deceive_is_never_opened(url: str) -> None:
    link = shown_link(url)
    assert link.href == ""
    assert link.before == url
    assert "odd" in link.warnings


def test_hosts_that_look_like_others_and_links_without_encryption_are_named() -> None:
    assert shown_link("https://аpple.com/").warnings == ("foreign",)
    assert shown_link("https://аpple.com/").ascii == "xn--pple-43d.com"
    assert shown_link("https://xn--pple-43d.com/").warnings == ("foreign",)
    assert shown_link("http://example.com/").warnings == ("unencrypted",)
    assert shown_link("http://localhost:3000/").warnings == ()


@given(st.text(max_size=40) | st.text(alphabet="htps:/@.\\[]?#ab \t%", max_size=40).map("https://".__add__))
def test_a_link_that_can_be_opened_leads_to_the_host_that_is_shown(url: str) -> None:
    link = shown_link(url)
    assert link.before + link.host + link.after == url
    if link.href:
        parts = urlsplit(link.href)
        assert parts.scheme in ("http", "https")
        assert parts.username is None
        assert parts.hostname is not None
        assert link.host.strip("[]").lower() == parts.hostname
