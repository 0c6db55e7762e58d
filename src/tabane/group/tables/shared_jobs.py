"""Jobs of a group of hubs, in the database that the hubs share."""

from __future__ import annotations

import psycopg

from tabane.group.shared_jobs import FORGOTTEN_AFTER, MOST_ENDED, SharedJob
from tabane.group.state import GONE_AFTER
from tabane.group.tables.group_tables import GroupTables

_TELL = """
INSERT INTO hub_job (hub, address, job, running, state, told)
VALUES (%(hub)s, %(address)s, %(job)s, %(running)s, %(state)s, clock_timestamp())
ON CONFLICT (hub, job) DO UPDATE SET running = EXCLUDED.running, state = EXCLUDED.state, told = EXCLUDED.told
"""
_WANTED = "SELECT job FROM hub_job WHERE hub = %s AND running AND cancel"
_JOBS = f"""
SELECT job.hub, job.address, job.job, job.running, job.state,
  coalesce(member.heartbeat > clock_timestamp() - interval '{GONE_AFTER} seconds', false),
  extract(epoch FROM job.told)::float8
FROM hub_job AS job LEFT JOIN hub_member AS member ON member.id = job.hub WHERE job.hub <> %s
"""
_MOST = f" ORDER BY job.told DESC LIMIT {8 * MOST_ENDED}"
_CANCEL = "UPDATE hub_job SET cancel = true WHERE hub = %s AND job = %s AND running"
_FORGET = f"""
DELETE FROM hub_job WHERE told < clock_timestamp() - interval '{FORGOTTEN_AFTER} seconds'
AND (NOT running OR hub NOT IN (
  SELECT id FROM hub_member WHERE heartbeat > clock_timestamp() - interval '{GONE_AFTER} seconds'))
"""
_FORGET_OLDEST = f"""
DELETE FROM hub_job WHERE (hub, job) IN (
  SELECT hub, job FROM hub_job WHERE NOT running ORDER BY told DESC OFFSET {MOST_ENDED})
"""


class PostgresJobs:
    """The jobs of a group."""

    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    async def tell(self, hub: str, jobs: list[SharedJob]) -> list[str]:
        def telling(connection: psycopg.Connection) -> list[str]:
            for job in jobs:
                row = {"hub": hub, "address": job.address, "job": job.key}
                connection.execute(_TELL, {**row, "running": job.running, "state": job.state})
            if not all(job.running for job in jobs):
                connection.execute(_FORGET)
                connection.execute(_FORGET_OLDEST)
            return [key for (key,) in connection.execute(_WANTED, (hub,))]

        return await self._tables.write(telling)

    async def others(self, hub: str) -> list[SharedJob]:
        def reading(connection: psycopg.Connection) -> list[SharedJob]:
            return [SharedJob(*row) for row in connection.execute(_JOBS + _MOST, (hub,))]

        return await self._tables.read(reading)

    async def find(self, hub: str, key: str) -> SharedJob | None:
        def finding(connection: psycopg.Connection) -> SharedJob | None:
            found = connection.execute(_JOBS + " AND job.job = %s" + _MOST, (hub, key)).fetchone()
            return SharedJob(*found) if found else None

        return await self._tables.read(finding)

    async def cancel(self, job: SharedJob) -> None:
        def cancelling(connection: psycopg.Connection) -> None:
            connection.execute(_CANCEL, (job.hub, job.key))

        await self._tables.write(cancelling)
