"""The feed of events: nothing is lost, nothing grows, and everybody sees what they may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tabane.errors import HubError
from tabane.hub.telemetry import event_feed
from tabane.hub.telemetry.event_feed import EventFeed, LiveEvent
from tabane.operations import LOCAL, Access
from tests.e2e.access.policies import Policy, PolicyAccess
from tests.harness.patience import LONG

Follower = AsyncIterator[list[LiveEvent]]


def feed_here() -> EventFeed:
    return EventFeed(asyncio.get_running_loop())


async def batch(follower: Follower) -> list[LiveEvent]:
    return await asyncio.wait_for(anext(follower), LONG)


async def numbers(follower: Follower, count: int) -> list[int]:
    """The numbers in the next ``count`` events."""
    found: list[int] = []
    while len(found) < count:
        found += [json.loads(event.data)["n"] for event in await batch(follower)]
    return found


async def begun(feed: EventFeed, after: str | None = None, access: Access = LOCAL) -> Follower:
    """A follower that waits for its first event, and the task that does."""
    follower = feed.follow(after, access)
    waiting = asyncio.ensure_future(anext(follower))
    await asyncio.sleep(0)

    async def all_of_it() -> AsyncIterator[list[LiveEvent]]:
        yield await waiting
        async for found in follower:
            yield found

    return all_of_it()


async def test_every_follower_gets_every_event_in_order() -> None:
    feed = feed_here()
    followers = [await begun(feed) for _ in range(20)]
    for number in range(1000):
        feed.add("calls", {"n": number})
    for follower in followers:
        assert await numbers(follower, 1000) == list(range(1000))


async def test_who_comes_back_gets_what_happened_meanwhile() -> None:
    feed = feed_here()
    follower = await begun(feed)
    feed.add("servers", {"n": 0})
    (first,) = await batch(follower)
    for number in range(1, 300):
        feed.add("servers", {"n": number})
    assert await numbers(feed.follow(first.id, LOCAL), 299) == list(range(1, 300))


async def test_who_comes_back_to_another_run_of_the_hub_is_reset() -> None:
    before, feed = feed_here(), feed_here()
    before.add("calls", {"n": 0})
    for after in (before.last, "", "nonsense", f"{feed.last}9", feed.last.replace("0", "-5")):
        follower = feed.follow(after, LOCAL)
        (event,) = await batch(follower)
        assert event.topic == "reset"
        feed.add("calls", {"n": 7})
        assert await numbers(follower, 1) == [7]
        assert await numbers(feed.follow(event.id, LOCAL), 1) == [7]


async def test_the_journal_is_bounded_and_who_is_too_far_behind_is_reset() -> None:
    feed = feed_here()
    start = feed.last
    slow = feed.follow(start, LOCAL)
    feed.add("calls", {"n": 0})
    await batch(slow)
    for number in range(3 * event_feed.MOST_EVENTS):
        feed.add("calls", {"n": number})
    assert len(feed) <= event_feed.MOST_EVENTS + event_feed.BATCH
    assert [event.topic for event in await batch(slow)] == ["reset"]
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    assert [event.topic for event in await batch(feed.follow(start, LOCAL))] == ["reset"]


async def test_the_bytes_of_the_journal_are_bounded() -> None:
    feed = feed_here()
    for number in range(200):
        feed.add("calls", {"n": number, "text": "x" * (event_feed.MOST_BYTES // 50)})
    assert len(feed) <= 50


async def test_an_identity_gets_the_topics_that_it_may_list_and_its_own_jobs() -> None:
    feed = feed_here()
    access = PolicyAccess(Policy(allow=("@documents", "list_servers")))
    follower = await begun(feed, access=access)
    feed.add("calls", {"n": 1})
    feed.add("documents", {"n": 2})
    feed.add("servers", {"n": 3})
    feed.add("keys", {"n": 4})
    feed.add("jobs", {"n": 5}, "key:another")
    feed.add("jobs", {"n": 6}, access.holder)
    feed.add("catalog", {"n": 7})
    assert await numbers(follower, 4) == [2, 3, 6, 7]
    access.become(None)
    feed.add("documents", {"n": 8})
    access_again = PolicyAccess(Policy(allow=("list_live_calls",)))
    feed.add("calls", {"n": 9})
    access.become(access_again.policy)
    assert await numbers(follower, 1) == [9]


async def test_followers_are_counted_and_bounded() -> None:
    feed = EventFeed(asyncio.get_running_loop(), most_followers=2)
    feed.add("calls", {"n": 0})
    start = feed.last
    feed.add("calls", {"n": 1})
    open_ones = [feed.follow(start, LOCAL) for _ in range(2)]
    for one in open_ones:
        await batch(one)
    with pytest.raises(HubError, match="Too many pages"):
        await anext(feed.follow(None, LOCAL))
    await open_ones[0].aclose()  # type: ignore[attr-defined]
    assert feed.followers == 1
    assert await numbers(feed.follow(start, LOCAL), 1) == [1]
