"""Gists: their files, and what was said of them."""

from __future__ import annotations

import asyncio

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.decoding import decoded
from tabane.reader.formats.made import bounded, fence
from tabane.reader.formats.media_type_detection import code_language
from tabane.reader.formats.text import unix
from tabane.reader.page import Page
from tabane.reader.sites.github.addresses import Place
from tabane.reader.sites.github.answers import Comment, Gist, GistFile
from tabane.reader.sites.github.api import Api
from tabane.reader.sites.github.as_markdown import SITE, blocks, element, login, section, size
from tabane.reader.sites.github.notebooks import notebook

WHOLE = 10
"""Files longer than a megabyte that are fetched by themselves."""


async def gist(place: Place, api: Api) -> Page:
    """A gist at its last or one revision."""
    path = "/gists/" + "/".join(place.rest)
    found = await api.get(path, Gist)
    files, warnings = await _files(found, api)
    comments: list[Comment] = []
    if found.comments:
        comments, more = await api.pages(f"/gists/{place.rest[0]}/comments", Comment, found.comments)
        warnings = (*warnings, *more)
    if found.truncated:
        warnings = (*warnings, say("Only the first {count} files are here.", count=len(files)))
    description = " ".join((found.description or "").split())
    names = ", ".join(list(found.files)[:3])
    said = [blocks(f"### {login(each.user)} · {each.created_at}", each.body or "") for each in comments]
    return Page(
        found.html_url or f"https://gist.github.com/{found.id}",
        blocks(
            element("gist", f"{login(found.owner)}/{found.id}"),
            element("description", description) if description else "",
            *files,
            f"## Comments ({len(said)})" if said else "",
            *said,
        ),
        title=description or names or found.id,
        author=login(found.owner),
        date=found.updated_at or found.created_at or None,
        site=f"{SITE} Gist",
        canonical=found.html_url or None,
        way="github",
        share=1.0,
        warnings=warnings,
    )


async def _files(found: Gist, api: Api) -> tuple[list[str], tuple[Message, ...]]:
    parts: list[str] = []
    warnings: list[Message] = []
    fetched = 0
    for name, each in found.files.items():
        if each is None:
            continue
        text = each.content
        if (each.truncated or text is None) and each.raw_url and fetched < WHOLE:
            fetched += 1
            try:
                # Without the token: this URL is what the answer says, and may be anybody's.
                body = await api.means.fetcher.fetch(each.raw_url)
                text = await asyncio.to_thread(decoded, body.body, body.charset, "text/plain")
            except ReadError as error:
                warnings.append(
                    say("{name} could not be read whole: {reason}", name=name, reason=error.message)
                )
        elif each.truncated:
            warnings.append(say("{name} is not here as a whole.", name=name))
        shown, more = await asyncio.to_thread(_shown, name, each, text)
        parts.append(blocks(element("path", name), section("content", shown)))
        warnings += more
    return parts, tuple(warnings)


def _shown(name: str, file: GistFile, text: str | None) -> tuple[str, tuple[Message, ...]]:
    if text is None or "\0" in text[:8000]:
        return f"[binary file, {size(file.size)}]", ()
    if name.endswith(".ipynb") and (markdown := notebook(text)) is not None:
        return bounded(markdown)
    text, warnings = bounded(unix(text))
    if name.lower().endswith((".md", ".markdown")):
        return text, warnings
    return fence(text, code_language("", name, "") or (file.language or "").lower()), warnings
