"""Frames of WebSocket: read as the library `websockets` writes them, however they are cut."""

from __future__ import annotations

import itertools
import os
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets import frames as oracle
from websockets.protocol import CLIENT, OPEN, Protocol

from tabane.wire import websocket
from tabane.wire.websocket import (
    Event,
    Fault,
    OversizedMessage,
    WebSocketClosed,
    WebSocketDecoder,
    WebSocketMessage,
    WebSocketPing,
    WebSocketPong,
)

KEY = b"\x01\x80\xff\x00"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, *(place % (len(data) + 1) for place in places), len(data)})
    return [data[begin:end] for begin, end in itertools.pairwise(ends)]


def read(chunks: list[bytes], limit: int = 1 << 20, *, masked: bool = True) -> list[Event]:
    decoder = WebSocketDecoder(limit, masked=masked)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


messages = st.one_of(
    st.text(max_size=300).map(lambda text: [("text", text.encode())]),
    st.binary(max_size=300).map(lambda data: [("binary", data)]),
    st.lists(st.binary(max_size=100), min_size=2, max_size=4).map(
        lambda parts: [("parts", part) for part in parts]
    ),
    st.binary(max_size=125).map(lambda data: [("ping", data)]),
    st.binary(max_size=125).map(lambda data: [("pong", data)]),
)


def said(client: Protocol, message: list[tuple[str, bytes]]) -> list[Event]:
    """Have the library say it; what has to be heard."""
    if message[0][0] == "parts":
        parts = [part for _, part in message]
        client.send_binary(parts[0], fin=False)
        for number, part in enumerate(parts[1:], 2):
            client.send_ping(b"between")
            client.send_continuation(part, fin=number == len(parts))
        return [*[WebSocketPing(b"between")] * (len(parts) - 1), WebSocketMessage(b"".join(parts), False)]
    kind, data = message[0]
    if kind in ("text", "binary"):
        (client.send_text if kind == "text" else client.send_binary)(data)
        return [WebSocketMessage(data, kind == "text")]
    (client.send_ping if kind == "ping" else client.send_pong)(data)
    return [WebSocketPing(data) if kind == "ping" else WebSocketPong(data)]


@given(st.lists(messages, max_size=4), st.lists(st.integers(0, 10_000), max_size=20))
def test_what_the_library_says_is_heard_however_it_is_cut(
    talk: list[list[tuple[str, bytes]]], places: list[int]
) -> None:
    client = Protocol(CLIENT, state=OPEN)
    expected = [event for message in talk for event in said(client, message)]
    client.send_close(1000, "再見")
    data = b"".join(part for part in client.data_to_send() if part)
    assert read(cut(data, places)) == [*expected, WebSocketClosed(1000, "再見")]


@given(st.binary(max_size=300) | st.sampled_from([bytes(125), bytes(126), bytes(65_535), bytes(65_536)]))
def test_what_is_said_the_library_hears(data: bytes) -> None:
    client = Protocol(CLIENT, state=OPEN)
    client.receive_data(websocket.frame(data, websocket.BINARY))
    client.receive_data(websocket.close_frame(1001, "the hub ended"))
    heard, closed = client.events_received()
    assert isinstance(heard, oracle.Frame)
    assert isinstance(closed, oracle.Frame)
    assert bytes(heard.data) == data
    assert client.close_rcvd == oracle.Close(1001, "the hub ended")


@given(st.binary(max_size=200), st.integers(0, 50))
def test_masking_twice_is_nothing_wherever_it_begins(data: bytes, at: int) -> None:
    assert websocket.masked_with(websocket.masked_with(data, KEY, at), KEY, at) == data
    whole = websocket.masked_with(bytes(at) + data, KEY)
    assert whole[at:] == websocket.masked_with(data, KEY, at)


