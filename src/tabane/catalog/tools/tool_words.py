"""Words of a tool by field, as they are indexed; pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabane.catalog.tools.schemas import texts
from tabane.search.analysis import identifier_tokens, tokens
from tabane.search.snippets import first_sentence

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool

_MOST_TEXT = 4000
_MOST_HINT = 400
_MOST_ABOUT = 1000
_MOST_NAME = 128
_MOST_TOKENS = 800


def tool_words(tool: Tool, memo: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the tokens of each field. ``memo`` holds those of texts that a server's tools share."""
    lead = first_sentence(tool.description)
    named = list(texts(tool.schema))
    words = {
        "name": identifier_tokens(tool.shown_name[:_MOST_NAME]),
        "title": tokens(tool.title),
        "lead": tokens(lead),
        "rest": tokens(tool.description[len(lead) : _MOST_TEXT]),
        "params": [token for name, _ in named for token in identifier_tokens(name[:_MOST_NAME])],
        "hints": [token for _, text in named for token in _remembered(text[:_MOST_HINT], memo)],
        "place": [
            *identifier_tokens(" ".join((tool.server, *tool.tags, tool.category))),
            *_remembered(tool.about[:_MOST_ABOUT], memo),
        ],
        "notes": tokens("\n".join((tool.notes, *tool.examples))[:_MOST_TEXT]),
    }
    return {field: _fit(found) for field, found in words.items()}


def _remembered(text: str, memo: dict[str, list[str]]) -> list[str]:
    found = memo.get(text)
    if found is None:
        found = memo[text] = tokens(text)
    return found


def _fit(found: list[str]) -> list[str]:
    kept = found[:_MOST_TOKENS]
    text = " ".join(kept)
    return kept if text.isascii() else storable(text).split()


def storable(text: str) -> str:
    """Return the text without lone surrogates, which upstreams emit and SQLite refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def digest_of(tools: Sequence[Tool]) -> bytes:
    """Return a hash of everything that is indexed of these tools."""
    digest = hashlib.blake2b(digest_size=16)
    for tool in tools:
        for part in (
            tool.alias.encode(),
            tool.definition,
            repr((tool.tags, tool.category, tool.about, tool.notes, tool.examples)).encode(),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
