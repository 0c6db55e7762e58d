"""The record of whole sites: which pages are known, which of them wait, and what came of the others.

``sites.db`` in the home. One thread reads and writes it. What came of a page and the links on it are one
transaction, so a hub that is killed neither forgets a page nor reads one again. The response of a page that
was fetched but not converted yet is kept too, for the same reason. A file that is damaged is replaced: the
pages are then read again.
"""

from __future__ import annotations

import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from tabane.messages import Message
from tabane.reader.crawling.addresses import SiteScope, address_key, path_pattern
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page_records import message_of, said
from tabane.workers.database_thread import DatabaseThread

log = logging.getLogger(__name__)

FILE = "sites.db"
VERSION = 1

MOST_PAGES = 50_000
"""Pages of a site that are known at most."""

LONGEST_STOP = 86_400.0
"""Seconds after which a run that was stopped is not continued: what it has read may have changed."""

MOST_SHOWN = 50
"""Pages of each outcome that a report names."""

_LARGEST_RESPONSE = 8_000_000  # bytes of a response that is kept until its page is converted

Outcome = Literal[
    "new", "changed", "unchanged", "duplicate", "gone", "failed", "outside", "robots", "noindex", "other",
    "similar",
]  # fmt: skip
"""Outcomes of the reading of an address.

``new``, ``changed`` and ``unchanged`` pages were read. ``duplicate``: another address has the same page.
``gone``: it was there in an earlier run. ``outside``: it redirects out of the folder. ``robots``: the site's
robots.txt closes it. ``noindex``: the page asks programs not to list it. ``other``: it is no page.
``similar``: too many addresses of the same pattern were read before it.
"""

