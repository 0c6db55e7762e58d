"""Lines over real pipes and sockets: complete, ordered, bounded, and ended."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.wire import channel as channels
from tabane.wire.channel import HEAD_SIZE, LineBatch, LineChannel, LineSplitter
from tests.harness.patience import LONG

DEADLINE = LONG
"""Seconds that a test waits for something which happens at once when all is well."""


# -- splitting -----------------------------------------------------------------------------------

STREAMS = st.lists(st.sampled_from([b"\n", b"a", b"{}", b" ", b"\r", b"0123456789"]), max_size=60).map(
    b"".join
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream, and the same in chunks (none of them empty)."""
    stream = draw(STREAMS)
    cuts = sorted(draw(st.sets(st.integers(0, len(stream)), max_size=12)) | {0, len(stream)})
    return stream, [stream[begin:end] for begin, end in pairwise(cuts)]


def split(chunks: list[bytes], limit: int) -> tuple[list[bytes], list[bytes]]:
    """The lines of a stream, its unfinished one too, and the heads of those that were too long."""
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    lines += [last for last in [splitter.end()] if last]
    return lines, splitter.oversized


@given(cut_streams(), st.sampled_from([1, 3, 10, 1000]))
def test_lines_are_the_same_however_the_bytes_are_cut(case: tuple[bytes, list[bytes]], limit: int) -> None:
    stream, chunks = case
    whole = stream.split(b"\n")
    assert split(chunks, limit) == (
        [line for line in whole if 0 < len(line) <= limit and not line.isspace()],
        [line[:limit] for line in whole if len(line) > limit],
    )


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_a_line_that_is_too_long_is_dropped_and_the_next_one_read(size: int) -> None:
    stream = b"before\n" + b"x" * 100_000 + b"\nafter\n" + b"y" * 100_000
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert split(chunks, 50_000) == ([b"before", b"after"], [b"x" * HEAD_SIZE, b"y" * HEAD_SIZE])


