"""Differences between the eras of MCP, as tables."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.wire import era
from tabane.wire.era import (
    INVALID_PARAMS,
    LEGACY,
    META_CAPABILITIES,
    META_CLIENT,
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    MODERN,
    UNSUPPORTED_VERSION,
    ProtocolRefusal,
)
from tabane.wire.json import Members, fields
from tests.wire.texts import SPACE, STRINGS, VALUES, member_lists

CLIENT = b'{"name":"tester","version":"1"}'
ENVELOPE = {META_VERSION: f'"{MODERN}"', META_CAPABILITIES: "{}", META_CLIENT: CLIENT.decode()}


def members(parts: dict[str, str]) -> Members:
    return {key: Raw(value.encode()) for key, value in parts.items()}


def spelled(parts: Members) -> dict[str, str]:
    return {key: bytes(value).decode() for key, value in parts.items()}


METAS = st.dictionaries(
    st.sampled_from(["progressToken", "traceparent", META_SERVER, META_SUBSCRIPTION, "x/y", "é"]), VALUES
)


# -- the handshake -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("2030-01-01", "2025-11-25"),
        ("", "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
def test_initialize_is_answered_with_the_version_asked_for_or_the_newest_handshake(
    requested: str | None, answered: str
) -> None:
    assert era.negotiate(requested) == answered


# -- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meta", "code", "words"),
    [
        ({}, INVALID_PARAMS, META_VERSION),
        ({META_CAPABILITIES: "{}"}, INVALID_PARAMS, META_VERSION),
        ({**ENVELOPE, META_VERSION: "20260728"}, INVALID_PARAMS, META_VERSION),
        ({**ENVELOPE, META_VERSION: "null"}, INVALID_PARAMS, META_VERSION),
        ({**ENVELOPE, META_VERSION: '"2025-11-25"'}, UNSUPPORTED_VERSION, "2025-11-25"),
        ({META_VERSION: f'"{MODERN}"'}, INVALID_PARAMS, META_CAPABILITIES),
        ({**ENVELOPE, META_CAPABILITIES: "[]"}, INVALID_PARAMS, META_CAPABILITIES),
        ({**ENVELOPE, META_CAPABILITIES: "nonsense"}, INVALID_PARAMS, META_CAPABILITIES),
    ],
)
def test_an_envelope_that_lacks_something_is_refused_by_name(
    meta: dict[str, str], code: int, words: str
) -> None:
    with pytest.raises(ProtocolRefusal) as caught:
        era.check_envelope(members(meta))
    assert caught.value.code == code
    assert words in caught.value.message


def test_a_version_that_is_not_known_is_told_which_are() -> None:
    with pytest.raises(ProtocolRefusal) as caught:
        era.check_envelope(members({**ENVELOPE, META_VERSION: '"2099-01-01"'}))
    assert caught.value.data == {"supported": [MODERN], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "meta",
    [
        ENVELOPE,
        {META_VERSION: f'"{MODERN}"', META_CAPABILITIES: '{"sampling":{}}'},
        {**ENVELOPE, META_CAPABILITIES: '{"x":"\\ud800","y":1e400}', "progressToken": "1"},
        {**ENVELOPE, META_VERSION: '"2026\\u002d07-28"'},
    ],
)
def test_a_whole_envelope_passes(meta: dict[str, str]) -> None:
    era.check_envelope(members(meta))
    assert era.has_envelope(members(meta))


@pytest.mark.parametrize(
    ("params", "meta", "rest"),
    [
        ({}, {}, {}),
        ({"name": '"a"'}, {}, {"name": '"a"'}),
        ({"_meta": "{}", "name": '"a"'}, {}, {"name": '"a"'}),
        ({"_meta": '{"progressToken": 1.0,"\\ud800":1}'}, {"progressToken": "1.0", "\ufffd": "1"}, {}),
        ({"_meta": "null", "x": "1"}, {}, {"x": "1"}),
        ({"_meta": "[1]", "x": "1"}, {}, {"x": "1"}),
    ],
)
def test_meta_is_taken_out_of_params(
    params: dict[str, str], meta: dict[str, str], rest: dict[str, str]
) -> None:
    given_params = members(params)
    assert spelled(era.take_meta(given_params)) == meta
    assert spelled(given_params) == rest


@pytest.mark.heavy("many cases")
@given(st.dictionaries(STRINGS.map(json.loads).filter(lambda key: key != "_meta"), VALUES), METAS)
def test_meta_that_is_put_back_is_what_was_taken(params: dict[str, str], meta: dict[str, str]) -> None:
    whole = era.with_meta(members(params), members(meta))
    again = fields(whole)
    assert ("_meta" in again) == bool(meta)
    assert spelled(era.take_meta(again)) == meta
    assert spelled(again) == params


# -- across the eras -----------------------------------------------------------------------------


@given(METAS)
def test_an_envelope_that_is_put_on_comes_off_again(meta: dict[str, str]) -> None:
    worn = era.enveloped(members(meta), CLIENT)
    era.check_envelope(worn)
    assert spelled(worn) == {**meta, **ENVELOPE}
    assert spelled(era.without_envelope(worn)) == meta


@given(METAS)
def test_the_callers_own_envelope_is_passed_as_it_is(meta: dict[str, str]) -> None:
    own = {**meta, **ENVELOPE, META_CAPABILITIES: '{"elicitation": {}}'}
    assert spelled(era.enveloped(members(own), b'{"name":"somebody else"}')) == own


def test_the_hub_says_what_it_can_do_where_the_caller_said_nothing() -> None:
    worn = era.enveloped({}, CLIENT, b'{"roots":{}}')
    assert spelled(worn) == {**ENVELOPE, META_CAPABILITIES: '{"roots":{}}'}


# -- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("{}", None),
        ('{"resultType":"complete"}', "complete"),
        (' { "x" : 1e400 , "resultType" : "input_required" } ', "input_required"),
        ('{"result\\u0054ype":"task"}', "task"),
        ('{"resultType":null}', None),
        ('{"resultType":5}', None),
        ('{"content":{"resultType":"complete"}}', None),
        ("[]", None),
        ("null", None),
        ('"complete"', None),
        ("{", None),
    ],
)
def test_the_type_of_a_result_is_read_where_it_has_one(result: str, kind: str | None) -> None:
    assert era.result_type(result.encode()) == kind


def names(text: bytes) -> list[str]:
    pairs: list[tuple[str, object]] = json.loads(text, object_pairs_hook=list, parse_int=str)
    return [name for name, _ in pairs]


@given(member_lists())
def test_a_result_without_a_type_gets_one_and_stays_what_it_was(
    case: tuple[str, list[tuple[str, str]]],
) -> None:
    text, _ = case
    raw = text.encode()
    whole = era.completed(raw)
    assert names(whole) == ["resultType", *names(raw)]
    assert spelled(fields(whole)) == {**spelled(fields(raw)), "resultType": '"complete"'}
    # What the peer wrote stands there as it wrote it, between and behind its members too.
    assert whole.endswith(raw.strip()[1:].lstrip())


@given(SPACE, SPACE, VALUES, st.sampled_from(["complete", "input_required", "task", "é"]))
def test_a_result_that_has_a_type_is_not_touched(before: str, after: str, other: str, kind: str) -> None:
    raw = f'{before}{{{after}"x":{other},"resultType" : "{kind}"{before}}}{after}'.encode()
    assert era.completed(raw) == raw


@pytest.mark.parametrize("kind", ["null", "5", "{}", "1e400", '["complete"]'])
def test_a_type_that_is_no_string_is_replaced_and_not_repeated(kind: str) -> None:
    whole = era.completed(f'{{"a":1e0,"resultType":{kind},"b":"\\ud800"}}'.encode())
    assert whole == b'{"a":1e0,"resultType":"complete","b":"\\ufffd"}'


@pytest.mark.parametrize("result", ["null", "[]", '"text"', "1"])
def test_what_is_no_object_gets_no_type(result: str) -> None:
    assert era.completed(result.encode()) == result.encode()


def test_no_handshake_version_is_modern() -> None:
    assert MODERN not in LEGACY
    assert sorted(LEGACY, reverse=True) == list(LEGACY)
