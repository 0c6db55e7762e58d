"""Access to Tabane's own documentation, by page or by section."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.errors import BadArguments
from tabane.hub import manual
from tabane.messages import Lang, say
from tabane.operations import Caller, Face, Operation, Privilege


class GetDocumentation(Struct, frozen=True, forbid_unknown_fields=True):
    """``section`` is ``page.md`` for a whole page, or ``page.md:line`` for the section around a line."""

    section: (
        Annotated[str, Meta(min_length=1, max_length=200, description="page.md or page.md:line")] | None
    ) = None


def documentation_table() -> list[Operation]:
    return [
        Operation(
            "get_documentation",
            "Read Tabane's docs; without section, list pages.",
            GetDocumentation,
            get_documentation,
            frozenset({Face.MCP, Face.RPC, Face.CLI}),
            Privilege.READ,
            text=_text,
            read_only=True,
            structured=lambda found, _: found,
        )
    ]


async def get_documentation(caller: Caller, params: GetDocumentation) -> dict[str, Any]:
    """Return one section, one page, or the names of all pages. Raises BadArguments for an unknown page."""
    pages = dict(await asyncio.to_thread(manual.pages))
    if params.section is None:
        return {"pages": list(pages)}
    page, _, line = params.section.partition(":")
    if page not in pages:
        known = ", ".join(pages) or "–"
        message = say("section: there is no page {page}. Pages: {known}", page=page, known=known)
        raise BadArguments(message, "section")
    if not line:
        return {"section": page, "title": page, "text": pages[page]}
    if not line.isdecimal():
        raise BadArguments(say("section: {line} is not a line number", line=line), "section")
    found = _around(list(manual.sections(page, pages[page])), int(line))
    if found is None:
        return {"section": page, "title": page, "text": pages[page]}
    return {"section": found.key, "title": found.title, "text": found.text}


def _around(sections: list[manual.Section], line: int) -> manual.Section | None:
    """Return the section that contains a line: the first one for a line before it, None if there are none."""
    behind = (each for each in reversed(sections) if each.line <= line)
    return next(behind, sections[0] if sections else None)


def _text(found: dict[str, Any], lang: Lang) -> str:
    if "pages" in found:
        return "\n".join(found["pages"])
    return f"{found['title']}\n\n{found['text']}"
