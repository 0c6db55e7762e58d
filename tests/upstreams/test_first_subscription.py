"""A list that changes between its first reading and the first subscription to its changes."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from tabane.upstreams.call import InstanceOwner
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import Peer
from tabane.upstreams.lists import UpstreamOffers
from tabane.wire.era import META_SUBSCRIPTION, Era
from tests.harness.patience import until
from tests.upstreams.silent_transport import SilentTransport, unconnected


def answer(conversation: Conversation, number: int, tool: str) -> None:
    conversation.receive(b'{"jsonrpc":"2.0","id":%d,"result":{"tools":["%b"]}}' % (number, tool.encode()))


def acknowledge(conversation: Conversation, number: int) -> None:
    conversation.receive(
        b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":'
        b'{"toolsListChanged":true},"_meta":{"%b":%d}}}' % (META_SUBSCRIPTION.encode(), number)
    )


async def test_a_change_before_the_first_subscription_is_open_is_not_missed() -> None:
    loop = asyncio.get_running_loop()
    taken: list[bytes] = []

    class Owner(InstanceOwner):
        def listed(self, peer: Peer, name: str, items: list[Raw]) -> None:
            taken.extend(bytes(item) for item in items)

    offers = UpstreamOffers("s", unconnected(loop), Owner(), lambda fault: None)
    conversation = Conversation("s", loop, on_notice=offers.noticed, on_closed=lambda why: None)
    conversation.transport = server = SilentTransport()
    capabilities = {"tools": Raw(b'{"listChanged":true}')}
    conversation.peer = Peer(Era.MODERN, "2026-07-28", "s", capabilities)
    offers.open(conversation)
    try:
        await until(lambda: server.count("tools/list") == 1 and server.count("subscriptions/listen") == 1)
        answer(conversation, server.asked["tools/list"][0], "old")
        await until(lambda: taken == [b'"old"'])
        # The server changes its list here. Nobody is subscribed, so it announces nothing.
        acknowledge(conversation, server.asked["subscriptions/listen"][0])
        await until(lambda: server.count("tools/list") == 2)
        answer(conversation, server.asked["tools/list"][1], "new")
        await until(lambda: taken == [b'"old"', b'"new"'])
    finally:
        offers.lost()