def test_a_stream_without_newlines_holds_no_more_than_its_limit() -> None:
    splitter = LineSplitter(1 << 20)
    tracemalloc.start()
    try:
        for _ in range(64):
            splitter.feed(b"x" * (1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert len(splitter.oversized) == 1


@pytest.mark.heavy("many cases")
def test_single_bytes_do_not_cost_more_than_what_they_are() -> None:
    splitter = LineSplitter(1 << 20)
    tracemalloc.start()
    try:
        for _ in range(300_000):
            splitter.feed(b"x")
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert splitter.feed(b"\n") == [b"x" * 300_000]


# -- batches -------------------------------------------------------------------------------------


async def test_what_is_sent_in_a_batch_goes_out_in_one_write_at_its_end() -> None:
    with closing(Ends(socket.SOCK_SEQPACKET)) as ends:
        channel = ends.channel()
        with ends.batch:
            channel.send(b"1\n")
            with ends.batch:
                channel.send(b"2\n")
            assert ends.received() == b""
            channel.send(b"3\n")
        # A packet for each write: one is expected.
        assert ends.peer.recv(100) == b"1\n2\n3\n"
        assert ends.received() == b""


async def test_later_work_comes_after_the_flush_of_the_outermost_batch_and_before_the_next_line() -> None:
    with closing(Ends()) as ends:
        done: list[object] = []

        def handle(line: bytes) -> None:
            done.append(line)
            channel.send(line + b"\n")
            ends.batch.later(lambda: done.append(ends.received()))

        channel = ends.channel(on_line=handle)
        channel.start()
        for count in (2, 4):
            ends.peer.send(b"1\n")
            await ends.until(lambda count=count: len(done) == count)  # type: ignore[misc]
        assert done == [b"1", b"1\n"] * 2


async def test_lines_wait_for_later_work_that_piles_up() -> None:
    with closing(Ends()) as ends:
        handled, most = [0], [0]

        def catch_up() -> None:
            most[0] = max(most[0], handled[0])
            handled[0] = 0

        def handle(line: bytes) -> None:
            handled[0] += 1
            ends.batch.later(catch_up)

        ends.channel(on_line=handle).start()
        ends.peer.sendall(b"1\n" * 1_000)
        await ends.until(lambda: most[0] == channels.MOST_LATER)


def test_later_work_without_a_batch_is_done_at_once() -> None:
    done: list[int] = []
    batch = LineBatch()
    batch.later(lambda: done.append(1))
    with batch:
        batch.later(lambda: batch.later(lambda: done.append(3)))
        with batch:
            batch.later(lambda: done.append(2))
        assert done == [1]
    assert done == [1, 3, 2]


def test_later_work_that_fails_is_logged_and_the_rest_is_done(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    batch = LineBatch()
    with batch:
        batch.later(lambda: 1 // 0)
        batch.later(lambda: done.append(1))
    assert done == [1]
    assert "ZeroDivisionError" in caplog.text


async def test_without_a_batch_a_line_goes_out_at_once() -> None:
    with closing(Ends()) as ends:
        ends.channel().send(b"1\n")
        assert ends.peer.recv(100) == b"1\n"


async def test_a_batch_that_raises_still_sends() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()

        def fail_in_a_batch() -> None:
            with ends.batch:
                channel.send(b"1\n")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_in_a_batch()
        assert ends.peer.recv(100) == b"1\n"
        channel.send(b"2\n")
        assert ends.peer.recv(100) == b"2\n"


async def test_one_channel_that_breaks_at_the_flush_does_not_hold_up_the_others() -> None:
    with closing(Ends()) as ends:

        def fail(why: str) -> None:
            raise ZeroDivisionError(why)

        gone, peer = socket.socketpair()
        peer.close()
        broken = ends.channel_over(gone.detach(), on_close=fail)
        working = ends.channel()
        with ends.batch:
            broken.send(b"1\n")
            working.send(b"2\n")
        assert ends.peer.recv(100) == b"2\n"
        assert broken.closed
        assert [str(error) for error in ends.raised] == ["Broken pipe"]


# -- reading -------------------------------------------------------------------------------------


async def test_lines_arrive_whole_and_in_order() -> None:
    with closing(Ends()) as ends:
        ends.channel().start()
        expected = [b"%d" % number * (number % 50 + 1) for number in range(20_000)]
        stream = b"\n".join(expected) + b"\n"
        for at in range(0, len(stream), 65_521):
            await ends.feed(stream[at : at + 65_521])
        await ends.until(lambda: len(ends.lines) == len(expected))
        assert ends.lines == expected


async def test_a_line_cut_by_the_end_of_the_stream_is_still_given() -> None:
    with closing(Ends()) as ends:
        ends.channel().start()
        ends.peer.sendall(b"whole\n \ncut")
        ends.peer.close()
        await ends.until(lambda: ends.closed)
        assert ends.lines == [b"whole", b"cut"]
        assert ends.closed == ["end of file"]


async def test_a_blank_end_is_no_line() -> None:
    with closing(Ends()) as ends:
        ends.channel().start()
        ends.peer.sendall(b"whole\n \r")
        ends.peer.close()
        await ends.until(lambda: ends.closed)
        assert ends.lines == [b"whole"]


async def test_the_owner_is_told_the_head_of_a_line_that_was_too_long() -> None:
    with closing(Ends()) as ends:
        ends.channel(max_line=10).start()
        ends.peer.sendall(b'a\n{"id":1,"result":1}\nb\n')
        await ends.until(lambda: len(ends.lines) == 2)
        assert ends.lines == [b"a", b"b"]
        assert ends.heads == [b'{"id":1,"r']
        assert not ends.closed


async def test_a_handler_that_raises_costs_its_own_line_alone() -> None:
    with closing(Ends()) as ends:

        def read(line: bytes) -> None:
            ends.lines.append(line)
            if line == b"bad":
                raise ZeroDivisionError("bad")

        channel = ends.channel(on_line=read)
        channel.start()
        ends.peer.sendall(b"1\nbad\n2\n")
        await ends.until(lambda: len(ends.lines) == 3)
        assert ends.lines == [b"1", b"bad", b"2"]
        assert [str(error) for error in ends.raised] == ["bad"]
        assert not channel.closed


async def test_nothing_is_read_before_the_start() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()
        ends.peer.sendall(b"early\n")
        # Filling and draining the outbox resumes what was paused, and this was not.
        channel.send(b"x" * (1 << 20) + b"\n")
        assert channel.unsent
        await ends.until(lambda: ends.drain() and not channel.unsent)
        await ends.turns()
        assert ends.lines == []
        channel.start()
        await ends.until(lambda: ends.lines)


async def test_a_handler_may_close_the_channel_and_gets_nothing_more() -> None:
    with closing(Ends()) as ends:

        def read(line: bytes) -> None:
            ends.lines.append(line)
            channel.send(b"last words\n")
            channel.close("enough")
            channel.send(b"too late\n")

        channel = ends.channel(on_line=read, max_line=8)
        channel.start()
        ends.peer.sendall(b"1\n2\nlonger than 8\n")
        await ends.until(lambda: ends.closed)
        await ends.turns()
        assert ends.lines == [b"1"]
        assert ends.heads == []
        assert ends.closed == ["enough"]


# -- writing -------------------------------------------------------------------------------------


async def test_lines_reach_a_slow_reader_whole_and_in_order() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()
        expected = b""
        got = b""
        for number in range(400):
            line = b"%d:" % number + b"x" * (number * 37 % 5000) + b"\n"
            expected += line
            channel.send(line)
            if number % 3 == 0:
                got += ends.received(700)
                await ends.turns(1)
        assert channel.unsent
        while len(got) < len(expected):
            got += ends.received(5000)
            await ends.turns(1)
        assert got == expected
        assert channel.unsent == 0


async def test_a_large_line_is_not_copied_at_every_write() -> None:
    """Over a pipe 48 MiB go out in 768 pieces; copying the rest each time would move 18 GiB."""
    with closing(Ends()) as ends:
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        os.set_blocking(read_fd, False)
        channel = ends.channel_over(ends.spare(), write_fd)
        line = b"x" * (48 << 20) + b"\n"
        tracemalloc.start()
        channel.send(line)
        channel.send(b"next\n")
        size, last = 0, b""
        while channel.unsent or not last.endswith(b"next\n"):
            try:
                last = os.read(read_fd, 1 << 20)
                size += len(last)
            except BlockingIOError:
                await ends.turns(1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        os.close(read_fd)
        assert size == len(line) + 5
        assert peak < 16 << 20


async def test_a_peer_that_does_not_read_is_not_read_until_it_does() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel(pause_at=200_000)
        channel.start()
        while channel.unsent <= 200_000:
            channel.send(b"x" * 999 + b"\n")
        ends.peer.sendall(b"request\n")
        await ends.turns()
        assert ends.lines == []
        await ends.until(lambda: ends.drain() and ends.lines)
        assert channel.unsent == 0


async def test_the_pause_comes_also_when_the_outbox_grows_after_it_stalled() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel(pause_at=200_000)
        channel.start()
        while not channel.unsent:
            channel.send(b"x" * 99 + b"\n")
        assert channel.unsent < 200_000
        ends.peer.sendall(b"first\n")
        await ends.until(lambda: ends.lines)
        while channel.unsent <= 200_000:
            channel.send(b"x" * 999 + b"\n")
        ends.peer.sendall(b"second\n")
        await ends.turns()
        assert ends.lines == [b"first"]


async def test_a_peer_that_answers_is_read_on_while_it_does_not_read() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel(pause_at=None)
        channel.start()
        channel.send(b"x" * (4 << 20) + b"\n")
        ends.peer.sendall(b"answer\n")
        await ends.until(lambda: ends.lines)
        assert channel.unsent > 1 << 20


async def test_a_peer_that_never_reads_is_dropped_when_its_outbox_is_full() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel(max_outbox=1 << 20)
        channel.start()
        sent = 0
        while not channel.closed:
            channel.send(b"x" * 9_999 + b"\n")
            sent += 10_000
        assert sent < 3 << 20
        assert ends.closed == ["the peer does not read: its outbox is full"]
        assert channel.unsent == 0
        await ends.turns()


# -- ends ----------------------------------------------------------------------------------------


async def test_on_close_is_called_once_whoever_closes() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()
        channel.start()
        ends.peer.close()
        channel.close("first")
        channel.close("second")
        channel.send(b"x\n")
        channel.flush()
        channel.end_writing()
        await ends.turns()
        assert ends.closed == ["first"]


async def test_a_peer_that_is_gone_is_noticed_by_writing() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()
        ends.peer.close()
        channel.send(b"x\n")
        assert ends.closed == ["Broken pipe"]


async def test_a_peer_that_goes_while_its_outbox_waits_is_noticed() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()
        channel.send(b"x" * (8 << 20) + b"\n")
        assert channel.unsent
        ends.peer.close()
        await ends.until(lambda: ends.closed)
        assert len(ends.closed) == 1


async def test_a_half_closed_channel_still_reads() -> None:
    with closing(Ends()) as ends:
        read_fd, theirs = os.pipe()
        ours, write_fd = os.pipe()
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)
        channel = ends.channel_over(read_fd, write_fd)
        channel.start()
        with ends.batch:
            channel.send(b"last\n")
            channel.end_writing()
            channel.end_writing()
            channel.send(b"dropped\n")
        assert os.read(ours, 100) == b"last\n"
        assert os.read(ours, 100) == b""
        os.write(theirs, b"answer\n")
        await ends.until(lambda: ends.lines == [b"answer"])
        assert channel.unsent == 0
        os.close(theirs)
        await ends.until(lambda: ends.closed)
        assert ends.closed == ["end of file"]
        os.close(ours)


async def test_ending_writing_toward_a_peer_that_does_not_read_lets_it_be_heard_again() -> None:
    with closing(Ends()) as ends:
        read_fd, theirs = os.pipe()
        ours, write_fd = os.pipe()
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)
        channel = ends.channel_over(read_fd, write_fd)
        channel.start()
        channel.send(b"x" * (4 << 20) + b"\n")
        channel.end_writing()
        assert channel.unsent == 0
        os.close(theirs)
        await ends.until(lambda: ends.closed)
        os.close(ours)


async def test_ending_writing_leaves_a_socket_open() -> None:
    with closing(Ends()) as ends:
        channel = ends.channel()
        channel.end_writing()
        channel.send(b"x\n")
        assert ends.peer.recv(10) == b"x\n"


@pytest.mark.parametrize("end", ["peer", "owner", "half"])
async def test_descriptors_are_closed_however_it_ends(end: str) -> None:
    with closing(Ends()) as ends:
        read_fd, theirs = os.pipe()
        ours, write_fd = os.pipe()
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)
        channel = ends.channel_over(read_fd, write_fd)
        channel.start()
        if end == "half":
            channel.end_writing()
        if end == "owner":
            channel.close("done")
        os.close(theirs)
        await ends.until(lambda: ends.closed)
        for fd in (read_fd, write_fd):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)
        assert os.read(ours, 10) == b""
        os.close(ours)


# -- the stage -----------------------------------------------------------------------------------

# -- time ----------------------------------------------------------------------------------------


async def test_the_loop_turns_while_a_peer_floods() -> None:
    """Hundreds of lines in the pipe: others get their turns between slices of them."""
    with closing(Ends()) as ends:
        turns_at: list[int] = []
        lines = 0

        def handle(line: bytes) -> None:
            nonlocal lines
            lines += 1
            # Work that stands for parsing: a flood of cheap lines must not depend on the machine's speed.
            stop = time.monotonic() + channels.SLICE / 4
            while time.monotonic() < stop:
                pass

        def turn() -> None:
            turns_at.append(lines)
            if lines < 400:
                loop.call_soon(turn)

        loop = asyncio.get_running_loop()
        ends.channel(on_line=handle).start()
        loop.call_soon(turn)
        ends.peer.sendall(b"{}\n" * 400)
        await ends.until(lambda: lines == 400)
        most = max(after - before for before, after in pairwise(turns_at))
        assert most <= 50


async def test_a_line_that_is_waited_for_holds_up_the_next_and_reading() -> None:
    with closing(Ends()) as ends:
        loop = asyncio.get_running_loop()
        gates: list[asyncio.Future[None]] = []
        seen: list[bytes] = []

        def handle(line: bytes) -> asyncio.Future[None]:
            seen.append(line)
            gates.append(loop.create_future())
            return gates[-1]

        ends.channel(on_line=handle).start()
        ends.peer.sendall(b"1\n2\n")
        await ends.until(lambda: len(seen) == 1)
        ends.peer.sendall(b"3\n")
        ends.peer.shutdown(socket.SHUT_WR)
        for count in (1, 2, 3):
            assert seen == [b"1", b"2", b"3"][:count]
            assert ends.closed == []
            gates[-1].set_result(None)
            await ends.until(lambda count=count: len(seen) > count or bool(ends.closed))  # type: ignore[misc]
        assert ends.closed == ["end of file"]


async def test_a_peer_that_is_known_to_be_gone_is_read_to_its_last_line() -> None:
    with closing(Ends()) as ends:
        loop = asyncio.get_running_loop()
        gate: asyncio.Future[None] = loop.create_future()
        seen: list[bytes] = []

        def handle(line: bytes) -> asyncio.Future[None] | None:
            seen.append(line)
            return gate if line == b"1" else None

        channel = ends.channel(on_line=handle)
        channel.start()
        ends.peer.sendall(b"1\n" + b"2\n" * 20_000)
        await ends.until(lambda: seen == [b"1"])
        channel.finish("it died")
        gate.set_result(None)
        await ends.until(lambda: bool(ends.closed))
        assert (len(seen), ends.closed) == (20_001, ["it died"])


class Ends:
    """A socket pair: channels are made over one end, the other is the peer's and does not block."""

    def __init__(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
        mine, self.peer = socket.socketpair(socket.AF_UNIX, kind)
        mine.setblocking(False)
        self.peer.setblocking(False)
        self._mine = mine.detach()
        self._spares: list[int] = []
        self._channels: list[LineChannel] = []
        self.batch = LineBatch()
        self.lines: list[bytes] = []
        self.heads: list[bytes] = []
        self.closed: list[str] = []
        self.raised: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.raised.append(context.get("exception"))
        )

    def channel(
        self,
        on_line: Callable[[bytes], asyncio.Future[None] | None] | None = None,
        max_line: int = 1 << 20,
        max_outbox: int = 64 << 20,
        pause_at: int | None = 1 << 20,
    ) -> LineChannel:
        channel = LineChannel(
            asyncio.get_running_loop(),
            self.batch,
            self._mine,
            self._mine,
            on_line=on_line or self.lines.append,
            on_close=self.closed.append,
            on_oversized=self.heads.append,
            max_line=max_line,
            max_outbox=max_outbox,
            pause_at=pause_at,
        )
        self._channels.append(channel)
        return channel

    def channel_over(
        self, read_fd: int, write_fd: int | None = None, on_close: Callable[[str], None] | None = None
    ) -> LineChannel:
        channel = LineChannel(
            asyncio.get_running_loop(),
            self.batch,
            read_fd,
            read_fd if write_fd is None else write_fd,
            on_line=self.lines.append,
            on_close=on_close or self.closed.append,
        )
        self._channels.append(channel)
        return channel

    def spare(self) -> int:
        """A descriptor to read from, on which nothing ever comes."""
        read_fd, write_fd = os.pipe()
        self._spares.append(write_fd)
        return read_fd

    def received(self, size: int = 1 << 20) -> bytes:
        """What the peer has got and not read yet."""
        try:
            return self.peer.recv(size)
        except BlockingIOError:
            return b""

    def drain(self) -> bool:
        """The peer reads all that is there; always true, for conditions."""
        while self.received():
            pass
        return True

    async def feed(self, data: bytes) -> None:
        """The peer writes, waiting where its pipe is full."""
        await asyncio.get_running_loop().sock_sendall(self.peer, data)

    async def turns(self, count: int = 5) -> None:
        """Let the loop look at its descriptors this often."""
        for _ in range(count):
            await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():  # noqa: ASYNC110 - one turn of the loop at a time is what is watched
                await asyncio.sleep(0)

    def close(self) -> None:
        for channel in self._channels:
            channel.close("the test is over")
        self.peer.close()
        for fd in self._spares:
            os.close(fd)
