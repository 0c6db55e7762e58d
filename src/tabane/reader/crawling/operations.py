"""Operations on whole sites: each is a job, which others may join and continue."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from tabane.errors import BadArguments, ReadError, TabaneError
from tabane.messages import say
from tabane.operations import Caller, Face, Progress
from tabane.operations.job_turns import Turn
from tabane.operations.jobs import Started, Starter
from tabane.reader.crawling.addresses import plain_address
from tabane.reader.crawling.site_file import SiteFile
from tabane.reader.crawling.site_reading import SiteFetcher, SiteReading, SiteWish, rendered
from tabane.reader.fetching.interface import Fetcher
from tabane.reader.guard import target
from tabane.reader.operations import PrivateReader, Remember
from tabane.reader.page import Page
from tabane.reader.table import DEFAULT_OF_SITE, ReadSite
from tabane.reader.url_reader import ReadingRules, UrlReader

PATIENCE = 20.0
"""Seconds that a call of an assistant waits for the end of its job."""

_MOST_OVER = 32
"""Jobs that are over and whose result an assistant can still ask for."""


class SiteJob(NamedTuple):
    """A job that reads a site. ``ended`` is set at its end."""

    job: Started
    ended: asyncio.Event


class SiteOperations:
    """The operations on whole sites. ``reader`` returns a reader over a fetcher; ``jobs`` starts jobs.

    ``private`` knows the hosts whose pages are read with cookies. For as long as by
    ``rules`` a page is fresh, an assistant gets the result of a job that is over, and no new one is started.
    """

    def __init__(
        self,
        file: SiteFile,
        fetcher: SiteFetcher,
        reader: Callable[[Fetcher], UrlReader],
        remember: Remember,
        jobs: Starter,
        private: PrivateReader,
        rules: Callable[[], ReadingRules],
    ) -> None:
        self._file, self._fetcher, self._reader, self._remember = file, fetcher, reader, remember
        self._starter, self._private, self._rules = jobs, private, rules
        self._jobs: dict[tuple[object, ...], SiteJob] = {}
        self._over: OrderedDict[tuple[object, ...], tuple[float, SiteJob]] = OrderedDict()
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    async def read_site(self, caller: Caller, params: ReadSite) -> dict[str, Any]:
        """Start to read a site into the page cache, and return the state of the job.

        Raises BadArguments for a bad URL, and TabaneError if its host has imported cookies.
        """
        return await self._begin("read_site", caller, params, None)

    async def remember_site(self, caller: Caller, params: ReadSite) -> dict[str, Any]:
        """Start to save the pages of a site as documents, and return the state of the job. Raises as
        :meth:`read_site`.
        """
        return await self._begin("remember_site", caller, params, partial(self._remember, caller))

    async def _begin(
        self,
        name: str,
        caller: Caller,
        params: ReadSite,
        remember: Callable[[Page], Awaitable[str]] | None,
    ) -> dict[str, Any]:
        try:
            at = target(params.url)
        except ReadError as error:
            raise BadArguments(
                say("{parameter}: {detail}", parameter="url", detail=error.message), "url"
            ) from None
        if (decision := await self._private.decide(caller, at.url)).jar is not None:
            raise TabaneError(
                say(
                    "Pages of {host} are read with imported cookies and are not kept, so the whole site "
                    "cannot be read. Read its pages one by one.",
                    host=decision.jar.authority,
                )
            )
        start = plain_address(at)
        wish = SiteWish(start, params.limit or DEFAULT_OF_SITE, params.depth, bool(params.refresh))
        place = (name, caller.access.holder, wish)
        if caller.face is not Face.MCP:
            return self._start(name, place, wish, caller, remember).job.state(caller.lang)
        ended, over = self._over.get(place, (0.0, None))
        recent = over if time.monotonic() - ended < self._rules().fresh else None
        begun = self._jobs.get(place) or recent or self._start(name, place, wish, caller, remember)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await begun.ended.wait()
        await asyncio.sleep(0)  # the job notes its end right after its work
        return {**begun.job.state(caller.lang), "operation": name}

    def _start(
        self,
        name: str,
        place: tuple[object, ...],
        wish: SiteWish,
        caller: Caller,
        remember: Callable[[Page], Awaitable[str]] | None,
    ) -> SiteJob:
        """Start the job. Jobs on one host take turns."""
        turn = self._turns.setdefault(target(wish.start).host, Turn())
        ended = asyncio.Event()

        async def work(progress: Progress) -> dict[str, Any]:
            try:
                async with turn.taken(progress):
                    reading = SiteReading(wish, self._file, self._fetcher, self._reader, remember)
                    report = rendered(await reading.run(progress), caller.lang)
                    self._over[place] = time.monotonic(), begun
                    self._over.move_to_end(place)
                    while len(self._over) > _MOST_OVER:
                        self._over.popitem(last=False)
                    return report
            finally:
                if self._jobs.get(place) is begun:
                    del self._jobs[place]
                ended.set()

        title = say("Reading {site}", site=wish.start.partition("://")[2])
        begun = self._jobs[place] = SiteJob(self._starter.start(name, title, work, caller), ended)
        return begun
