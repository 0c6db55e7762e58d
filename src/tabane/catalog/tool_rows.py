"""Tools as rows for people and programs: with their size in tokens, and why they match a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tabane.catalog.result_parts import BYTES_OF_TOKEN
from tabane.catalog.tools.catalog import pinned
from tabane.catalog.tools.disclosure import signature, tool_page
from tabane.catalog.tools.match_terms import MatchedTerm, spelled
from tabane.search.snippets import first_sentence
from tabane.text.cutting import shortened

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool
    from tabane.servers.server import Server


_MOST_PURPOSE = 200


def tokens(text: str | bytes) -> int:
    """Return the estimated number of tokens of a text, rounded up."""
    size = len(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    return -(-size // BYTES_OF_TOKEN)


def tool_row(tool: Tool, server: Server | None) -> dict[str, Any]:
    """Describe a tool in a line. ``server`` is the one that it belongs to; None for the hub's own tools."""
    return {
        "name": tool.alias,
        "server": tool.server,
        "signature": signature(tool),
        "purpose": shortened(first_sentence(tool.description) or tool.title, _MOST_PURPOSE),
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "pinned": server is not None and pinned(server, tool),
        "tokens": tokens(tool.definition),
    } | ({"ui": True} if tool.app.page else {})


def tool_detail(tool: Tool, server: Server | None) -> dict[str, Any]:
    """Return all that is known of a tool beside its definition.

    ``page`` is what an assistant reads of it. ``sizes`` are the tokens of line, page and definition.
    """
    page = tool_page(tool)
    return tool_row(tool, server) | {
        "original": tool.name,
        "title": tool.title,
        "description": tool.description,
        "idempotent": tool.idempotent,
        "tags": list(tool.tags),
        "category": tool.category,
        "notes": tool.notes,
        "examples": list(tool.examples),
        "page": page,
        "sizes": _sizes(tool, signature(tool, typed=False), page),
    }


def explained_row(tool: Tool, query: str, terms: Sequence[MatchedTerm]) -> dict[str, Any]:
    """Return why a tool matches, the line that an assistant gets, and its sizes."""
    line = signature(tool, typed=False)
    return {
        "line": line,
        "title": tool.title,
        "sizes": _sizes(tool, line, tool_page(tool)),
        "terms": [_term(tool, query, term) for term in terms],
    }


def _told(tool: Tool) -> tuple[str, ...]:
    return (tool.shown_name, tool.title, tool.description, tool.notes, *tool.examples)


def _sizes(tool: Tool, line: str, page: str) -> dict[str, int]:
    """Return the tokens of a tool in the result of a search, described, and as its whole definition."""
    return {"line": tokens(line), "page": tokens(page), "definition": tokens(tool.definition)}


def _term(tool: Tool, query: str, term: MatchedTerm) -> dict[str, Any]:
    return {
        "kind": term.kind,
        "score": round(term.score, 4),
        "asked": spelled(term.asked, query),
        "matched": spelled(term.matched, " ".join(_told(tool))),
        "fields": list(term.fields),
    }
