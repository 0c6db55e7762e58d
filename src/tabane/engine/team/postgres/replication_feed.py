"""The changes of a collection for a local replica: :class:`~tabane.engine.replication.ReplicationFeed`."""

from __future__ import annotations

from tabane.engine.replication import ChangedRecords, NumberedSpace, ReplicaPosition
from tabane.engine.team.postgres.change_feed import ChangeFeed
from tabane.engine.team.postgres.change_log import FeedPosition
from tabane.engine.team.postgres.change_probe import ChangeProbe


class PostgresReplicationFeed:
    """Gives out the changes of one collection."""

    def __init__(self, feed: ChangeFeed, probe: ChangeProbe) -> None:
        self._feed, self._probe = feed, probe

    async def newest(self) -> int:
        return await self._probe.newest(self._feed.states)

    async def join(self, name: str) -> ReplicaPosition:
        return _given(await self._feed.join(name))

    async def after(self, name: str, position: ReplicaPosition, most: int) -> ChangedRecords | None:
        found = await self._feed.after(name, _known(position), most)
        if found is None:
            return None
        return ChangedRecords(
            _given(found.position),
            found.complete,
            tuple(NumberedSpace(each.number, each.space) for each in found.spaces),
            found.records,
            tuple(found.gone),
        )

    async def advance(self, name: str, position: ReplicaPosition) -> bool:
        return await self._feed.advance(name, _known(position))

    async def leave(self, name: str) -> None:
        await self._feed.leave(name)


def _given(position: FeedPosition) -> ReplicaPosition:
    return ReplicaPosition(position.change, position.row, position.mark, position.coming)


def _known(position: ReplicaPosition) -> FeedPosition:
    return FeedPosition(position.change, position.row, position.mark, position.coming)
