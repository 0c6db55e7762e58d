"""A server that does not read its input: requests that do not fit fail one by one."""

from __future__ import annotations

import asyncio
import json
import socket

from msgspec import Raw

from tabane.errors import UpstreamOverloaded
from tabane.upstreams.call import Call, StdioTransport, UpstreamReply
from tabane.upstreams.conversation import Conversation
from tabane.wire.channel import LineBatch, LineChannel

MOST = 4 << 20


def call(size: int, replies: list[UpstreamReply]) -> Call:
    return Call(b"tools/call", {"name": Raw(b'"' + b"x" * size + b'"')}, {}, replies.append)


async def test_a_request_that_does_not_fit_fails_alone() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ended: list[str] = []
    conversation = Conversation("deaf", loop, on_notice=lambda *_: None, on_closed=ended.append)
    fd = ours.detach()
    channel = LineChannel(
        loop, LineBatch(), fd, fd, on_line=conversation.receive, on_close=conversation.lost, pause_at=None
    )
    conversation.transport = StdioTransport(channel, MOST)
    channel.start()
    replies: list[list[UpstreamReply]] = [[], [], [], []]
    for number, size in enumerate((3 << 20, 3 << 20, 100, 3 << 20)):
        conversation.send(call(size, replies[number]))
    failures = [reply[0].failure for reply in replies if reply]
    assert [type(failure) for failure in failures] == [UpstreamOverloaded, UpstreamOverloaded]
    assert (replies[0], replies[2]) == ([], [])
    assert conversation.in_flight == 2

    reader, writer = await asyncio.open_connection(sock=theirs, limit=1 << 24)
    for _ in range(2):
        asked = json.loads(await asyncio.wait_for(reader.readline(), 60))
        writer.write(b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % asked["id"])
    async with asyncio.timeout(60):
        while conversation.in_flight:  # noqa: ASYNC110 - a conversation tells nobody
            await asyncio.sleep(0.01)
    assert [reply[0].failure for reply in (replies[0], replies[2])] == [None, None]
    assert ended == []
    channel.close("the test is over")
    writer.close()
