"""JSON that passes through the hub keeps its exact spelling."""

from __future__ import annotations

import json
import math
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tabane.wire import json as wire
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members
from tests.wire.texts import STRINGS, VALUES, arrays, member_lists


def spelled(members: Members) -> dict[str, str]:
    return {key: bytes(value).decode() for key, value in members.items()}


# -- members -------------------------------------------------------------------------------------


@given(member_lists())
def test_each_member_keeps_its_spelling(case: tuple[str, list[tuple[str, str]]]) -> None:
    text, members = case
    assert spelled(wire.fields(text.encode())) == dict(members)


@given(member_lists())
def test_members_survive_being_joined_and_taken_apart_again(case: tuple[str, list[tuple[str, str]]]) -> None:
    text, members = case
    joined = wire.join(wire.fields(text.encode()))
    assert spelled(wire.fields(joined)) == dict(members)
    assert list(wire.fields(joined)) == list(dict(members))


@given(member_lists())
def test_a_joined_object_reads_as_the_same_value(case: tuple[str, list[tuple[str, str]]]) -> None:
    text, _ = case
    one_way = json.loads(wire.join(wire.fields(text.encode())), parse_int=str)
    assert repr(one_way) == repr(json.loads(text, parse_int=str))


@given(arrays(VALUES))
def test_each_element_keeps_its_spelling(text: str) -> None:
    elements = [bytes(element).decode() for element in wire.elements(text.encode())]
    again = "[" + ",".join(elements) + "]"
    assert repr(json.loads(again, parse_int=str)) == repr(json.loads(text, parse_int=str))
    assert all(element in text for element in elements)


@pytest.mark.parametrize(
    "text",
    ["", " ", "[]", "1", '"a"', "null", "{", "{}{}", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", '{"a":1 "b":2}',
     '{"a":NaN}x', '{"a":NaN,}', '{"a" NaN}', '{NaN:1}'],
)  # fmt: skip
def test_what_is_no_object_has_no_fields(text: str) -> None:
    with pytest.raises(InvalidJson):
        wire.fields(text.encode())


@pytest.mark.parametrize(
    "text", ["", "{}", "[", "[1,]", "[,1]", "[1 2]", "[NaN", "[NaN,]", "[NaN]x", "[NaN 1]"]
)
def test_what_is_no_array_has_no_elements(text: str) -> None:
    with pytest.raises(InvalidJson):
        wire.elements(text.encode())


def test_the_last_of_two_members_with_one_name_counts() -> None:
    assert spelled(wire.fields(b'{"a":1,"b":2,"a":3}')) == {"a": "3", "b": "2"}
    assert spelled(wire.fields(b'{"a":"\\ud800","b":2,"a":3}')) == {"a": "3", "b": "2"}


def test_nesting_of_some_hundred_levels_passes() -> None:
    deep = b"[" * 400 + b"1" + b"]" * 400
    assert bytes(wire.fields(b'{"a":' + deep + b"}")["a"]) == deep


def test_nesting_without_end_is_garbage_and_not_a_crash() -> None:
    deep = b"[" * 500_000
    for text in (deep, deep + b"]" * 500_000):
        with pytest.raises(InvalidJson):
            wire.decode_frame(b'{"id":1,"result":' + text + b"}")
        with pytest.raises(InvalidJson):
            wire.decode(text)


# -- frames --------------------------------------------------------------------------------------

FRAME_MEMBERS = ("id", "method", "params", "result", "error")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_frame_or_garbage(line: bytes) -> None:
    try:
        frame = wire.decode_frame(line)
    except InvalidJson:
        return
    assert isinstance(json.loads(line.decode()), dict)
    assert isinstance(frame, JsonRpcFrame)


@given(VALUES)
def test_arbitrary_json_is_a_frame_or_garbage(text: str) -> None:
    try:
        wire.decode_frame(text.encode())
    except InvalidJson:
        value = json.loads(text, parse_int=str)
        assert not isinstance(value, dict) or not isinstance(value.get("method", ""), str)


@given(st.dictionaries(st.sampled_from(FRAME_MEMBERS), VALUES), STRINGS, VALUES)
def test_the_parts_of_a_frame_keep_their_spelling(parts: dict[str, str], unknown: str, extra: str) -> None:
    if "method" in parts:
        parts["method"] = '"tools/call"'
    text = "{" + ",".join(f'"{key}":{value}' for key, value in parts.items())
    text += ("," if parts else "") + f'"x-{unknown[1:]}: {extra}' + "}"
    frame = wire.decode_frame(text.encode())
    for key in ("id", "params", "result", "error"):
        part = getattr(frame, key)
        assert (bytes(part).decode() if part is not UNSET else None) == parts.get(key)
    assert frame.method == ("tools/call" if "method" in parts else UNSET)


