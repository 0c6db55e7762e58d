"""W3C trace context: what is read, what counts as absent, and what goes into headers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.wire import json
from tabane.wire.rpc import TraceParent, parse_traceparent, trace_headers, valid_tracestate

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEX = "0123456789abcdef"


def test_a_parent_is_read() -> None:
    parent = parse_traceparent(f"00-{TRACE}-{SPAN}-01")
    assert parent == TraceParent(TRACE, SPAN, 1)
    assert parent.sampled
    assert str(parent) == f"00-{TRACE}-{SPAN}-01"


def test_unknown_flags_are_not_passed_on() -> None:
    assert str(parse_traceparent(f"00-{TRACE}-{SPAN}-fe")) == f"00-{TRACE}-{SPAN}-02"


@pytest.mark.parametrize("rest", ["", "-what-comes-later", "-"])
def test_a_later_version_is_read_as_this_one(rest: str) -> None:
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01{rest}") == TraceParent(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f"cc-{TRACE}-{SPAN}-01more",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1000,
    ],
)
def test_what_is_not_valid_counts_as_absent(text: str | None) -> None:
    assert parse_traceparent(text) is None


@given(st.text(HEX, min_size=32, max_size=32), st.text(HEX, min_size=16, max_size=16), st.integers(0, 255))
def test_every_parent_survives(trace: str, span: str, flags: int) -> None:
    found = parse_traceparent(f"00-{trace}-{span}-{flags:02x}")
    if set(trace) == {"0"} or set(span) == {"0"}:
        assert found is None
    else:
        assert found == TraceParent(trace, span, flags & 3)


@given(st.one_of(st.text(), st.text(HEX + "-", max_size=80), st.from_regex(r"[0-9a-f]{2}-.*")))
def test_no_text_is_an_error(text: str) -> None:
    found = parse_traceparent(text)
    assert found is None or re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]", str(found))


def test_a_state_is_kept_in_its_order() -> None:
    assert valid_tracestate("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE") == (
        "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
    )
    assert valid_tracestate(" a=1 , ,b@c= x y ") == "a=1,b@c= x y"


@pytest.mark.parametrize(
    "text",
    [None, "", "a", "=1", "A=1", "a=1,a=2", "a=1=2", "a=x\r\ny: z", "a=é", "a=" + "x" * 600,
     ",".join(f"k{n}=1" for n in range(33))],
)  # fmt: skip
def test_a_state_that_is_not_valid_is_dropped_as_a_whole(text: str | None) -> None:
    assert valid_tracestate(text) == ""


@given(st.text())
def test_any_state_is_safe_in_a_header(text: str) -> None:
    found = valid_tracestate(text)
    assert found.isascii()
    assert not re.search(r"[\x00-\x1f\x7f]", found)
    assert valid_tracestate(found) == found


def test_headers_repeat_what_meta_says() -> None:
    parent = f"00-{TRACE}-{SPAN}-01"
    meta = {"traceparent": quoted(parent), "tracestate": quoted("a=1"), "baggage": quoted("user=me")}
    assert trace_headers(meta) == {"traceparent": parent, "tracestate": "a=1"}


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate"]), st.one_of(st.text(), st.integers())))
def test_what_is_not_valid_goes_into_no_header(values: dict[str, str | int]) -> None:
    meta = {
        key: Raw(json.encode(value) if isinstance(value, int) else quoted(value))
        for key, value in values.items()
    }
    assert set(trace_headers(meta)) <= {"traceparent", "tracestate"}
    assert all(value.isascii() and value.isprintable() for value in trace_headers(meta).values())


def quoted(text: str) -> Raw:
    return Raw(json.quote(text))
