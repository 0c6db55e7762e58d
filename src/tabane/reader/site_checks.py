"""Checks of the site adapters: each reads a known public page, and the result is compared with its sample."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.page import Page
from tabane.reader.sites.any_page import AnyPageAdapter
from tabane.reader.sites.site_adapter import (
    PageAdapter,
    ReadingTools,
    SiteAdapter,
    UnexpectedAnswer,
    read_site,
)

AT_ONCE = 3
"""Sites that are checked at once."""

LIMIT = 30.0
"""Seconds for the check of one site."""

SiteState = Literal["ok", "changed", "unreachable", "busy", "key", "no key", "off"]
"""``changed``: the answer is not what the adapter expects. ``key``: the key is not accepted."""

# A response that ends too early or is not HTTP is "broken", too.
_UNREACHABLE = frozenset({"dns", "connect", "tls", "timeout", "refused", "redirect", "robots", "broken"})


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """The result for one site. ``page_problem`` is why the page itself cannot be read either, if so."""

    site: SiteAdapter
    state: SiteState
    reason: Message | None = None
    page_problem: Message | None = None


async def check_sites(
    sites: Sequence[SiteAdapter],
    tools: ReadingTools,
    off: Collection[str] = (),
    *,
    general: PageAdapter | None = None,
    limit: float = LIMIT,
) -> list[SiteCheck]:
    """Check each site that is not off, some at once, each for ``limit`` seconds at most. Never fails."""
    turns = asyncio.Semaphore(AT_ONCE)
    fallback = general or AnyPageAdapter()

    async def check(site: SiteAdapter) -> SiteCheck:
        if site.name in off:
            return SiteCheck(site, "off")
        async with turns:
            try:
                async with asyncio.timeout(limit):
                    check = await _check_sample(site, tools)
                    # If the site has changed, say why its page cannot be read as any page either.
                    if check.state != "changed":
                        return check
                    try:
                        await fallback.read(check.site.sample.url, tools)
                    except ReadError as error:
                        return SiteCheck(check.site, check.state, check.reason, error.message)
                    return check
            except TimeoutError:
                reason = say("It took more than {limit} {limit:second|seconds}.", limit=round(limit))
                return SiteCheck(site, "unreachable", reason)

    return await asyncio.gather(*map(check, sites))


async def _check_sample(site: SiteAdapter, tools: ReadingTools) -> SiteCheck:
    try:
        page = await read_site(site, site.sample.url, tools)
    except ReadError as error:
        state = _state_of_error(site, error)
        return SiteCheck(site, state, None if state == "ok" else error.message)
    reason = _sample_difference(site, page)
    return SiteCheck(site, "ok") if reason is None else SiteCheck(site, "changed", reason)


def _state_of_error(site: SiteAdapter, error: ReadError) -> SiteState:
    if site.sample.shared and error.status == 404:
        return "ok"
    if error.cause == "key":
        return "no key" if error.status is None else "key"
    if error.cause == "rate":
        return "busy"
    if isinstance(error, UnexpectedAnswer):
        return "changed"
    if error.cause in _UNREACHABLE or (error.status or 0) >= 500:
        return "unreachable"
    return "changed"


def _sample_difference(site: SiteAdapter, page: Page | None) -> Message | None:
    """Return what is wrong with the page of the sample; None if it is as expected."""
    sample = site.sample
    if page is None or page.way != site.name:
        return say("{url} was not read.", url=sample.url)
    if sample.title not in (page.title or ""):
        return say(
            "The title of {url} is {title!r}, without {expected!r}.",
            url=sample.url,
            title=page.title or "",
            expected=sample.title,
        )
    if len(page.text) < sample.letters:
        return say(
            "{url} has only {count} {count:character|characters}, less than {least}.",
            url=sample.url,
            count=len(page.text),
            least=sample.letters,
        )
    return None