@pytest.mark.parametrize(
    ("line", "id_", "method"),
    [
        (b'{"id":null,"method":"a"}', b"null", "a"),
        (b'{"id":12345678901234567890123,"method":"a"}', b"12345678901234567890123", "a"),
        (b' {"\\u0069d" : "x" , "method" : "\\u0061"}\r', b'"x"', "a"),
        (b'\xef\xbb\xbf{"id":1,"method":"a"}', b"1", "a"),
        (b'{"id":1,"method":"\\ud800"}', b"1", "\ufffd"),
    ],
)
def test_ids_and_methods_are_read_however_they_are_spelt(line: bytes, id_: bytes, method: str) -> None:
    frame = wire.decode_frame(line)
    assert frame.id is not UNSET
    assert bytes(frame.id) == id_
    assert frame.method == method


@pytest.mark.parametrize(
    "line",
    [b"", b"Listening on port 3000", b"[]", b'{"method":1}', b'{"method":null}', b'{"id":1}}',
     b'{"id":1,}', b'\xef\xbb\xbf\xef\xbb\xbf{"id":1}',
     b'{"id":"\xff"}', b'{"id":"\xed\xa0\x80"}', '{"id":1}'.encode("utf-16")],
)  # fmt: skip
def test_what_is_no_message_is_garbage(line: bytes) -> None:
    with pytest.raises(InvalidJson):
        wire.decode_frame(line)


def test_garbage_does_not_quote_the_line() -> None:
    """Reasons are logged, and a stray line may hold a secret."""
    for line in (b"token=hunter2", b'{"id":NaN,"token":hunter2}', b'{"token":"hunter2\xff"}'):
        with pytest.raises(InvalidJson) as caught:
            wire.decode_frame(line)
        assert "hunter2" not in str(caught.value)


# -- values --------------------------------------------------------------------------------------

PYTHON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(
        st.characters()
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(PYTHON)
def test_any_value_survives_being_encoded_lone_surrogates_too(value: object) -> None:
    assert wire.decode(wire.encode(value)) == value


@given(VALUES)
def test_any_json_is_decoded_but_for_numbers_too_long_to_convert(text: str) -> None:
    try:
        value = wire.decode(text.encode())
    except InvalidJson:
        assert "7" * 5000 in text
    else:
        assert repr(value) == repr(json.loads(text))


@given(VALUES, st.text(st.characters()))
def test_a_raw_inside_an_encoded_value_stays_verbatim(text: str, word: str) -> None:
    encoded = wire.encode({"word": word, "list": [Raw(text.encode())]})
    assert encoded.endswith(b',"list":[' + text.encode() + b"]}")


class Hit(msgspec.Struct):
    name: str
    schema: Raw
    score: float = 0.5
    near: str | msgspec.UnsetType = UNSET


def test_a_struct_is_encoded_the_same_way_with_a_lone_surrogate_in_it() -> None:
    plain, cut = (wire.encode([Hit(name, Raw(b'{"n":1e0}'))]) for name in ("a", "\ud83d"))
    assert plain == b'[{"name":"a","schema":{"n":1e0},"score":0.5}]'
    assert cut == b'[{"name":"\\ud83d","schema":{"n":1e0},"score":0.5}]'


def test_numbers_that_json_has_not_are_encoded_as_null_in_any_company() -> None:
    assert wire.decode(wire.encode([math.nan, math.inf, "a"])) == [None, None, "a"]
    assert wire.decode(wire.encode([math.nan, math.inf, "\ud800"])) == [None, None, "\ud800"]


@given(st.text(st.characters()))
def test_any_string_is_quoted_and_read_back(value: str) -> None:
    assert wire.text(wire.quote(value)) == value


@pytest.mark.parametrize("raw", [None, b"1", b"null", b"{}", b"tru", b'"a', b"", b"\xff"])
def test_what_is_no_string_has_no_text(raw: bytes | None) -> None:
    assert wire.text(raw) is None


@pytest.mark.parametrize("raw", [b"", b"{", b"tru", b"\xff", b'"\xed\xa0\x80"', '{"a":1}'.encode("utf-16")])
def test_decode_refuses_what_is_not_json_in_utf_8(raw: bytes) -> None:
    with pytest.raises(InvalidJson):
        wire.decode(raw)


# -- lines ---------------------------------------------------------------------------------------


@given(VALUES, VALUES, st.sampled_from(["tools/call", "あ", 'a"b']))
def test_lines_are_single_and_hold_their_parts(identity: str, payload: str, method: str) -> None:
    raw_id = identity.replace("\n", " ").encode()
    raw = payload.replace("\n", " ").encode()
    answer = wire.result_line(raw_id, raw)
    assert answer.startswith(b'{"jsonrpc":"2.0","id":' + raw_id + b",")
    failure = wire.error_line(raw_id, raw)
    assert failure.startswith(b'{"jsonrpc":"2.0","id":' + raw_id + b",")
    asked = wire.request_line(7, wire.quote(method), raw)
    note = wire.notification_line(method, raw)
    for line in (answer, failure, asked, note):
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        json.loads(line, parse_int=str)
    assert wire.decode_frame(asked).method == wire.decode_frame(note).method == method
    assert bytes(wire.decode_frame(answer).result or b"") == raw
    assert bytes(wire.decode_frame(failure).error or b"") == raw


def test_an_error_without_a_request_has_a_null_id() -> None:
    line = wire.error_line(None, wire.error_object(-32700, "no JSON"))
    assert json.loads(line) == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}}
    assert json.loads(wire.error_object(-1, "x", data=[])) == {"code": -1, "message": "x", "data": []}


