"""A response: when it becomes a stream, how it is kept alive, what a client that reconnects gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tabane.hub.http.request import HttpRequest
from tabane.hub.http.stream import KEEP_ALIVE_EVERY, Journal, Pulse, Stream, event_id, parse_event_id
from tabane.wire.sse import KEEP_ALIVE
from tests.harness.patience import until


class Line:
    """A connection that takes everything at once."""

    on_lost: Callable[[], None] | None = None
    unsent = 0
    transport: Any = None


class Sent:
    """What a response was made of."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.type = b""
        self.chunks: list[bytes] = []

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.type = message["status"], dict(message["headers"])[b"content-type"]
        else:
            self.chunks.append(message["body"])


async def nothing() -> None:
    raise AssertionError("nobody reads a body here")


def response(patience: float | None) -> tuple[Stream, Sent]:
    scope = {"method": "POST", "path": "/mcp", "headers": [(b"a", b"b")], "tabane.connection": Line()}
    sent = Sent()
    # Nothing is called by time here, but by the tests.
    pulse = Pulse(asyncio.get_running_loop(), every=1e6)
    return Stream(HttpRequest(scope, nothing, sent), pulse, 1 << 20, patience=patience), sent


async def breath() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_in_time_is_json_and_a_late_one_an_event() -> None:
    now = asyncio.get_running_loop().time()
    for waited, kind in ((0.5, b"application/json"), (1.5, b"text/event-stream")):
        stream, sent = response(1.0)
        task = asyncio.ensure_future(stream.run())
        await breath()
        stream.beat(now + waited)
        stream.answer(200, b"{}")
        stream.finish()
        assert await task
        assert (sent.status, sent.type) == (200, kind)


async def test_one_that_waits_for_an_answer_stays_what_it_is() -> None:
    stream, sent = response(None)
    task = asyncio.ensure_future(stream.run())
    await breath()
    stream.beat(1e9)
    await breath()
    assert not sent.chunks
    stream.answer(404, b"{}")
    assert await task
    assert (sent.status, sent.chunks) == (404, [b"{}"])


async def test_a_silent_stream_says_that_it_is_alive() -> None:
    stream, sent = response(None)
    task = asyncio.ensure_future(stream.run())
    stream.event(b"data: 1\n\n")
    await breath()
    now = asyncio.get_running_loop().time()
    stream.beat(now + KEEP_ALIVE_EVERY - 1)
    await breath()
    assert sent.chunks == [b"data: 1\n\n"]
    stream.beat(now + KEEP_ALIVE_EVERY + 1)
    await breath()
    assert sent.chunks == [b"data: 1\n\n", KEEP_ALIVE]
    stream.finish()
    assert await task


async def test_a_client_that_does_not_read_is_sent_no_comments() -> None:
    stream, sent = response(None)
    task = asyncio.ensure_future(stream.run())
    stream.event(b"data: 1\n\n")
    await breath()
    stream._request.line.unsent = 10  # type: ignore[misc]
    stream.beat(asyncio.get_running_loop().time() + 100)
    await breath()
    assert len(sent.chunks) == 1
    stream.finish()
    await task


class Counting:
    """Something that waits, and tells when it was looked at three times."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.beats, self.enough = 0, loop.create_future()

    def beat(self, now: float) -> None:
        self.beats += 1
        if self.beats == 3:
            self.enough.set_result(None)


async def test_the_pulse_stands_still_when_nothing_waits() -> None:
    loop = asyncio.get_running_loop()
    pulse, one = Pulse(loop, every=0.01), Counting(loop)
    pulse.add(one)
    await asyncio.wait_for(one.enough, 60)
    pulse.discard(one)
    await until(lambda: not pulse.beats, "it stands still")
    pulse.add(one)
    assert pulse.beats
    pulse.close()


events = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=40)), max_size=60)


@given(events, st.integers(1, 10), st.integers(1, 200))
def test_a_journal_keeps_the_newest_within_its_bounds(
    given_events: list[tuple[int, bytes]], most: int, most_bytes: int
) -> None:
    journal = Journal(most, most_bytes)
    model: list[tuple[int, int, bytes]] = []
    for number, (stream, event) in enumerate(given_events, 1):
        journal.keep(stream, number, event)
        model.append((stream, number, event))
        while len(model) > most or sum(len(one[2]) for one in model) > most_bytes:
            model.pop(0)
        assert journal.size == sum(len(one[2]) for one in model) <= most_bytes
    for stream in range(4):
        for seen in range(0, len(given_events) + 1, 5):
            wanted = [event for of, number, event in model if of == stream and number > seen]
            assert journal.after(stream, seen) == wanted
    journal.forget(0)
    assert journal.after(0, 0) == []
    assert journal.size == sum(len(event) for of, _, event in model if of)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_an_events_id_names_its_place(stream: int, number: int) -> None:
    assert parse_event_id(event_id(stream, number)) == (stream, number)


@given(st.text())
def test_what_is_no_id_of_an_event_has_no_place(text: str) -> None:
    place = parse_event_id(text)
    assert place is None or all(part.isdecimal() for part in text.split("-"))
