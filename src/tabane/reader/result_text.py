"""An answer about a page as text: for an assistant with a fence around what the page says; pure."""

from __future__ import annotations

from typing import Any

from tabane.errors import TabaneError
from tabane.messages import Lang, say
from tabane.reader.front_matter import fenced, front_matter

_FACTS = ("title", "author", "date", "site", "language", "url", "canonical", "way", "share")
_FURTHER = ("title", "url")
"""What stands in front of parts but the first: the rest was said."""


def assistant(value: dict[str, Any], lang: Lang) -> str:
    """The answer as an assistant reads it: facts, the content in its fence, how to go on."""
    parts = [head(value, lang), fenced(value["content"].rstrip("\n"), lang)]
    if value.get("next_cursor"):
        more = say(
            "About {tokens} tokens more: call read_url_content with the same url and cursor {cursor}",
            tokens=f"{value['tokens_left']:,}",
            cursor=value["next_cursor"],
        )
        parts.append(f"\n{more.render(lang)}\n")
    return "".join(parts)


def head(value: dict[str, Any], lang: Lang) -> str:
    """The front matter of a part."""
    begins = value["start"] == 0
    facts = {name: value.get(name) for name in (_FACTS if begins else _FURTHER)}
    if value["start"] or value["end"] < value["length"]:
        facts["part"] = say(
            "characters {start} to {end} of {length}",
            start=f"{value['start'] + 1:,}",
            end=f"{value['end']:,}",
            length=f"{value['length']:,}",
        ).render(lang)
    facts["remembered"] = value.get("remembered")
    return front_matter({**facts, "warnings": value["warnings"]})


def kept(value: dict[str, Any], lang: Lang) -> str:
    """Describe a page that was added to the documents, and how to read it there."""
    facts = {name: value.get(name) for name in (*_FACTS, "remembered")}
    more = say("Read it later with get_document, filepath {key}", key=value["remembered"]).render(lang)
    return f"{front_matter({**facts, 'warnings': value['warnings']})}\n{more}\n"


def blocks(value: dict[str, Any], lang: Lang) -> list[dict[str, Any]]:
    """The answer as content of MCP: the text, then the pictures that are the page."""
    pictures = (
        {"type": "image", "data": picture["data"], "mimeType": picture["media_type"]}
        for picture in value.get("pictures", ())
    )
    return [{"type": "text", "text": assistant(value, lang)}, *pictures]


def failure(error: TabaneError, lang: Lang) -> str:
    """A failure as an assistant reads it."""
    return f"Error: {error.text(lang)}"
