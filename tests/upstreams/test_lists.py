"""Lists are applied in the order of their requests, however long each takes to read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import Raw

from tabane.upstreams.call import InstanceOwner
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import Peer
from tabane.upstreams.lists import UpstreamLists
from tabane.wire.era import Era
from tests.harness.patience import until
from tests.upstreams.silent_transport import SilentTransport, unconnected

LONG = 60.0


async def test_a_list_that_takes_long_to_read_does_not_replace_a_later_one() -> None:
    loop = asyncio.get_running_loop()
    taken: list[bytes] = []
    read = asyncio.Event()

    async def read_slowly(items: list[Raw]) -> None:
        await read.wait()
        taken.append(bytes(items[0]))

    class Owner(InstanceOwner):
        def listed(self, peer: Peer, name: str, items: list[Raw]) -> Awaitable[None] | None:
            if items == [Raw(b'"old"')]:
                return read_slowly(items)
            if name == "tools":
                taken.append(bytes(items[0]))
            return None

    conversation = Conversation("s", loop, on_notice=lambda *_: None, on_closed=lambda why: None)
    conversation.transport = transport = SilentTransport()
    conversation.peer = Peer(Era.LEGACY, "2025-06-18", "s", {"tools": Raw(b"{}")})
    lists = UpstreamLists("s", unconnected(loop), Owner(), lambda fault: None)
    lists.open(conversation)
    for number, name in enumerate((b"old", b"new"), 1):
        await until(lambda number=number: len(transport.numbers) == number)  # type: ignore[misc]
        answer = b'{"jsonrpc":"2.0","id":%d,"result":{"tools":["%b"]}}'
        conversation.receive(answer % (transport.numbers[-1], name))
        for _ in range(50):  # steps of the loop, in which the answer becomes a list
            await asyncio.sleep(0)
        lists.refresh("tools")
    read.set()
    await until(lambda: len(taken) == 2)
    assert taken == [b'"old"', b'"new"']
