"""Messages in the words of a page: without the commands of a shell, since a page has buttons.

A convention makes this possible: a message says a command in a sentence of its own, after the sentence that
says what happened (``… requires a login. Run: tabane servers login NAME``). Only templates are read, never
what is filled in, so no text of a server changes what is left out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast

from tabane.messages import Lang, PageLang

_COMMAND = re.compile(r"(?<![\w./-])(?:[A-Z_]+=\S+ )*tabane (?=[a-z{-])", re.ASCII)
_SENTENCE = re.compile(r"(?<=[.!?])[ ]+(?=\S)|(?<=[。！？])|\n+")
_BESIDE = re.compile(r"\s*[(（][^()（）]*[)）]")
_CLAUSE = re.compile(r", (?:then|or) |[;:；：] ?|、|,? (?:or )?(?:with|by|run):? ?$")


def for_page(lang: Lang) -> Lang:
    """Return the language with which :meth:`Message.render` leaves out commands."""
    page = PageLang(lang)
    page.reword = without_commands
    return cast("Lang", page)


@lru_cache(maxsize=2_000)
def without_commands(template: str) -> str:
    """Return a template without the sentences that have a command of Tabane.

    Of a template that is one such sentence, what comes before the command stays if it is a clause of its own.
    """
    if not _COMMAND.search(template):
        return template
    kept = [part for part in _split(template) if not _COMMAND.search(part)]
    if kept:
        return "".join(kept).strip()
    text = _BESIDE.sub(lambda found: "" if _COMMAND.search(found[0]) else found[0], template)
    found = _COMMAND.search(text)
    if found is None:
        return text.strip()
    head = text[: found.start()]
    if (cut := _CLAUSE.search(head)) is not None:
        head = head[: cut.start()]
    head = head.rstrip(" :;,：；、")
    if head.startswith("To ") or head.endswith(("には", "場合は")):  # half a sentence without its command
        return ""
    return head and head + ("。" if head[-1] > "⺀" else ".")


def _split(template: str) -> list[str]:
    """Return the sentences of a template, each with the space behind it."""
    parts, start = [], 0
    for found in _SENTENCE.finditer(template):
        parts.append(template[start : found.end()])
        start = found.end()
    return [*parts, template[start:]]
