"""Repositories, folders, releases, and lists of issues."""

from __future__ import annotations

import asyncio
import re
from posixpath import dirname
from urllib.parse import parse_qs, quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.text import bounded, unix
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import GitHubAddress, linked
from tabane.reader.sites.github.api import PAGE, RAW, GitHubApi, only_first
from tabane.reader.sites.github.api_objects import (
    GitHubAsset,
    GitHubEntry,
    GitHubIssue,
    GitHubRelease,
    GitHubRepository,
    GitHubSearchPage,
    GitHubTag,
)
from tabane.reader.sites.github.as_markdown import (
    at_place,
    body_of,
    element,
    github_page,
    known_facts,
    labels,
    listing,
    login,
    numbered,
    own_page,
    readme_of,
    section,
    size,
    title_of_path,
)
from tabane.reader.sites.site_markdown import blocks, one_line
from tabane.text.encodings import decode_leniently

_WHERE = re.compile(r"\b(?:repo|org|user):\S+")


async def issues(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the open ones, newest first, or those that the URL's own query asks for: at most a hundred."""
    kind = "pr" if place.rest == ("pulls",) else "issue"
    asked = parse_qs(place.query)
    wanted = _WHERE.sub("", asked.get("q", [""])[0]).strip()[:200] or f"is:{kind} is:open"
    if not re.search(r"\b(?:is|type):(?:issue|pr)\b", wanted):
        wanted = f"is:{kind} {wanted}"
    number = asked.get("page", ["1"])[0]
    number = number if re.fullmatch(r"[1-9]\d?", number) else "1"
    found = await api.get(
        "/search/issues", GitHubSearchPage, q=f"repo:{place.name} {wanted}", per_page=PAGE, page=number
    )
    what = "pulls" if kind == "pr" else "issues"
    shown, all_ = len(found.items), found.total_count
    some = say("Only {shown} of {all} {all:entry is|entries are} shown.", shown=shown, all=all_)
    return github_page(
        f"{api.endpoints.site}/{place.name}/{what}" + (f"?{place.query}" if place.query else ""),
        f"# {what.capitalize()} of {place.name}",
        f"{numbered(all_, 'result')} for `{wanted}`",
        "\n".join(_line(each) for each in found.items),
        title=f"{what.capitalize()} · {place.name}",
        warnings=(some,) if all_ > shown else (),
    )


def _line(each: GitHubIssue) -> str:
    said = numbered(each.comments, "comment")
    marks = [each.state, login(each.user), each.created_at[:10], said, labels(each)]
    return f"- [#{each.number} {one_line(each.title)}]({each.html_url}) ({' · '.join(filter(None, marks))})"


LISTED = 30
"""Releases of a list."""

_NOTES = 20_000  # characters of the notes of one release in a list


async def release(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return one release, by its tag or the latest."""
    which = f"tags/{quote(place.rest[0], safe='')}" if place.rest else "latest"
    found = await api.get(f"/repos/{place.name}/releases/{which}", GitHubRelease)
    title = f"{_name(found)} · {place.name}"
    return own_page(
        found.html_url,
        f"# {title}",
        _facts(found),
        body_of(found.body),
        _assets(found.assets),
        title=title,
        author=login(found.author),
        date=found.published_at or found.created_at,
    )


async def releases(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last releases with their notes; if there are none, the tags."""
    found = await api.get(f"/repos/{place.name}/releases", list[GitHubRelease], per_page=LISTED)
    if not found:
        return await tags(place, api)
    parts = [blocks(f"## {_name(each)}", _facts(each), body_of(each.body)[:_NOTES]) for each in found]
    last = say("Only the last {count} {count:release is|releases are} shown.", count=LISTED)
    return github_page(
        f"{api.endpoints.site}/{place.name}/releases",
        f"# Releases of {place.name}",
        *parts,
        title=f"Releases · {place.name}",
        date=found[0].published_at,
        warnings=(last,) if len(found) >= LISTED else (),
    )


async def tags(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the last tags, each with the commit that it is on."""
    found = await api.get(f"/repos/{place.name}/tags", list[GitHubTag], per_page=PAGE)
    lines = "\n".join(f"- {each.name} (`{each.commit.sha[:7]}`)" for each in found)
    return github_page(
        f"{api.endpoints.site}/{place.name}/tags",
        f"# Tags of {place.name}",
        lines or "*None.*",
        title=f"Tags · {place.name}",
        warnings=(only_first(PAGE),) if len(found) >= PAGE else (),
    )


def _name(found: GitHubRelease) -> str:
    return one_line(found.name or found.tag_name)


def _facts(found: GitHubRelease) -> str:
    kind = "draft" if found.draft else "pre-release" if found.prerelease else ""
    return known_facts(
        tag=f"`{found.tag_name}`", author=login(found.author), date=found.published_at, kind=kind
    )


def _assets(assets: list[GitHubAsset]) -> str:
    if not assets:
        return ""
    lines = (
        f"- [{each.name}]({each.browser_download_url}) ({size(each.size)}, {each.download_count:,} downloads)"
        for each in assets
    )
    return blocks("## Assets", "\n".join(lines))


FULL = 1000
"""Entries of a folder that GitHub lists at most."""

_WITH_README = frozenset({".github", "docs"})


async def repository(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the root of a repository at its default branch: two requests, and one for its README."""
    about = await api.get(f"/repos/{place.name}", GitHubRepository)
    entries, warnings = await _root(place, api)
    readme, more = await _readme(about.full_name, "HEAD", "", entries, api)
    if about.archived:
        more = (say("The repository is archived and no longer maintained."), *more)
    description = (about.description or "").strip()
    return github_page(
        about.html_url or f"{api.endpoints.site}/{about.full_name}",
        element("repository", about.full_name),
        element("description", description) if description else "",
        element("files", listing(entries)),
        readme,
        title=f"{about.full_name}: {description}" if description else about.full_name,
        author=about.owner.login if about.owner else None,
        date=about.pushed_at,
        canonical=about.html_url or None,
        warnings=(*warnings, *more),
    )


async def of_entries(
    place: GitHubAddress, ref: str, path: str, entries: list[GitHubEntry], api: GitHubApi
) -> Page:
    """Return the page of a folder that is at hand."""
    readme, warnings = await _readme(place.name, ref, path, entries, api)
    if len(entries) >= FULL:
        warnings = (
            say("GitHub lists only the first {count} {count:entry|entries} of a folder.", count=FULL),
            *warnings,
        )
    where = quote(f"{ref}/{path}".rstrip("/"), safe="/")
    return github_page(
        f"{api.endpoints.site}/{place.name}/tree/{where}",
        *at_place(place.name, ref, path or "/"),
        element("files", listing(entries)),
        readme,
        title=title_of_path(place.name, path),
        warnings=warnings,
    )


async def _root(place: GitHubAddress, api: GitHubApi) -> tuple[list[GitHubEntry], tuple[Message, ...]]:
    try:
        found = await api.contents(place.name, "", None)
    except ReadError as error:
        if error.status != 404:
            raise
        return [], (say("The repository is empty."),)
    return (found if isinstance(found, list) else [found]), ()


async def _readme(
    repository: str, ref: str, path: str, entries: list[GitHubEntry], api: GitHubApi
) -> tuple[str, tuple[Message, ...]]:
    """Return the README as a section, "" if there is none."""
    entry = readme_of(entries)
    if entry is not None:
        where = f"{api.endpoints.raw}/{repository}/{quote(ref, safe='/')}/{quote(entry.path, safe='/')}"
        accept, name = None, entry.path
    elif not path and any(each.type == "dir" and each.name in _WITH_README for each in entries):
        where, accept, name = f"{api.endpoints.api}/repos/{repository}/readme", RAW, "README.md"
    else:
        return "", ()
    try:
        fetched = await api.fetch(where, accept)
    except ReadError as error:
        if entry is None and error.status == 404:
            return "", ()
        return "", (say("The README could not be read: {reason}", reason=error.message),)
    text = unix(await asyncio.to_thread(decode_leniently, fetched.body, fetched.charset, "text/markdown"))
    text, warnings = bounded(text)
    if name.lower().endswith((".md", ".markdown", ".mdown")):
        text = await asyncio.to_thread(linked, text, repository, ref, dirname(name), api.endpoints.site)
    return (section("readme", text) if text.strip() else ""), warnings