# -- what is not JSON, or is not read everywhere ---------------------------------------------------

PARTS = [r"\ud83d", r"\uDE00", "x" * 40, r"\\ud83d", r"\\", "é", r"\n", r"\"", r"\u0041", "NaN"]


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.integers(40, 90))
def test_halves_of_surrogate_pairs_are_replaced_and_nothing_else(parts: list[str], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "_PIECE", piece)
        text = '"' + "".join(parts) + '"'
        whole = json.loads(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        read = wire.fields(f'{{"a":{text}}}'.encode())["a"]
        assert json.loads(bytes(read)) == "".join(whole)
        assert wire.elements(f"[{text}]".encode()) == [read]
        json.loads(bytes(read)).encode()  # what every client can encode again


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "Infinity", "[NaN,NaN]"])
@pytest.mark.parametrize("filling", [0, 70_000])
def test_what_json_has_not_is_refused_with_its_reason(value: str, filling: int) -> None:
    text = f'{{"id":7,"result":{{"a":1,"odd":{value},"filling":"{"y" * filling}"}}}}'.encode()
    for read in (wire.decode_frame, wire.fields, wire.decode):
        with pytest.raises(InvalidJson, match="NaN"):
            read(text)
    frame = wire.decode_frame(wire.without_constants(text))
    odd: dict[str, object] = {"odd": []} if value[0] == "[" else {}
    assert json.loads(bytes(frame.result or b"")) == {"a": 1, **odd, "filling": "y" * filling}


@pytest.mark.parametrize("value", ["1" * 5000, "-1e999", '{"a":1,"a":2}', "0." + "1" * 5000])
def test_numbers_of_any_length_pass_untouched(value: str) -> None:
    frame = wire.decode_frame(f'{{"id":7,"result":{{"odd":{value}}}}}'.encode())
    assert frame.result == Raw(f'{{"odd":{value}}}'.encode())


@pytest.mark.parametrize(
    "broken", ["NaN1", "1NaN", "--Infinity", '"\\ud8"', "{NaN:1}", "[NaN", '"\\ud800', "[" * 5000, "\0"]
)
def test_long_texts_that_are_no_json_are_garbage(broken: str) -> None:
    text = f'{{"id":7,"filling":"{"y" * 70_000}","result":{broken}}}'.encode()
    for read in (wire.decode_frame, wire.without_constants):
        with pytest.raises(InvalidJson):
            read(text)


def test_a_long_text_with_a_lone_surrogate_takes_three_times_its_length_at_most() -> None:
    text = b'{"id":7,"result":["' + b"\\ud83d" + b"y" * (16 << 20) + b'",[' + b"[]," * 100_000 + b"0]]}"
    tracemalloc.start()
    try:
        frame = wire.decode_frame(text)
        assert isinstance(frame.result, Raw)
        assert len(frame.result) == len(text) - len(b'{"id":7,"result":}')
        # The text itself was there before.
        assert tracemalloc.get_traced_memory()[1] < 3 * len(text)
    finally:
        tracemalloc.stop()
