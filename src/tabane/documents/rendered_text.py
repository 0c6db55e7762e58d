"""Answers as text for a reader: JSON as the original printed it, or a list that is short; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tabane.documents.document_answers import LONGEST_PASSAGE, DocumentSearchAnswer, failed
from tabane.messages import Lang, say
from tabane.search.snippets import snippet


def as_json(value: Any, lang: Lang) -> str:
    """Return the answer as the original printed it."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def message(value: Mapping[str, Any], lang: Lang) -> str:
    return str(value["message"])


def searched(value: DocumentSearchAnswer, lang: Lang) -> str:
    """Format numbered documents with their texts, or with the best passage if the texts are left out."""
    if failed(value):
        return as_json(value, lang)
    lines = [say("🔍 Documents found: {count}", count=value["count"]).render(lang), ""]
    if "warning" in value:
        lines += [f"⚠ {value['warning']}", ""]
    for place, result in enumerate(value["results"], 1):
        lines += [*_entry(place, result, value.words), ""]
    return "\n".join(lines)


def _entry(place: int, result: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    best = result["passages"][0]
    above = f" › {' › '.join(best['heading'])}" if best["heading"] else ""
    text = result["document"]
    if text is None:
        text = best["text"]
        if len(text) > LONGEST_PASSAGE:
            text = snippet(text, words, LONGEST_PASSAGE).text
    lines = [f"   {line.strip()}" for line in text.splitlines() if line.strip()]
    others = len(result["passages"]) - 1
    where = f"{best['start']}–{best['end']}" + (f" +{others}" if others else "")
    return [f"{place}. [{result['score']:.3f}] {result['filepath']}{above} ({where})", *lines]


def document(value: Mapping[str, Any], lang: Lang) -> str:
    """Return a document's text, and how to go on."""
    if failed(value):
        return as_json(value, lang)
    if value["next_cursor"] is None:
        return str(value["document"])
    more = say(
        "[{start}–{end} of {length} {length:character|characters}; the rest: cursor {cursor}]",
        start=value["start"],
        end=value["end"],
        length=value["length"],
        cursor=value["next_cursor"],
    )
    return f"{value['document']}\n\n{more.render(lang)}"


def names(value: Mapping[str, Any], lang: Lang) -> str:
    """Return documents, one on a line."""
    if failed(value):
        return as_json(value, lang)
    shown = value["documents"] if "documents" in value else value["results"]
    lines = [str(value["message"]), *map(_line, shown)]
    if value.get("next_cursor"):
        lines.append(say("Next part: cursor {cursor}", cursor=value["next_cursor"]).render(lang))
    return "\n".join(lines)


def _line(each: Mapping[str, Any]) -> str:
    facts = each if "updated_at" in each else each["metadata"]
    parts = (each["filepath"], facts.get("title"), facts.get("file_type"), facts["updated_at"])
    head = "  ".join(str(part) for part in parts if part)
    text = each.get("document")
    return f"{head}\n{text}" if text else head