READ = ("new", "changed", "unchanged")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS site(
  id INTEGER PRIMARY KEY, start TEXT NOT NULL UNIQUE, origin TEXT NOT NULL DEFAULT '',
  folder TEXT NOT NULL DEFAULT '', began REAL NOT NULL DEFAULT 0, ended REAL NOT NULL DEFAULT 1,
  listed INTEGER NOT NULL DEFAULT 0, indexed INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE IF NOT EXISTS page(
  place INTEGER PRIMARY KEY, site INTEGER NOT NULL, key TEXT NOT NULL, url TEXT NOT NULL,
  depth INTEGER NOT NULL, pattern TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'waiting',
  canonical INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '', other TEXT NOT NULL DEFAULT '',
  digest TEXT NOT NULL DEFAULT '', alike TEXT NOT NULL DEFAULT '', links BLOB,
  lastmod TEXT NOT NULL DEFAULT '',
  checked REAL NOT NULL DEFAULT 0, document TEXT NOT NULL DEFAULT '', saved TEXT NOT NULL DEFAULT '',
  put INTEGER NOT NULL DEFAULT 0, UNIQUE(site, key)
);
CREATE INDEX IF NOT EXISTS page_state ON page(site, state, depth, place);
CREATE INDEX IF NOT EXISTS page_alike ON page(site, alike);
CREATE INDEX IF NOT EXISTS page_pattern ON page(site, pattern, state);
CREATE TABLE IF NOT EXISTS response(place INTEGER PRIMARY KEY, accept TEXT, resource BLOB NOT NULL);
"""

_Found = TypeVar("_Found")


class SiteRun(NamedTuple):
    """A run over a site. ``scope`` is None until the start page was read.

    ``continued``: the last run did not end. ``listed``: the sitemaps were read in this run. ``indexed``:
    pages that must not be listed are left out.
    """

    site: int
    scope: SiteScope | None
    continued: bool
    listed: bool
    indexed: bool


class WaitingPage(NamedTuple):
    """A page that is read next. ``checked`` is when it was last read or confirmed, in seconds since 1970.

    ``digest`` identifies its text then, ``saved`` the text that is a document; both empty if there is none.
    ``late``: the first attempt failed. ``canonical``: the page counts although it names another as its own.
    """

    place: int
    url: str
    depth: int
    pattern: str
    late: bool
    canonical: bool
    digest: str
    links: tuple[str, ...]
    lastmod: str
    checked: float
    document: str
    saved: str

    @property
    def key(self) -> str:
        return address_key(self.url)


class FoundPage(NamedTuple):
    """An address that was found, with its distance from the start page in links."""

    url: str
    depth: int
    lastmod: str = ""


class PageResult(NamedTuple):
    """The outcome of reading a page. ``other`` is the address that it leads to, ``links`` those to follow."""

    outcome: Outcome
    reason: Message | None = None
    other: str = ""
    digest: str = ""
    alike: str = ""
    links: tuple[str, ...] = ()
    document: str = ""
    saved: str = ""


class KeptResponse(msgspec.Struct, frozen=True, array_like=True):
    """A response on disk."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    media_type: str
    charset: str | None


class SiteFile:
    """Keeps the sites of one hub. It is created with the first site. All methods raise StoreError."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._thread = DatabaseThread(folder / FILE, _SCHEMA, VERSION, "sites")

    async def begin(self, start: str) -> SiteRun:
        """Begin a run from a start page, or continue the one that was stopped less than a day ago."""
        return await self._thread.run(self._begin, start)

    async def settle(self, site: int, scope: SiteScope, indexed: bool) -> None:
        """Keep the scope of a site, and whether its pages may be listed."""
        await self._thread.run(
            self._execute,
            "UPDATE site SET origin = ?, folder = ?, indexed = ? WHERE id = ?",
            scope.origin, scope.folder, indexed, site,
        )  # fmt: skip

    async def next(self, site: int) -> WaitingPage | None:
        """Return the page to be read next: the nearest to the start page, those that failed once last."""
        return await self._thread.run(self._next, site)

    async def list_pages(self, site: int, found: Iterable[FoundPage]) -> None:
        """Add the addresses of a site's sitemaps, which were all read."""
        await self._thread.run(self._list_pages, site, found)

    async def keep_response(self, place: int, accept: str | None, resource: FetchedResource) -> None:
        """Keep the response of a page until it is finished. One that is very large is not kept."""
        if len(resource.body) <= _LARGEST_RESPONSE:
            await self._thread.run(self._keep_response, place, accept, resource)

    async def response(self, place: int) -> tuple[str | None, FetchedResource] | None:
        """Return the response that was kept, and what it was the answer to; None if there is none."""
        return await self._thread.run(self._response, place)

    async def finish(
        self, site: int, page: WaitingPage, result: PageResult, found: Iterable[FoundPage] = ()
    ) -> None:
        """Keep what came of a page, and the addresses that were found on it."""
        await self._thread.run(self._finish, site, page, result, found)

    async def postpone(self, page: WaitingPage) -> None:
        """Let a page wait until all others were read."""
        await self._thread.run(self._execute, "UPDATE page SET state = 'late' WHERE place = ?", page.place)

    async def stand_in(self, site: int, page: WaitingPage) -> int:
        """Let pages that named this one as their own be read after all. Return how many there are."""
        return await self._thread.run(
            self._execute,
            "UPDATE page SET state = 'waiting', canonical = 1 WHERE site = ? AND state = 'duplicate' "
            "AND other = ?", site, page.url,
        )  # fmt: skip

    async def move(self, site: int, page: WaitingPage, url: str) -> WaitingPage | None:
        """Call a page by the address that it redirects to; its own becomes a duplicate of that.

        Return None, and change nothing, if that address is a page already that was read or will be.
        """
        return await self._thread.run(self._move, site, page, url)

    async def known(self, site: int, url: str) -> str | None:
        """Return the state of an address; None if it is not known."""
        row = await self._thread.run(
            self._first_row, "SELECT state FROM page WHERE site = ? AND key = ?", site, address_key(url)
        )
        return None if row is None else str(row[0])

    async def alike(self, site: int, page: WaitingPage, alike: str) -> str | None:
        """Return the address of another page with the same text; None if there is none."""
        row = await self._thread.run(
            self._first_row,
            "SELECT url FROM page WHERE site = ? AND alike = ? AND place != ? ORDER BY depth, place LIMIT 1",
            site, alike, page.place,
        )  # fmt: skip
        return None if row is None else str(row[0])

    async def of_pattern(self, site: int, pattern: str) -> tuple[int, int]:
        """Return how many pages of a pattern are done, and how many of these are duplicates."""
        done, duplicates = await self._thread.run(
            self._first_row,
            "SELECT count(*), coalesce(sum(state = 'duplicate'), 0) FROM page WHERE site = ? AND pattern = ? "
            "AND state NOT IN ('waiting', 'late', 'similar')", site, pattern,
        )  # fmt: skip
        return done, duplicates

    async def counts(self, site: int) -> dict[str, int]:
        """Return the number of pages of each outcome, of those that wait, and of those saved in this run."""
        return await self._thread.run(self._counts, site)

    async def report(self, site: int) -> dict[str, list[dict[str, Any]]]:
        """Return the pages whose outcome a person should know, at most 50 of each."""
        return await self._thread.run(self._report, site)

    async def end(self, site: int) -> None:
        """End the run."""
        await self._thread.run(self._execute, "UPDATE site SET ended = ? WHERE id = ?", self._clock(), site)
        await self._thread.run(self._execute, "PRAGMA incremental_vacuum")

    async def close(self) -> None:
        """Finish what is being written, and close the file."""
        await self._thread.close()

    # -- in the thread ---------------------------------------------------------------------------

    def _execute(self, statement: str, *values: object) -> int:
        with self._thread.database() as database:
            return database.execute(statement, values).rowcount

    def _first_row(self, statement: str, *values: object) -> Any:
        return self._thread.database().execute(statement, values).fetchone()

    def _begin(self, start: str) -> SiteRun:
        with self._thread.database() as database:
            database.execute("INSERT OR IGNORE INTO site(start) VALUES(?)", (start,))
            (site, origin, folder, began, ended, listed, indexed) = database.execute(
                "SELECT id, origin, folder, began, ended, listed, indexed FROM site WHERE start = ?", (start,)
            ).fetchone()
            (last,) = database.execute(
                "SELECT coalesce(max(checked), 0) FROM page WHERE site = ?", (site,)
            ).fetchone()
            is_new = ended or self._clock() - max(began, last) > LONGEST_STOP
            if is_new:
                # Pages that were read before are read again, nearest first. Others are found again.
                listed = 0
                database.execute(
                    "DELETE FROM response WHERE place IN (SELECT place FROM page WHERE site = ?)", (site,)
                )
                database.execute("DELETE FROM page WHERE site = ? AND digest = ''", (site,))
                database.execute(
                    "UPDATE page SET state = 'waiting', reason = '', other = '', canonical = 0, put = 0, "
                    "lastmod = '' WHERE site = ?", (site,),
                )  # fmt: skip
                database.execute(
                    "UPDATE site SET began = ?, ended = 0, listed = 0 WHERE id = ?", (self._clock(), site)
                )
                _add(database, site, [FoundPage(start, 0)])
            scope = SiteScope(origin, folder) if folder else None
            return SiteRun(site, scope, not is_new, bool(listed), bool(indexed))

    def _next(self, site: int) -> WaitingPage | None:
        for state in ("waiting", "late"):
            row = self._first_row(
                "SELECT place, url, depth, pattern, state = 'late', canonical, digest, links, lastmod, "
                "checked, document, saved FROM page WHERE site = ? AND state = ? "
                "ORDER BY depth, place LIMIT 1",
                site, state,
            )  # fmt: skip
            if row is not None:
                values = list(row)
                values[4], values[5] = bool(row[4]), bool(row[5])
                values[7] = _unpacked(row[7], tuple[str, ...]) if row[7] is not None else ()
                return WaitingPage(*values)
        return None

    def _list_pages(self, site: int, found: Iterable[FoundPage]) -> None:
        with self._thread.database() as database:
            _add(database, site, found)
            database.execute("UPDATE site SET listed = 1 WHERE id = ?", (site,))

    def _keep_response(self, place: int, accept: str | None, resource: FetchedResource) -> None:
        kept = KeptResponse(
            resource.url, resource.status, dict(resource.headers), resource.body, resource.media_type,
            resource.charset,
        )  # fmt: skip
        self._execute("INSERT OR REPLACE INTO response VALUES(?, ?, ?)", place, accept, _packed(kept))

    def _response(self, place: int) -> tuple[str | None, FetchedResource] | None:
        row = self._first_row("SELECT accept, resource FROM response WHERE place = ?", place)
        if row is None:
            return None
        kept = _unpacked(row[1], KeptResponse)
        return row[0], FetchedResource(
            kept.url, kept.status, kept.headers, kept.body, kept.media_type, kept.charset
        )

    def _finish(self, site: int, page: WaitingPage, result: PageResult, found: Iterable[FoundPage]) -> None:
        known = result.outcome in READ
        values = {
            "state": result.outcome,
            "reason": "" if result.reason is None else msgspec.json.encode(said(result.reason)).decode(),
            "other": result.other,
            "checked": self._clock(),
            # A page that failed keeps what is known of it, so that the next run can tell whether it changed.
            **({"digest": result.digest, "links": _packed(result.links)} if known else {}),
            **({"alike": result.alike} if result.outcome in ("new", "changed") else {}),
            **({"digest": "", "alike": ""} if result.outcome in ("gone", "outside", "duplicate") else {}),
            **({"document": result.document, "saved": result.saved, "put": 1} if result.saved else {}),
        }
        names = ", ".join(f"{name} = ?" for name in values)
        with self._thread.database() as database:
            database.execute(f"UPDATE page SET {names} WHERE place = ?", (*values.values(), page.place))
            database.execute("DELETE FROM response WHERE place = ?", (page.place,))
            _add(database, site, found)

    def _move(self, site: int, page: WaitingPage, url: str) -> WaitingPage | None:
        with self._thread.database() as database:
            other = database.execute(
                "SELECT place, state, digest FROM page WHERE site = ? AND key = ?", (site, address_key(url))
            ).fetchone()
            if other is not None and (other[2] or other[1] not in ("waiting", "late")):
                return None
            if other is not None:
                database.execute("DELETE FROM page WHERE place = ?", (other[0],))
            database.execute(
                "UPDATE page SET key = ?, url = ?, pattern = ? WHERE place = ?",
                (address_key(url), url, path_pattern(url), page.place),
            )
            _add(database, site, [FoundPage(page.url, page.depth)])
            database.execute(
                "UPDATE page SET state = 'duplicate', other = ? WHERE site = ? AND key = ?",
                (url, site, page.key),
            )
            return page._replace(url=url, pattern=path_pattern(url))

    def _counts(self, site: int) -> dict[str, int]:
        found = self._thread.database().execute(
            "SELECT state, count(*) FROM page WHERE site = ? GROUP BY state", (site,)
        )
        counts: dict[str, int] = dict(found.fetchall())
        (counts["saved"],) = self._first_row("SELECT coalesce(sum(put), 0) FROM page WHERE site = ?", site)
        counts["waiting"] = counts.get("waiting", 0) + counts.pop("late", 0)
        return counts

    def _report(self, site: int) -> dict[str, list[dict[str, Any]]]:
        report: dict[str, list[dict[str, Any]]] = {}
        for state in ("failed", "gone", "outside"):
            rows = self._thread.database().execute(
                "SELECT url, reason, other, iif(state = 'gone', document, '') FROM page "
                "WHERE site = ? AND state = ? "
                "ORDER BY depth, place LIMIT ?", (site, state, MOST_SHOWN),
            )  # fmt: skip
            report[state] = [_shown_page(*row) for row in rows.fetchall()]
        return report


def _shown_page(url: str, reason: str, other: str, document: str) -> dict[str, Any]:
    """Return a page of a report; its ``reason`` is a Message, which the reader's language decides on."""
    page: dict[str, Any] = {"url": url}
    if reason:
        page["reason"] = message_of(*msgspec.json.decode(reason))
    if other:
        page["to"] = other
    if document:
        page["document"] = document
    return page


def _add(database: sqlite3.Connection, site: int, found: Iterable[FoundPage]) -> None:
    """Add addresses that are not known yet; those that are get what the sitemap says of them."""
    (room,) = database.execute("SELECT ? - count(*) FROM page WHERE site = ?", (MOST_PAGES, site)).fetchone()
    for page in found:
        key = address_key(page.url)
        if page.lastmod:
            database.execute(
                "UPDATE page SET lastmod = ? WHERE site = ? AND key = ?", (page.lastmod, site, key)
            )
        if room > 0:
            room -= database.execute(
                "INSERT OR IGNORE INTO page(site, key, url, depth, pattern, lastmod) "
                "VALUES(?, ?, ?, ?, ?, ?)",
                (site, key, page.url, page.depth, path_pattern(page.url), page.lastmod),
            ).rowcount


def _packed(value: object) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(value), 1)


def _unpacked(packed: bytes, kind: type[_Found]) -> _Found:
    return msgspec.msgpack.decode(zlib.decompress(packed), type=kind)
