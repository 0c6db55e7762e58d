"""Questions in the forms of both eras, there and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.wire import json
from tabane.wire.question_answers import ACTIONS, AnswerMismatch, answer_of, check_answer
from tabane.wire.questions import (
    EVERYTHING,
    InvalidQuestion,
    Question,
    capabilities_of,
    features_of,
    input_request,
    input_required,
    input_required_of,
    legacy_params,
    missing,
    question_of,
    urls_required,
    with_responses,
)  # fmt: skip
from tests.hub.clients.questions.asking import FORM, SAMPLED, SAMPLING, URL

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | names, lambda part: st.lists(part, max_size=3)
)
extra = st.dictionaries(names.map(lambda name: f"x-{name}"), values, max_size=3)
forms = extra.map(lambda more: ("elicitation/create", {**FORM, **more}))
urls = extra.map(lambda more: ("elicitation/create", {**URL, **more}))
samplings = extra.map(lambda more: ("sampling/createMessage", {**SAMPLING, **more}))
folders = extra.map(lambda more: ("roots/list", more))
asked = st.one_of(forms, urls, samplings, folders)
features = st.frozensets(st.sampled_from(sorted(EVERYTHING))).map(
    lambda found: found if "sampling" in found else found - {"sampling.tools"}
)


def question(method: str, params: dict[str, Any]) -> Question:
    return question_of(method, json.encode(params))


@given(st.dictionaries(names, asked, min_size=1, max_size=4), names)
def test_what_a_legacy_server_asks_arrives_in_a_result_and_can_be_read_from_it(
    requests: dict[str, tuple[str, dict[str, Any]]], state: str
) -> None:
    questions = {key: question(*request) for key, request in requests.items()}
    found = input_required_of(input_required(questions, state))
    assert json.text(found.state) == state
    assert list(found.questions) == list(questions)
    for key, (method, params) in requests.items():
        one = found.questions[key]
        dropped = {"elicitationId", "task"}
        assert one.method == method
        assert json.decode(one.params) == {name: params[name] for name in params if name not in dropped}


@given(asked)
def test_a_question_of_a_modern_server_reaches_a_client_of_the_last_handshake_version_unchanged(
    request: tuple[str, dict[str, Any]],
) -> None:
    entry = json.fields(input_request(question(*request)))
    modern = question_of(json.text(entry["method"]) or "", entry["params"])
    params = legacy_params(modern, "2025-11-25", lambda: "e-1")
    assert params is not None
    assert json.decode(params) == {**request[1], **({"elicitationId": "e-1"} if modern.kind == "url" else {})}


@given(features)
def test_capabilities_declare_the_features_they_are_made_of(found: frozenset[str]) -> None:
    assert features_of(json.fields(capabilities_of(found))) == found


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (None, {"form", "url", "sampling", "sampling.tools", "roots"}),
        ("2025-11-25", {"form", "url", "sampling", "sampling.tools", "roots"}),
        ("2025-06-18", {"form", "sampling", "roots"}),
        ("2025-03-26", {"sampling", "roots"}),
    ],
)
def test_a_version_has_the_features_of_its_time(version: str | None, found: set[str]) -> None:
    assert features_of(json.fields(capabilities_of(EVERYTHING)), version) == found


def test_an_elicitation_without_modes_means_forms() -> None:
    assert features_of({"elicitation": Raw(b"{}")}) == {"form"}


def test_a_sampling_with_tools_needs_its_own_capability() -> None:
    with_tools = question("sampling/createMessage", SAMPLING | {"tools": []})
    assert missing(with_tools, frozenset({"sampling"})) == "sampling.tools"
    assert missing(with_tools, EVERYTHING) is None


@given(st.binary(max_size=60))
def test_a_result_that_is_no_question_is_never_taken_for_one(result: bytes) -> None:
    with pytest.raises(InvalidQuestion):
        input_required_of(result)


def test_a_repeated_call_has_only_the_latest_answers() -> None:
    first = {"name": Raw(b'"x"'), "inputResponses": Raw(b"{}"), "requestState": Raw(b'"old"')}
    assert with_responses(first, {"q": b"{}"}, Raw(b'"new"')) == {
        "name": Raw(b'"x"'),
        "inputResponses": Raw(b'{"q":{}}'),
        "requestState": Raw(b'"new"'),
    }
    assert with_responses(first, {}, None) == {"name": Raw(b'"x"')}


def test_urls_are_read_from_the_error_that_wants_them_alone() -> None:
    error = {"code": -32042, "message": "", "data": {"elicitations": [URL]}}
    (found,) = urls_required(json.encode(error)).values()
    assert json.decode(found.params) == URL
    for other in ({**error, "code": -1}, {**error, "data": {}}, {**error, "data": {"elicitations": [{}]}}):
        assert urls_required(json.encode(other)) == {}


@given(st.sampled_from(ACTIONS), st.text(max_size=5), st.integers(0, 200))
def test_a_persons_answer_to_a_form_fits_it(action: Any, name: str, age: int) -> None:
    form = question("elicitation/create", FORM)
    answer = answer_of(form, action, {"name": name, "age": age})
    assert answer is not None
    check_answer(form, answer)
    assert json.decode(answer)["action"] == action


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd", 1, None]),
        ({"type": "integer", "maximum": 3}, [3, 2.0], [4, 2.5, "3", True]),
        ({"type": "number"}, [1, 1.5], ["1", False]),
        ({"type": "boolean"}, [True, False], [0, "true"]),
        ({"type": "string", "enum": ["r", "g"]}, ["r"], ["b"]),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}, ["r"], ["Red"]),
        (
            {"type": "array", "maxItems": 1, "items": {"enum": ["r", "g"]}},
            [[], ["g"]],
            [["b"], ["r", "g"], "r"],
        ),
        ({"type": "array", "items": {"anyOf": [{"const": "r"}]}}, [["r"]], [["x"]]),
    ],
    ids=["string", "integer", "number", "boolean", "enum", "oneOf", "items", "anyOf"],
)
def test_the_value_of_a_field_is_checked(part: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    form = question("elicitation/create", {"message": "", "requestedSchema": {"properties": {"f": part}}})
    for value in good:
        check_answer(form, json.encode({"action": "accept", "content": {"f": value}}))
    for value in bad:
        with pytest.raises(AnswerMismatch, match=r"content\.f"):
            check_answer(form, json.encode({"action": "accept", "content": {"f": value}}))


@given(st.recursive(values, lambda part: st.dictionaries(names, part, max_size=3)))
def test_no_answer_breaks_the_check(answer: Any) -> None:
    for one in (question("elicitation/create", FORM), question("sampling/createMessage", SAMPLING)):
        try:
            check_answer(one, json.encode(answer))
        except AnswerMismatch:
            continue
    check_answer(question("sampling/createMessage", SAMPLING), json.encode(SAMPLED))
