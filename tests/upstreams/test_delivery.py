"""Answers queued for a slow client, while their server continues to work."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from tabane.upstreams.call import Call, UpstreamReply
from tabane.upstreams.conversation import LOOK, MOST_AT_ONCE, ROOM, SMALL, Conversation, ReplyDelivery
from tests.harness.patience import until
from tests.upstreams.silent_transport import SilentTransport

LONG = 60.0


def conversation() -> tuple[Conversation, SilentTransport]:
    made = Conversation(
        "s", asyncio.get_running_loop(), on_notice=lambda *_: None, on_closed=lambda why: None
    )
    made.transport = wire = SilentTransport()
    return made, wire


class Reader:
    """A client with unread answers, which counts how often somebody looks at it."""

    def __init__(self, unread: int) -> None:
        self.unread, self.looks = unread, 0

    @property
    def unsent(self) -> int:
        self.looks += 1
        return self.unread


def call(replies: list[UpstreamReply], reader: Reader | None = None, session: str = "slow") -> Call:
    return Call(b"tools/call", {}, {}, replies.append, session=session, reader=reader)


async def test_a_cancelled_answer_that_waits_takes_no_other_call_with_it() -> None:
    """Numbers begin again with each connection, so an old call's number may be another's by then."""
    before, _ = conversation()
    waiting: list[UpstreamReply] = []
    first = call(waiting, Reader(2 * ROOM))
    before.send(first)
    before.receive(b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * (2 * SMALL) + b'"}}')
    before.lost("the server was restarted")

    after, wire = conversation()
    answered: list[UpstreamReply] = []
    after.send(call(answered, session="other"))
    first.done = True
    after.cancel(first, "the client is gone")
    assert wire.cancelled == []
    after.receive(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert [reply.result for reply in answered] == [Raw(b"{}")]
    assert waiting == []


async def test_looks_at_slow_clients_do_not_grow_with_the_answers_that_wait() -> None:
    loop = asyncio.get_running_loop()
    replies: list[UpstreamReply] = []
    reader = Reader(2 * ROOM)
    gives = ReplyDelivery(loop, lambda call: True, 1 << 30)
    large = UpstreamReply(result=Raw(b'"' + b"x" * SMALL + b'"'))
    for _ in range(1000):
        gives.give(call(replies, reader), large)
    await asyncio.sleep(0)
    begun, since = reader.looks, loop.time()
    # Many rounds, because some of them may come at once on a loaded machine.
    await until(lambda: reader.looks >= begun + 5_000)
    assert reader.looks - begun <= 4 * MOST_AT_ONCE * (16 + (loop.time() - since) / LOOK)
    reader.unread = 0
    await until(lambda: len(replies) == 1000)
