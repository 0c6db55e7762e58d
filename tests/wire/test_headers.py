"""Headers of a modern HTTP request against its body, compared with the official SDK's verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound as sdk
from msgspec import Raw
from starlette.datastructures import Headers as SdkHeaders

from tabane.wire import headers
from tabane.wire.era import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    META_CAPABILITIES,
    META_VERSION,
    MODERN,
    UNSUPPORTED_VERSION,
    ProtocolRefusal,
    take_meta,
)
from tabane.wire.headers import HeaderMirror, check_headers, decode_value, encode_value
from tabane.wire.json import Members, fields

Pairs = list[tuple[str, str]]

WRAPPINGS = st.sampled_from(
    ["=?base64?", "?=", "=?base64?SGVsbG8=?=", "=?base64??=", "=?base64?=", "=?BASE64?"]
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.text(" ab\t\n=?", max_size=6) | WRAPPINGS

ENVELOPE = {META_VERSION: MODERN, META_CAPABILITIES: {}}

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "where": {"properties": {"dry": {"type": "boolean", "x-mcp-header": "dry-run"}}},
        "plain": {"type": "string"},
    },
}
MIRRORS = headers.mirrors(json.dumps({"name": "t", "inputSchema": SCHEMA}).encode())


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("a b", "a b"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_values_are_encoded_as_the_specification_shows(text: str, value: str) -> None:
    assert encode_value(text) == value
    assert decode_value(value) == text


@given(TEXTS)
def test_an_encoded_value_is_safe_and_gives_the_text_back(text: str) -> None:
    value = encode_value(text)
    assert value == sdk.encode_header_value(text)
    assert value.isascii()
    assert value.isprintable()
    assert decode_value(value) == text


@given(st.text("=?base64SGVsbG8+/-_ \t", max_size=30) | TEXTS.filter(str.isascii).filter(str.isprintable))
def test_values_are_decoded_as_the_official_sdk_does(text: str) -> None:
    for value in (text, f"=?base64?{text}?="):
        assert decode_value(value) == sdk.decode_header_value(value)


@pytest.mark.parametrize(
    "value",
    [
        "=?base64?SGVsbG8?=",  # no padding
        "=?base64?SGVsbG9=?=",  # bits left over
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVs!G8=?=",
        "=?base64?/w==?=",  # not UTF-8
        "é",
        "a\x7f",
        "a\x00b",
        "a\nb",
    ],
)
def test_a_malformed_value_is_none(value: str) -> None:
    assert decode_value(value) is None


def test_half_a_character_breaks_no_request_and_equals_nothing() -> None:
    value = encode_value("\ud83d")
    assert value.isascii()
    assert decode_value(value) is None


# -- marks ---------------------------------------------------------------------------------------

MARKS = st.sampled_from(["Region", "region", "A", "b", "", "a b", "é", 5, None, "A\n"])
KINDS = st.sampled_from(["string", "integer", "boolean"] * 3 + ["number", "object", None, ["string", "null"]])
GOOD_MARKS = st.sampled_from(["Region", "A", "b", "c", "X-y.z"])


def schemas(marks: st.SearchStrategy[Any], kinds: st.SearchStrategy[Any], *others: str) -> Any:
    """Schemas with marks; ``others`` are keywords beside ``properties`` that schemas are put under."""
    leaf = st.fixed_dictionaries({"type": kinds}, optional={"x-mcp-header": marks})
    names = st.sampled_from(["a", "b", "properties", "items", "é"])

    def inner(parts: Any) -> Any:
        below = {"properties": st.dictionaries(names, parts, max_size=3)}
        spots = {
            name: parts | st.lists(parts, max_size=2) | st.dictionaries(names, parts, max_size=2)
            for name in others
        }
        return st.fixed_dictionaries(below, optional=spots)

    return st.recursive(leaf, inner, max_leaves=5).map(lambda part: {"properties": {"top": part}})


WILD = schemas(
    MARKS,
    KINDS,
    "items",
    "allOf",
    "prefixItems",
    "$defs",
    "not",
    "default",
    "enum",
    "patternProperties",
    "$ref",
)


def definition(schema: Any) -> bytes:
    return json.dumps({"name": "t", "inputSchema": schema}).encode()


@given(WILD | schemas(GOOD_MARKS, st.sampled_from(["string", "integer", "boolean"]), "default"))
def test_marks_are_found_and_judged_as_the_official_sdk_does(schema: Any) -> None:
    tool = definition(schema)
    reason = sdk.find_invalid_x_mcp_header(schema)
    assert (headers.mirror_fault(tool) is None) == (reason is None)
    found = {mirror.path: mirror.header for mirror in headers.mirrors(tool)}
    assert found == ({} if reason else sdk.x_mcp_header_map(schema))


KEYWORDS = (
    "items contains unevaluatedItems additionalProperties propertyNames unevaluatedProperties not if then"
    " else contentSchema allOf anyOf oneOf prefixItems patternProperties dependentSchemas $defs definitions"
    " default const enum examples $ref required"
)


@pytest.mark.parametrize("keyword", KEYWORDS.split())
def test_a_mark_under_any_keyword_is_judged_as_the_official_sdk_does(keyword: str) -> None:
    marked = {"type": "string", "x-mcp-header": "A"}
    for value in (marked, [marked], {"a": marked}, {"properties": {"a": marked}}):
        for schema in ({keyword: value}, {"properties": {"p": {keyword: value}}}):
            reason = sdk.find_invalid_x_mcp_header(schema)
            assert (headers.mirror_fault(definition(schema)) is None) == (reason is None)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"x-mcp-header": "A"}, "properties"),
        ({"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}}, "properties"),
        ({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}, "name of a header"),
        ({"properties": {"a": {"type": "string", "x-mcp-header": "A: x\r\nEvil"}}}, "name of a header"),
        ({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}, "string, integer, boolean"),
        (
            {"properties": {k: {"type": "string", "x-mcp-header": h} for k, h in [("a", "X"), ("b", "x")]}},
            "a and b",
        ),
    ],
)
def test_an_invalid_mark_leaves_no_mirrors_and_says_why(schema: Any, words: str) -> None:
    assert headers.mirrors(definition(schema)) == ()
    assert words in (headers.mirror_fault(definition(schema)) or "")


@pytest.mark.parametrize(
    "tool",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"inputSchema":[]}',
        b'{"d":"x-mcp-header"}',
        b'["x-mcp-header"',
        b'"x-mcp-header"',
    ],
)
def test_what_is_no_tool_marks_nothing(tool: bytes) -> None:
    assert headers.mirrors(tool) == ()
    assert headers.mirror_fault(tool) is None


def test_a_schema_of_any_depth_is_read() -> None:
    deep: dict[str, Any] = {"type": "string", "x-mcp-header": "A"}
    for _ in range(300):
        deep = {"properties": {"p": deep}}
    (mirror,) = headers.mirrors(definition(deep))
    assert mirror == HeaderMirror("A", ("p",) * 300, "string")


# -- what is sent --------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**25, max_value=10**26)
    | st.floats()
    | st.sampled_from([42, 42.0, -0.0, 1e21, 1e300])
    | TEXTS
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "region": TEXTS | SCALARS,
        "count": st.integers() | SCALARS | st.lists(st.integers(), max_size=1),
        "where": st.fixed_dictionaries({}, optional={"dry": st.booleans() | SCALARS}) | SCALARS,
        "plain": SCALARS,
    },
)


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def members(value: Any) -> Members:
    return fields(raw(value))


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "server__x"}, "server__x"),
        ("prompts/get", {"name": "日本"}, "=?base64?5pel5pys?="),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("tasks/get", {"taskId": "t1"}, "t1"),
        ("tools/call", {"name": ""}, ""),
        ("tools/call", {}, None),
        ("tools/call", {"name": 5}, None),
        ("tools/list", {"name": "x"}, None),
        ("server/discover", {}, None),
    ],
)
def test_a_request_names_its_version_method_and_object(method: str, params: Any, name: str | None) -> None:
    expected = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)]
    expected += [("Mcp-Name", name)] if name is not None else []
    assert headers.standard_headers(method, members(params), MODERN) == expected


def test_a_method_cannot_add_a_header() -> None:
    sent = dict(headers.standard_headers("x\r\nEvil: 1", {}, MODERN))
    assert "\r" not in sent["Mcp-Method"]


@given(ARGUMENTS)
def test_arguments_are_mirrored_as_the_official_sdk_does(arguments: Any) -> None:
    sent = dict(headers.param_headers(MIRRORS, raw(arguments)))
    expected = sdk.mcp_param_headers(sdk.x_mcp_header_map(SCHEMA), arguments)
    count = arguments.get("count")
    if isinstance(count, float) and count.is_integer():
        expected["Mcp-Param-Count"] = str(int(count))  # decimal, as the specification says
    assert sent == expected


@given(ARGUMENTS)
def test_what_we_send_is_accepted_by_us_and_by_the_official_sdk(arguments: Any) -> None:
    params = {"name": "日本", "arguments": arguments}
    sent = headers.standard_headers("tools/call", members(params), MODERN)
    sent += headers.param_headers(MIRRORS, raw(arguments))
    assert verdict(sent, "tools/call", {**params, "_meta": ENVELOPE}) is None
    assert sdk_verdict(sent, "tools/call", {**params, "_meta": ENVELOPE}) is None


@pytest.mark.parametrize(
    "arguments", [b"[]", b"null", b"{", b'{"count":' + b"7" * 5000 + b"}", b'{"where":{"dry":{}}}']
)
def test_arguments_that_no_header_can_hold_are_left_out(arguments: bytes) -> None:
    assert headers.param_headers(MIRRORS, arguments) == []


def test_long_integers_keep_every_digit() -> None:
    digits = "9" * 4000
    assert headers.param_headers(MIRRORS, f'{{"count":-{digits}}}'.encode()) == [
        ("Mcp-Param-Count", "-" + digits)
    ]


# -- what is received ----------------------------------------------------------------------------


def verdict(sent: Pairs, method: str, params: Any) -> int | None:
    rest = members(params)
    meta = take_meta(rest)
    try:
        check_headers(sent, method, rest, meta, MIRRORS if method == "tools/call" else ())
    except ProtocolRefusal as refusal:
        return refusal.code
    return None


def sdk_verdict(sent: Pairs, method: str, params: Any) -> int | None:
    carried = SdkHeaders(
        raw=[(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in sent]
    )
    if sdk.find_duplicated_routing_header(carried.items()):
        return HEADER_MISMATCH
    found: Any = sdk.classify_inbound_request({"method": method, "params": params}, headers=dict(carried))
    if isinstance(found, sdk.InboundModernRoute):
        arguments = params.get("arguments")
        if method != "tools/call" or not isinstance(arguments, dict | None):
            return None
        found = sdk.validate_mcp_param_headers(SCHEMA, arguments or {}, carried)
    return found.code if found else None


METHODS = st.sampled_from(
    ["tools/call"] * 6 + ["prompts/get", "resources/read", "tools/list", "x/y", "tasks/get"]
)
NAMES = st.sampled_from(["a", "", "日本", " a", "=?base64?YQ==?="])
METAS: st.SearchStrategy[Any] = st.just(ENVELOPE) | st.sampled_from(
    [
        {META_VERSION: MODERN},
        {META_CAPABILITIES: {}},
        {},
        None,
        [],
        "x",
        {**ENVELOPE, META_VERSION: "2099-01-01"},
        {**ENVELOPE, META_VERSION: "2025-11-25"},
        {**ENVELOPE, META_VERSION: None},
        {**ENVELOPE, META_VERSION: 20260728},
        {**ENVELOPE, META_CAPABILITIES: {"sampling": {}}, "progressToken": 1},
    ]
)
VALUES = st.sampled_from(
    [
        "a",
        "=?base64?YQ==?=",
        "=?base64?YQ?=",
        "",
        "42",
        "42.0",
        "42.50",
        "-0",
        "4e1",
        "true",
        "True",
        "tools/call",
        MODERN,
    ]
)
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 5, {}, [], "other"])


@st.composite
def requests(draw: st.DrawFn) -> tuple[Pairs, str, Any]:
    """A request whose headers were right, and then mostly had something done to them."""
    method = draw(METHODS)
    params: dict[str, Any] = {"arguments": draw(ARGUMENTS | ODD)} if draw(st.booleans()) else {}
    for key in ("name", "uri"):
        if draw(st.integers(0, 5)):
            params[key] = draw(NAMES | ODD if draw(st.booleans()) else NAMES)
    meta = draw(METAS)
    said = meta.get(META_VERSION) if isinstance(meta, dict) else None
    sent = headers.standard_headers(method, members(params), said if isinstance(said, str) else MODERN)
    sent += headers.param_headers(MIRRORS, raw(params.get("arguments")))
    for _ in range(draw(st.integers(0, 2))):
        sent = draw(altered(sent))
    return sent, method, params if meta == "x" else {**params, "_meta": meta}


@st.composite
def altered(draw: st.DrawFn, sent: Pairs) -> Pairs:
    names = [name for name, _ in sent] + [
        "Mcp-Name",
        "Mcp-Param-Region",
        "Mcp-Param-Count",
        "Mcp-Param-Other",
        "Accept",
    ]
    at = draw(st.integers(0, max(len(sent) - 1, 0)))
    match draw(st.sampled_from(["drop", "change", "add", "case", "wrap"])):
        case "drop":
            return sent[:at] + sent[at + 1 :]
        case "add":
            return [*sent, (draw(st.sampled_from(names)), draw(VALUES))]
        case how if sent:
            name, value = sent[at]
            new = {
                "change": (name, draw(VALUES)),
                "case": (name.upper(), value),
                "wrap": (name, sdk.encode_header_value(value + "\n").replace("Cg==", "")),
            }
            return [*sent[:at], new[how], *sent[at + 1 :]]
    return sent


@given(requests())
def test_requests_are_judged_as_the_official_sdk_does(request: tuple[Pairs, str, Any]) -> None:
    assert verdict(*request) == sdk_verdict(*request)


RIGHT = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "a")]
CALL = {"name": "a", "arguments": {"region": "eu", "count": 42}, "_meta": ENVELOPE}
MIRRORED = [("mcp-param-region", "eu"), ("mcp-param-count", "42")]


def without(sent: Pairs, name: str) -> Pairs:
    return [pair for pair in sent if pair[0] != name]


@pytest.mark.parametrize(
    ("sent", "header", "words"),
    [
        (without(RIGHT, "mcp-protocol-version"), "MCP-Protocol-Version", "missing"),
        (without(RIGHT, "mcp-method"), "Mcp-Method", "missing"),
        (without(RIGHT, "mcp-name"), "Mcp-Name", "missing"),
        (
            [*without(RIGHT, "mcp-name"), ("mcp-name", "b")],
            "Mcp-Name",
            "is 'b', but the body's params.name is 'a'",
        ),
        ([*without(RIGHT, "mcp-name"), ("mcp-name", "=?base64?YQ?=")], "Mcp-Name", "malformed"),
        ([*RIGHT, ("MCP-NAME", "a")], "Mcp-Name", "more than once"),
        (RIGHT, "Mcp-Param-Region", "missing"),
        ([*RIGHT, *MIRRORED, ("mcp-param-region", "eu")], "Mcp-Param-Region", "more than once"),
        ([*RIGHT, ("mcp-param-region", "us"), MIRRORED[1]], "Mcp-Param-Region", "does not equal"),
        ([*RIGHT, ("mcp-param-region", "\xe9"), MIRRORED[1]], "Mcp-Param-Region", "malformed"),
        ([*RIGHT, MIRRORED[0], ("mcp-param-count", "43")], "Mcp-Param-Count", "does not equal"),
        ([*RIGHT, *MIRRORED, ("mcp-param-dry-run", "true")], "Mcp-Param-dry-run", "no such argument"),
    ],
)
def test_a_mismatch_names_the_header_and_says_what_is_wrong(sent: Pairs, header: str, words: str) -> None:
    rest = members(CALL)
    with pytest.raises(ProtocolRefusal) as caught:
        check_headers(sent, "tools/call", rest, take_meta(rest), MIRRORS)
    assert caught.value.code == HEADER_MISMATCH
    assert caught.value.data["header"] == header
    assert header in caught.value.message
    assert words in caught.value.message


def test_a_mismatch_does_not_repeat_arguments_nor_long_values() -> None:
    rest = members({**CALL, "name": "n" * 10_000, "arguments": {"region": "s3cret"}})
    meta = take_meta(rest)
    for name in ("a", "n" * 10_000):
        with pytest.raises(ProtocolRefusal) as caught:
            check_headers(
                [*RIGHT[:2], ("mcp-name", name), ("mcp-param-region", "x")], "tools/call", rest, meta, MIRRORS
            )
        assert "s3cret" not in caught.value.message
        assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("value", "header"),
    [(42, "42.5"), (42, "42.01"), (42, "4.2e1"), (True, "1"), (1, "true"), (4.5, "4"), ("42", "42.0")],
)
def test_what_is_another_number_or_none_does_not_equal(value: Any, header: str) -> None:
    call = {**CALL, "arguments": {"region": "eu", "count": value}}
    sent = [*RIGHT, MIRRORED[0], ("mcp-param-count", header)]
    assert verdict(sent, "tools/call", call) == HEADER_MISMATCH == sdk_verdict(sent, "tools/call", call)


def test_an_empty_name_is_a_name() -> None:
    call = {"name": "", "_meta": ENVELOPE}
    assert verdict(RIGHT[:2], "tools/call", call) == HEADER_MISMATCH
    assert verdict([*RIGHT[:2], ("mcp-name", "")], "tools/call", call) is None


@pytest.mark.parametrize("count", ["42", "42.0", "42.000", "=?base64?NDI=?="])
def test_integers_are_compared_as_numbers(count: str) -> None:
    assert (
        verdict([*RIGHT, ("mcp-param-region", "eu"), ("mcp-param-count", count)], "tools/call", CALL) is None
    )


@pytest.mark.parametrize(
    ("meta", "version", "code"),
    [
        ({}, MODERN, INVALID_PARAMS),
        ({**ENVELOPE, META_VERSION: "2099-01-01"}, "2099-01-01", UNSUPPORTED_VERSION),
        ({**ENVELOPE, META_VERSION: "2099-01-01"}, MODERN, HEADER_MISMATCH),
        ({**ENVELOPE, META_CAPABILITIES: 5}, MODERN, INVALID_PARAMS),
        ({**ENVELOPE, META_CAPABILITIES: 5}, "2099-01-01", HEADER_MISMATCH),
    ],
)
def test_a_client_that_contradicts_itself_is_told_that_first(meta: Any, version: str, code: int) -> None:
    sent = [("MCP-Protocol-Version", version), ("Mcp-Method", "ping")]
    assert verdict(sent, "ping", {"_meta": meta}) == code


def test_headers_may_come_as_a_mapping() -> None:
    rest = members(CALL)
    check_headers(dict([*RIGHT, *MIRRORED]), "tools/call", rest, take_meta(rest), MIRRORS)


@pytest.mark.parametrize("arguments", [b"[]", b'"x"', b"7"])
def test_arguments_that_are_no_object_are_left_to_the_tool(arguments: bytes) -> None:
    check_headers(
        RIGHT, "tools/call", {"name": Raw(b'"a"'), "arguments": Raw(arguments)}, members(ENVELOPE), MIRRORS
    )
