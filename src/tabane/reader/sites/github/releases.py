"""Releases: their notes, and what can be downloaded."""

from __future__ import annotations

from urllib.parse import quote

from tabane.messages import say
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import Place
from tabane.reader.sites.github.answers import Asset, Release, Tag
from tabane.reader.sites.github.api import PAGE, Api
from tabane.reader.sites.github.as_markdown import SITE, blocks, facts, login, size

LISTED = 30
"""Releases of a list."""

_NOTES = 20_000  # characters of the notes of one release in a list


async def release(place: Place, api: Api) -> Page:
    """One release, by its tag or the latest."""
    which = f"tags/{quote(place.rest[0], safe='')}" if place.rest else "latest"
    found = await api.get(f"/repos/{place.name}/releases/{which}", Release)
    return Page(
        found.html_url,
        blocks(f"# {_name(found)} · {place.name}", _facts(found), _notes(found), _assets(found.assets)),
        title=f"{_name(found)} · {place.name}",
        author=login(found.author),
        date=found.published_at or found.created_at,
        site=SITE,
        canonical=found.html_url or None,
        way="github",
        share=1.0,
    )


async def releases(place: Place, api: Api) -> Page:
    """The last releases with their notes; where there are none, the tags."""
    found = await api.get(f"/repos/{place.name}/releases", list[Release], per_page=LISTED)
    if not found:
        return await tags(place, api)
    parts = [blocks(f"## {_name(each)}", _facts(each), _notes(each)[:_NOTES]) for each in found]
    warnings = (say("The last {count} releases are here.", count=LISTED),) if len(found) >= LISTED else ()
    return Page(
        f"{api.endpoints.site}/{place.name}/releases",
        blocks(f"# Releases of {place.name}", *parts),
        title=f"Releases · {place.name}",
        date=found[0].published_at,
        site=SITE,
        way="github",
        share=1.0,
        warnings=warnings,
    )


async def tags(place: Place, api: Api) -> Page:
    """The last tags, each with the commit that it is on."""
    found = await api.get(f"/repos/{place.name}/tags", list[Tag], per_page=PAGE)
    lines = "\n".join(f"- {each.name} (`{each.commit.sha[:7]}`)" for each in found)
    return Page(
        f"{api.endpoints.site}/{place.name}/tags",
        blocks(f"# Tags of {place.name}", lines or "*None.*"),
        title=f"Tags · {place.name}",
        site=SITE,
        way="github",
        share=1.0,
        warnings=(say("Only the first {shown} entries are here.", shown=PAGE),) if len(found) >= PAGE else (),
    )


def _name(found: Release) -> str:
    return " ".join((found.name or found.tag_name).split())


def _facts(found: Release) -> str:
    kind = "draft" if found.draft else "pre-release" if found.prerelease else ""
    return facts(tag=f"`{found.tag_name}`", author=login(found.author), date=found.published_at, kind=kind)


def _notes(found: Release) -> str:
    return (found.body or "").replace("\r\n", "\n").strip()


def _assets(assets: list[Asset]) -> str:
    if not assets:
        return ""
    lines = (
        f"- [{each.name}]({each.browser_download_url}) ({size(each.size)}, {each.download_count:,} downloads)"
        for each in assets
    )
    return blocks("## Assets", "\n".join(lines))