def head(first: int, length: int = 0, *, masked: bool = True) -> bytes:
    return bytes([first, (0x80 if masked else 0) | length]) + (KEY if masked else b"")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (head(0xC1), 1002),  # compressed, which was not agreed on
        (head(0x83), 1002),  # no such kind
        (head(0x8B), 1002),
        (head(0x81, masked=False), 1002),
        (head(0x80), 1002),  # the rest of nothing
        (head(0x01) + head(0x81), 1002),  # a message within a message
        (head(0x09), 1002),  # a ping in parts
        (bytes([0x89, 0xFE, 0, 126]) + KEY, 1002),  # a ping too long
        (bytes([0x81, 0xFF]) + b"\xff" * 8 + KEY, 1002),  # 2^64 bytes
        (websocket.frame(b"\x03", websocket.CLOSE, KEY), 1002),
        (websocket.frame(b"\x03\xed", websocket.CLOSE, KEY), 1002),  # 1005
        (websocket.frame(b"\x00\x01", websocket.CLOSE, KEY), 1002),
        (websocket.frame(b"\x03\xe8\xff", websocket.CLOSE, KEY), 1007),
        (websocket.frame(b"\xff", websocket.TEXT, KEY), 1007),
        (websocket.frame(b"\xed\xa0\x80", websocket.TEXT, KEY), 1007),  # half a surrogate pair
    ],
)
def test_what_breaks_the_protocol_has_its_close_code(data: bytes, code: int) -> None:
    decoder = WebSocketDecoder(1 << 20, masked=True)
    events: list[Event] = []
    with pytest.raises(Fault) as caught:
        events += decoder.feed(websocket.frame(b"good", websocket.TEXT, KEY) + data)
    assert caught.value.code == code
    # What came before it was heard.
    decoder = WebSocketDecoder(1 << 20, masked=True)
    assert next(decoder.feed(websocket.frame(b"good", websocket.TEXT, KEY) + data)) == WebSocketMessage(
        b"good", True
    )


def test_a_message_that_is_too_long_is_passed_over_and_costs_nothing() -> None:
    long = b'{"id":7,' + b"x" * (8 << 20)
    data = websocket.frame(long, websocket.TEXT, KEY) + websocket.frame(b"next", websocket.TEXT, KEY)
    decoder = WebSocketDecoder(1 << 16, masked=True)
    events: list[Event] = []
    tracemalloc.start()
    try:
        for at in range(0, len(data), 1 << 14):
            events += decoder.feed(data[at : at + (1 << 14)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert events == [OversizedMessage(long[:4096]), WebSocketMessage(b"next", True)]
    assert peak < 1 << 19


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 30))
def test_the_limit_is_of_the_whole_message_in_parts_or_not(size: int, limit: int) -> None:
    data = os.urandom(size)
    parts = [bytes([0x02, 0x80 | size // 2]) + KEY, bytes([0x80, 0x80 | (size - size // 2)]) + KEY]
    halves = [websocket.masked_with(half, KEY) for half in (data[: size // 2], data[size // 2 :])]
    expected = WebSocketMessage(data, False) if size <= limit else OversizedMessage(data[:limit])
    for whole in (websocket.frame(data, websocket.BINARY, KEY), parts[0] + halves[0] + parts[1] + halves[1]):
        assert read([whole], limit) == [expected]


def test_nothing_is_heard_after_the_end() -> None:
    data = websocket.close_frame(1000, "", KEY) + websocket.frame(b"late", websocket.TEXT, KEY)
    assert read([data, b"\xff\xff"]) == [WebSocketClosed(1000, "")]


def test_a_reason_is_cut_to_what_a_close_frame_holds() -> None:
    (closed,) = read([websocket.close_frame(1002, "束" * 60)], masked=False)
    assert closed == WebSocketClosed(1002, "束" * 41)


def test_the_answer_to_a_key_is_that_of_the_rfc() -> None:
    assert websocket.accept_of("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("key", ["", "x", "AAAA", "=" * 24, "é" * 16, "dGhlIHNhbXBsZSBub25jZQ"])
def test_a_key_that_is_none_is_no_handshake(key: str) -> None:
    assert websocket.fault_in("GET", {"sec-websocket-key": key})
    assert websocket.fault_in("POST", {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
