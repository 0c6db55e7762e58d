"""Passages of texts that a search found, with the words that matched."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape


def marked(text: str, marks: Sequence[Sequence[int]]) -> Markup:
    """Return a text with ``<mark>`` around its spans, which do not overlap and are in order."""
    parts: list[Markup] = []
    at = 0
    for start, end in marks:
        if start < at or end > len(text):
            continue
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])
