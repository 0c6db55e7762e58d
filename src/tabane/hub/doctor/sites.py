"""Checks of the reader's sites: which are switched off, and whether each still answers as expected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tabane.hub.context import secret_of
from tabane.hub.doctor.installation import DoctorFinding, Installation, fault, note, ok, warning
from tabane.hub.sources.open_reader import reading_policy
from tabane.messages import Message, say
from tabane.reader.conversion import PageConverter
from tabane.reader.fetching import PageFetcher
from tabane.reader.site_checks import SiteCheck, check_sites
from tabane.reader.sites.registry import all_site_adapters
from tabane.reader.sites.site_adapter import ReadingTools


def switched_off(installation: Installation) -> Iterator[DoctorFinding]:
    """Report the sites that are read like any other page, because they are switched off."""
    off = installation.settings.reader_sites_off
    if off:
        yield note(
            say("Sites that are read without their API (reader_sites_off): {names}", names=", ".join(off))
        )


def online(installation: Installation) -> Iterator[DoctorFinding]:
    """Read a known page of each site over the network, and report what does not work."""
    if installation.online or installation.settings.reader_proxy:
        for check in asyncio.run(_checks(installation)):
            yield _finding(check)


async def _checks(installation: Installation) -> list[SiteCheck]:
    settings = installation.settings
    environ = installation.children
    policy = reading_policy(settings, assistant=False)
    fetching, conversion = PageFetcher(lambda: policy), PageConverter(environ)
    sites = all_site_adapters(lambda name: secret_of(settings, environ, name))
    try:
        return await check_sites(sites, ReadingTools(fetching, conversion), settings.reader_sites_off)
    finally:
        await fetching.close()
        await conversion.close()


def _finding(check: SiteCheck) -> DoctorFinding:
    site, reason = check.site.title, check.reason
    if check.state == "ok" and check.site.sample.shared:
        return ok(
            say("The API of {site} accepts the key. It returns only pages that are shared with it", site=site)
        )
    if check.state == "ok":
        return ok(say("The API of {site} answers as expected", site=site))
    if check.state == "changed":
        return _changed(check)
    if check.state == "unreachable":
        return fault(
            say("The API of {site} cannot be reached: {reason}", site=site, reason=reason),
            say("Check the network, and the setting reader_proxy"),
        )
    if check.state == "busy":
        return warning(
            say("The API of {site} accepts no more requests for now: {reason}", site=site, reason=reason)
        )
    if check.state == "key":
        return fault(say("The API of {site} does not accept the key: {reason}", site=site, reason=reason))
    if check.state == "no key":
        return note(
            say("{site} is read without its API, because there is no key", site=site),
            say("Store a key: tabane secrets set {variable}", variable=check.site.sample.key),
        )
    return note(say("{site} is switched off: its pages are read without its API", site=site))


def _changed(check: SiteCheck) -> DoctorFinding:
    site, name = check.site.title, check.site.name
    if check.page_problem is not None:
        return fault(
            say(
                "The API of {site} answers differently than expected, and the page itself cannot be read "
                "either: {reason} {problem}",
                site=site,
                reason=check.reason,
                problem=check.page_problem,
            ),
            _update(name),
        )
    return fault(
        say(
            "The API of {site} answers differently than expected, so its pages are read without it: {reason}",
            site=site,
            reason=check.reason,
        ),
        _update(name),
    )


def _update(name: str) -> Message:
    return say(
        "Update Tabane: uv tool upgrade tabane. Until then, reader_sites_off = [{name!r}] saves the request "
        "to the API",
        name=name,
    )
