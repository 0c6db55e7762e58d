"""Server-sent events: the grammar as a table, and what holds however a stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.wire.sse import HEAD, KEEP_ALIVE, Event, EventParser, EventTooLarge, encode_event
from tests.harness.patience import assert_in_proportion


def read(stream: bytes) -> list[Event]:
    return EventParser().feed(stream)


def message(data: bytes, event_id: str | None = None) -> Event:
    return Event("message", data, event_id)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [message(b"a")]),
        (b"data:a\r\n\r\n", [message(b"a")]),
        (b"data: a\r\ndata: b\r\n\r\n", [message(b"a\nb")]),
        (b"data:  a \r\r", [message(b" a ")]),
        (b"data: a\r\n\ndata: b\n\r", [message(b"a"), message(b"b")]),
        (b"data: a\ndata\ndata:b\n\n", [message(b"a\n\nb")]),
        (b"data\n\n", [message(b"")]),
        (b"data:\n\n", [message(b"")]),
        (b"id: 7\ndata: \n\n", [message(b"", "7")]),
        (b"\xef\xbb\xbfdata: a\n\n", [message(b"a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b": comment\ndata: a\n:\n:data: b\n\n", [message(b"a")]),
        (b"event: endpoint\ndata: /messages?s=1\n\n", [Event("endpoint", b"/messages?s=1", None)]),
        (b"event: x\nevent\ndata: a\n\n", [message(b"a")]),
        (b"event: x\n\ndata: a\n\n", [message(b"a")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [message(b"a", "1"), message(b"b")]),
        (b"id: 1\nid: a\0b\ndata: a\n\n", [message(b"a", "1")]),
        (b"id: 1\nid\ndata: a\n\n", [message(b"a", "")]),
        (b"Data: a\n data: b\ndatab: c\ndata : d\n\n", []),
        (b"data: a: b\n\n", [message(b"a: b")]),
        (b"event: \xff\ndata: \xff\n\n", [Event("\N{REPLACEMENT CHARACTER}", b"\xff", None)]),
        (b"data: a", []),
        (b"data: a\n", []),
        (b"\n\n\n", []),
        (KEEP_ALIVE + b"data: a\n\n" + KEEP_ALIVE, [message(b"a")]),
        ("data: a\u2028b\x0bc\x85\n\n".encode(), [message("a\u2028b\x0bc\x85".encode())]),
    ],
)
def test_a_stream_is_read_by_the_grammar_however_it_is_cut(stream: bytes, events: list[Event]) -> None:
    assert read(stream) == events
    byte_by_byte = EventParser()
    assert [event for at in range(len(stream)) for event in byte_by_byte.feed(stream[at : at + 1])] == events


@pytest.mark.parametrize(
    ("stream", "last_id"),
    [
        (b"", ""),
        (b"id: 1\n", ""),
        (b"id: 1\n\n", "1"),
        (b"id: 1\ndata: a\n\nid: 2\ndata: b", "1"),
        (b"id: 1\n\ndata: a\n\n", "1"),
        (b"id: 1\n\nid:\n\n", ""),
        ("id: 日\n\n".encode(), "日"),
    ],
)
def test_the_last_id_is_that_of_the_last_whole_event_that_had_one(stream: bytes, last_id: str) -> None:
    parser = EventParser()
    parser.feed(stream)
    assert parser.last_id == last_id


@pytest.mark.parametrize(
    ("line", "retry"),
    [
        (b"retry: 1500", 1500),
        (b"retry:0", 0),
        (b"retry: 1.5", 7),
        (b"retry: -1", 7),
        (b"retry:", 7),
        (b"retry: " + "٣".encode(), 7),
        (b"retry: " + b"9" * 5000, 7),
    ],
)
def test_retry_is_digits_alone(line: bytes, retry: int) -> None:
    parser = EventParser()
    assert parser.retry is None
    parser.feed(b"retry: 7\n" + line + b"\n")
    assert parser.retry == retry


# -- properties ----------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=5)
DATA = st.lists(
    st.sampled_from([b"\r", b"\n", b"{}", b":", b" ", b"\0", b"\xff", "日".encode()]), max_size=8
).map(b"".join)
PIECES = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"\n\n", b"data", b"data:", b"id: 1", b"event", b": ", b"\xef\xbb\xbf"]
    )
    | st.sampled_from([b"retry: 5", b"abcdefgh", b"\0", b" "]),
    max_size=30,
).map(b"".join)
CUTS = st.lists(st.integers(0, 200), max_size=12)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted(min(at, len(stream)) for at in cuts)
    return [stream[a:b] for a, b in zip([0, *ends], [*ends, len(stream)], strict=True)]


def fed(chunks: list[bytes], limit: int) -> tuple[list[Event], list[bytes], str, int | None]:
    """The events, the heads of those too large, the last id and the time to wait."""
    parser, events, heads = EventParser(limit), [], []
    for chunk in chunks:
        try:
            events += parser.feed(chunk)
        except EventTooLarge as dropped:
            events += dropped.events
            heads += dropped.heads
    return events, [head[:1] for head in heads], parser.last_id, parser.retry


@given(PIECES, CUTS, st.sampled_from([1000, 0, 1, 5, 9]))
def test_it_does_not_matter_where_a_stream_is_cut(stream: bytes, cuts: list[int], limit: int) -> None:
    assert fed(cut(stream, cuts), limit) == fed([stream], limit)


@given(
    st.lists(
        st.tuples(DATA, st.none() | NAMES, st.none() | st.integers(0, 10**9), st.none() | NAMES), max_size=4
    ),
    CUTS,
)
def test_what_is_encoded_is_read_again(
    cases: list[tuple[bytes, str | None, int | None, str | None]], cuts: list[int]
) -> None:
    stream = b"".join(encode_event(*case) for case in cases)
    events, _, last_id, retry = fed(cut(stream, cuts), 1000)
    lines = [case[0].removesuffix(b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n") for case in cases]
    assert events == [
        Event(case[3] or "message", data, case[1]) for case, data in zip(cases, lines, strict=True)
    ]
    assert last_id == ([case[1] for case in cases if case[1]] or [""])[-1]
    waits = [case[2] for case in cases if case[2] is not None]
    assert retry == (waits[-1] if waits else None)


def test_a_message_is_one_event_without_its_newline() -> None:
    assert encode_event(b'{"id":1}\n') == b'data: {"id":1}\n\n'
    assert (
        encode_event(b"{}", "s1-2", 3000, "message") == b"id: s1-2\nevent: message\nretry: 3000\ndata: {}\n\n"
    )


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_an_id_or_name_that_breaks_its_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        encode_event(b"", event_id=text)
    with pytest.raises(ValueError):
        encode_event(b"", event=text)


# -- limits --------------------------------------------------------------------------------------


def test_an_event_that_is_too_large_is_dropped_and_the_next_ones_are_read() -> None:
    parser = EventParser(limit=10)
    with pytest.raises(EventTooLarge) as caught:
        parser.feed(b"data: before\n\nid: 5\ndata: 01234567890\ndata: more\n\ndata: after\n\ndata: ")
    assert caught.value.events == [message(b"before"), message(b"after")]
    assert caught.value.heads == [b"01234567890"]
    assert parser.feed(b"last\n\n") == [message(b"last")]
    assert parser.last_id == "5"


def test_it_is_dropped_as_soon_as_it_is_too_large_and_said_once() -> None:
    parser = EventParser(limit=2 * HEAD)
    parser.feed(b"data: " + b"x" * HEAD)
    with pytest.raises(EventTooLarge) as caught:
        parser.feed(b"y" * (HEAD + 1))
    assert caught.value.heads == [b"x" * HEAD]
    for _ in range(3):
        assert parser.feed(b"z" * 10 * HEAD) == []
    assert parser.feed(b"\ndata: z\n\ndata: next\n\n") == [message(b"next")]


def test_nothing_is_left_of_an_event_whose_later_lines_were_too_large() -> None:
    parser = EventParser(limit=2 * HEAD)
    with pytest.raises(EventTooLarge) as caught:
        parser.feed(b"data: " + b"x" * 2 * HEAD + b"\ndata: y\n\ndata: next\n\n")
    assert caught.value.heads == [b"x" * HEAD]
    assert caught.value.events == [message(b"next")]


@pytest.mark.parametrize("line", [b"data\n", b"data: a\n", b"data:\r"])
def test_many_small_lines_are_too_large_together(line: bytes) -> None:
    parser = EventParser(limit=100)
    with pytest.raises(EventTooLarge):
        parser.feed(line * 200)


@pytest.mark.parametrize("start", [b": ", b"id: ", b"event: ", b"unknown"])
def test_lines_of_other_fields_are_bounded_too(start: bytes) -> None:
    parser = EventParser(limit=100)
    with pytest.raises(EventTooLarge):
        parser.feed(start + b"x" * 200)
    assert parser.feed(b"\n\ndata: a\n\n") == [message(b"a")]


def test_comments_do_not_add_up() -> None:
    parser = EventParser(limit=100)
    for _ in range(1000):
        assert parser.feed(b": still here\n") == []
    assert parser.feed(b"data: a\n\n") == [message(b"a")]


def test_an_event_at_the_limit_passes() -> None:
    assert EventParser(limit=4).feed(b"data: a\ndata: bc\n\n") == [message(b"a\nbc")]
    with pytest.raises(EventTooLarge):
        EventParser(limit=4).feed(b"data: a\ndata: bcd\n\n")


@pytest.mark.parametrize("line", [b"data: ", b"data: start\n: "])
def test_time_grows_with_the_size_and_not_with_its_square(line: bytes) -> None:
    def fed(chunks: int) -> None:
        parser = EventParser()
        parser.feed(line)
        for _ in range(chunks):
            parser.feed(b"x" * 512)
        parser.feed(b"\n\n")

    assert_in_proportion(fed, 2048)
