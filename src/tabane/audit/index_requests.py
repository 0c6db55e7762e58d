"""Requests that the hub sends to the process with the index of the audit log, and its answers."""

from __future__ import annotations

from typing import Any

import msgspec

from tabane.audit.entry import UsageGroup
from tabane.audit.lookups import Lookups


class EntryFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Conditions on entries; all of them have to hold.

    ``start`` and ``end`` are milliseconds since 1970, both included. ``key``, ``actor``, ``client``,
    ``server``, ``tool`` and ``action`` are patterns in which ``*`` stands for any characters; an empty one is
    no condition. ``key`` and ``actor`` also match the label. ``tool`` only matches calls. ``outcomes`` are
    the allowed outcomes, all if empty; "" is that of entries without one. ``text`` occurs in an entry's
    values; the case of ASCII letters is ignored. ``hub`` is a pattern of the addresses of hubs of a group;
    the index of one hub ignores it. ``lookups``: see :mod:`tabane.audit.lookups`.
    """

    start: int | None = None
    end: int | None = None
    type: str = ""
    outcomes: tuple[str, ...] = ()
    key: str = ""
    actor: str = ""
    client: str = ""
    server: str = ""
    tool: str = ""
    action: str = ""
    text: str = ""
    hub: str = ""
    lookups: Lookups = ""


class EntryQuery(msgspec.Struct, frozen=True, tag="entries", omit_defaults=True):
    """A page of entries, newest first; only those with a smaller seq than ``before``, if it is not 0.

    With ``after``, the page has the oldest entries that are newer, oldest first. With ``seq``, it has only
    the entry of that number, or the one of each hub of a group.
    """

    filter: EntryFilter = EntryFilter()
    before: int = 0
    after: int | None = None
    seq: int | None = None
    offset: int = 0
    limit: int = 50


class EntryCounts(msgspec.Struct, frozen=True, tag="counts", omit_defaults=True):
    """Counts of entries by each property. ``top`` limits the rows of each."""

    filter: EntryFilter = EntryFilter()
    top: int = 20


class UsageQuery(msgspec.Struct, frozen=True, tag="usage", omit_defaults=True):
    """Usage from the day ``first`` to ``last`` (ISO dates, both included), in groups.

    ``server``, ``tool`` and ``client`` are patterns. ``key`` is a pattern too, which also matches labels; as
    ``holder``, it is exactly one holder. ``of_servers``: without calls of Tabane's own tools. With
    ``used_tools``, the answer is each tool and server that was called, with the number of calls.
    """

    first: str
    last: str
    by: UsageGroup = "tool"
    server: str = ""
    tool: str = ""
    key: str = ""
    client: str = ""
    holder: str | None = None
    offset: int = 0
    limit: int = 50
    used_tools: bool = False
    lookups: Lookups = ""
    of_servers: bool = False


class UsageDays(msgspec.Struct, frozen=True, tag="usage_days"):
    """Each day with usage, and the number of its calls."""


class UsageOfDay(msgspec.Struct, frozen=True, tag="usage_of_day"):
    """Some rollups of a day, each with its buckets: those with a larger id than ``after``, by their ids."""

    day: str
    after: int = 0
    limit: int = 1000


class NewestEntry(msgspec.Struct, frozen=True, tag="newest"):
    """The seq of the newest entry."""


class CatchUp(msgspec.Struct, frozen=True, tag="catch_up"):
    """Read what was added to the log, and answer nothing."""


IndexTask = EntryQuery | EntryCounts | UsageQuery | UsageDays | UsageOfDay | NewestEntry | CatchUp


class IndexRequest(msgspec.Struct, frozen=True):
    """``folder`` is that of the log; ``zone`` the time zone that decides on the day of a call."""

    folder: str
    zone: str
    task: IndexTask


class IndexAnswer(msgspec.Struct, frozen=True):
    """``ready`` is False if the index is still catching up: ask again. ``behind`` is then the bytes left.

    With an ``error``, asking again does not help; ``full``: no space is left on the disk.
    """

    ready: bool
    behind: int = 0
    error: str = ""
    full: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")


encode_index = msgspec.json.encode
decode_index_request = msgspec.json.Decoder(IndexRequest).decode
decode_index_answer = msgspec.json.Decoder(IndexAnswer).decode


def answered(result: Any) -> IndexAnswer:
    """Return the answer with that result."""
    return IndexAnswer(True, result=msgspec.Raw(msgspec.json.encode(result)))
