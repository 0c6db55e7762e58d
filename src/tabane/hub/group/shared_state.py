"""State that a hub shares with its group, in the tables of the database.

Imported after the database is there, because the tables need its driver.
"""

from __future__ import annotations

from typing import NamedTuple

from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.group.membership import GroupMember
from tabane.group.tables.group_tables import GroupTables, PostgresJobs
from tabane.group.tables.shared_access import PostgresKeys, PostgresProfiles, PostgresTokens
from tabane.group.tables.shared_usage import PostgresAudit, PostgresToolUse, PostgresUsage
from tabane.hub.group.group_jobs import GroupJobs, ToolUseSharing
from tabane.hub.hub import Hub
from tabane.hub.people.approvals.shared_approvals import PostgresApprovals


class SharedState(NamedTuple):
    """Tables of a group, and the parts that exchange jobs, tool use and approvals through them."""

    tables: GroupTables
    jobs: GroupJobs
    tool_use: ToolUseSharing
    approvals: PostgresApprovals


def share_state(hub: Hub, database: PostgresDatabase, me: GroupMember) -> SharedState:
    """Let a hub keep its keys, profiles, limits, jobs, audit index and usage in the database of its group."""
    tables = GroupTables(database)
    hub.access.share(PostgresKeys(tables), PostgresTokens(tables), PostgresProfiles(tables))
    jobs = GroupJobs(PostgresJobs(tables), me.id, me.address, hub.jobs.cancel_soon)
    hub.jobs.share(jobs)
    hub.audit.usage.share(PostgresAudit(tables), PostgresUsage(tables), me.mark, me.address)
    tool_use = ToolUseSharing(hub.gateway.catalogs.use, PostgresToolUse(tables), me.mark, hub.loop.time)
    return SharedState(tables, jobs, tool_use, PostgresApprovals(tables))
