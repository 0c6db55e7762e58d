"""Repositories and their folders: what lies there, and the README."""

from __future__ import annotations

import asyncio
from posixpath import dirname
from urllib.parse import quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.decoding import decoded
from tabane.reader.formats.made import bounded
from tabane.reader.formats.text import unix
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import Place
from tabane.reader.sites.github.answers import Entry, Repository
from tabane.reader.sites.github.api import RAW, Api
from tabane.reader.sites.github.as_markdown import (
    SITE,
    blocks,
    element,
    listing,
    readme_of,
    section,
    title_of_path,
)
from tabane.reader.sites.github.linking import linked

FULL = 1000
"""Entries of a folder that GitHub lists at most."""

_WITH_README = frozenset({".github", "docs"})


async def repository(place: Place, api: Api) -> Page:
    """The root of a repository at its default branch: two requests, and one for its README."""
    about = await api.get(f"/repos/{place.name}", Repository)
    entries, warnings = await _root(place, api)
    readme, more = await _readme(about.full_name, "HEAD", "", entries, api)
    if about.archived:
        more = (say("The repository is archived: nobody works on it any more."), *more)
    description = (about.description or "").strip()
    return Page(
        about.html_url or f"{api.endpoints.site}/{about.full_name}",
        blocks(
            element("repository", about.full_name),
            element("description", description) if description else "",
            element("files", listing(entries)),
            readme,
        ),
        title=f"{about.full_name}: {description}" if description else about.full_name,
        author=about.owner.login if about.owner else None,
        date=about.pushed_at,
        site=SITE,
        canonical=about.html_url or None,
        way="github",
        share=1.0,
        warnings=(*warnings, *more),
    )


async def of_entries(place: Place, ref: str, path: str, entries: list[Entry], api: Api) -> Page:
    """The page of a folder that is at hand."""
    readme, warnings = await _readme(place.name, ref, path, entries, api)
    if len(entries) >= FULL:
        warnings = (
            say("GitHub lists the first {count} entries of a folder, and no more.", count=FULL),
            *warnings,
        )
    where = quote(f"{ref}/{path}".rstrip("/"), safe="/")
    return Page(
        f"{api.endpoints.site}/{place.name}/tree/{where}",
        blocks(
            element("repository", place.name),
            element("ref", ref),
            element("path", path or "/"),
            element("files", listing(entries)),
            readme,
        ),
        title=title_of_path(place.name, path),
        site=SITE,
        way="github",
        share=1.0,
        warnings=warnings,
    )


async def _root(place: Place, api: Api) -> tuple[list[Entry], tuple[Message, ...]]:
    try:
        found = await api.contents(place.name, "", None)
    except ReadError as error:
        if error.status != 404:
            raise
        return [], (say("The repository is empty."),)
    return (found if isinstance(found, list) else [found]), ()


async def _readme(
    repository: str, ref: str, path: str, entries: list[Entry], api: Api
) -> tuple[str, tuple[Message, ...]]:
    """The README as a section, "" where there is none."""
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
    text = unix(await asyncio.to_thread(decoded, fetched.body, fetched.charset, "text/markdown"))
    text, warnings = bounded(text)
    if name.lower().endswith((".md", ".markdown", ".mdown")):
        text = await asyncio.to_thread(linked, text, repository, ref, dirname(name), api.endpoints.site)
    return (section("readme", text) if text.strip() else ""), warnings
