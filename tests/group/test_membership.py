"""A hub joins its group when it can, knows the others by their heartbeats, and notices that it was away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tabane.errors import StoreError
from tabane.group.membership import GONE_AFTER, GroupMember, GroupView, HubGroup, StoredSession
from tabane.messages import say
from tests.harness.patience import until


class SharedMemory:
    """A group's state in this process, whose clock is far from that of the machine. It may be ``away``."""

    def __init__(self) -> None:
        self.members: dict[str, GroupMember] = {}
        self.now, self.away, self.closed = 5_000.0, False, 0

    async def join(self, me: GroupMember) -> bytes:
        await self.beat(me)
        return b"the key"

    async def beat(self, me: GroupMember) -> GroupView:
        if self.away:
            raise StoreError(say("the database is away"))
        self.members[me.id] = me
        return GroupView(self.now, tuple(self.members.values()))

    async def keep_session(self, session: StoredSession) -> None: ...

    async def drop_session(self, digest: str, hub: str) -> None: ...

    async def claim_session(self, digest: str, hub: str) -> StoredSession | None:
        return None

    async def claim_server(self, server: str, hub: str) -> str:
        return hub

    async def release_server(self, server: str, hub: str) -> None: ...

    async def lost_sessions(self, digests: list[str], hub: str) -> list[str]:
        return []

    async def close(self) -> None:
        self.closed += 1


def hub(state: SharedMemory, mark: str, clock: Callable[[], float] | None = None) -> HubGroup:
    async def open_state() -> SharedMemory:
        return state

    loop = asyncio.get_running_loop()
    return HubGroup(loop, f"http://{mark}.example/", mark, "1.0", open_state, clock)


def serves(seen_by: HubGroup, other: HubGroup) -> bool:
    found = seen_by.member(other.me.id)
    return found is not None and found.serves


async def test_a_hub_joins_when_the_shared_state_can_be_reached() -> None:
    state = SharedMemory()
    state.away = True
    first, second = hub(state, "aa"), hub(state, "bb")
    first.open()
    await until(lambda: first.problem)
    assert not first.joined
    assert first.report() == {"hubs": [], "problem": "the database is away"}
    state.away = False
    second.open()
    await until(lambda: first.joined and second.joined)
    await until(lambda: len(first.report()["hubs"]) == 2 and not first.problem)
    assert first.key == second.key == b"the key"
    other = first.another()
    assert other is not None
    assert (other.id, other.address) == (second.me.id, "http://bb.example")
    assert first.marked("bb") == first.member(second.me.id)
    assert abs(first.now - state.now) < GONE_AFTER
    await second.announce("draining")
    await until(lambda: first.another() is None)
    assert serves(first, second)
    await second.announce("leaving")
    await until(lambda: not serves(first, second))
    for each in (first, second):
        await each.close()
    assert state.closed == 2


async def test_the_run_of_a_hub_that_is_there_now_has_its_mark() -> None:
    state = SharedMemory()
    state.members["before"] = GroupMember("before", "bb", "http://b", "1.0", age=GONE_AFTER)
    state.members["now"] = GroupMember("now", "bb", "http://b", "1.1", age=1.0)
    state.members["gone"] = GroupMember("gone", "cc", "http://c", "1.0", age=GONE_AFTER)
    group = hub(state, "aa")
    group.open()
    await until(lambda: group.joined)
    assert group.marked("bb") == state.members["now"]
    gone = group.marked("cc")
    assert gone is not None
    assert not gone.alive
    assert not group.marked("dd")
    assert {each["id"] for each in group.report()["hubs"]} == {"now", group.me.id}
    await group.close()


async def test_a_hub_that_was_away_looks_for_what_others_have_taken() -> None:
    state, lapses = SharedMemory(), list[float]()
    skipped = [0.0]
    clock = asyncio.get_running_loop().time
    group = hub(state, "aa", lambda: clock() + skipped[0])

    async def lapsed() -> None:
        lapses.append(group.now)

    group.on_lapse = lapsed
    group.open()
    await until(lambda: group.joined)
    await group.announce("ready")
    assert lapses == []
    skipped[0] = GONE_AFTER + 1
    await until(lambda: lapses)
    await group.close()


async def test_a_copy_of_a_home_is_told() -> None:
    state = SharedMemory()
    state.members["twin"] = GroupMember("twin", "aa", "http://copy", "1.0")
    state.members["before"] = GroupMember("before", "aa", "http://aa.example", "1.0")
    group = hub(state, "aa")
    group.open()
    await until(lambda: group.joined)
    assert "http://copy" in group.report()["problem"]
    del state.members["twin"]
    await until(lambda: not group.report()["problem"])
    await group.close()
