"""Markdown as safe HTML, rendered in a process of its own, and passages of it as plain text.

Texts of documents and of pages are untrusted, and some take a parser minutes. If one exceeds its limits, it
is shown as plain text, and the next one is rendered by another process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import msgspec

from tabane.errors import WorkerError
from tabane.messages import Message, say
from tabane.web.markdown_worker import RESULTS, MarkdownRequest, MarkdownResult, OutlineEntry
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

LONGEST_MARKDOWN = 1_000_000
"""Bytes of UTF-8 of a text. A longer one is shown as plain text."""

_SECONDS, _DEADLINE, _PATIENCE = 8.0, 30.0, 10.0
_MEMORY = 1_000_000_000  # bytes of address space: libraries that are mapped and never touched count too
_IDLE = 60.0
_WAITING = 16


class RenderedMarkdown(NamedTuple):
    """Safe HTML, its headings, and a note if it is plain text."""

    html: str
    outline: tuple[OutlineEntry, ...] = ()
    note: Message | None = None


class MarkdownRenderer:
    """Renders texts one at a time, in a process that is started on demand and ended after ``idle`` seconds.

    ``seconds`` is the CPU time for a text, ``deadline`` its time by the clock, ``memory`` the bytes of
    address space (Linux), ``errors`` the descriptor for stderr, None for nowhere. Use it on one event loop.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        seconds: float = _SECONDS,
        deadline: float = _DEADLINE,
        idle: float = _IDLE,
        memory: int = _MEMORY,
        errors: int | None = None,
    ) -> None:
        program = Program(module("tabane.web.markdown_worker"), environment(environ), memory, errors)
        capacity = Capacity(turns=1, each=1, waiting=_WAITING, size=_WAITING * LONGEST_MARKDOWN)
        self._pool = Pool(program, capacity, idle=idle)
        self._budget = Budget(seconds, deadline, _PATIENCE, tries=1)

    @property
    def pids(self) -> list[int]:
        """Return the ids of the running processes."""
        return self._pool.pids

    async def html(self, text: str, *, top: int = 2, start: int = 0, title: str = "") -> RenderedMarkdown:
        """Return a text as HTML; ``top`` is the level of its first heading. Raises nothing.

        ``start`` is where the text begins in the whole one, if it is a part of it. ``title`` is shown above
        already: a first heading that says the same is left out.

        If the text is too long, or rendering fails, the result is the text in ``<pre>``, and a note.
        """
        encoded = text.encode(errors="replace")
        if len(encoded) > LONGEST_MARKDOWN:
            return plain(text, say("The text is too long to be formatted, so it is shown as it is."))
        try:
            result = RESULTS.decode(
                await self._pool.ask(
                    msgspec.msgpack.encode(MarkdownRequest(encoded.decode(), top, start, title)), self._budget
                )
            )
        except (WorkerError, ValueError, msgspec.DecodeError):
            result = MarkdownResult()
        if result.html is None:
            return plain(text, say("The text could not be formatted, so it is shown as it is."))
        return RenderedMarkdown(result.html, tuple(result.outline))

    async def close(self) -> None:
        """End the process."""
        await self._pool.close()


def plain(text: str, note: Message | None = None) -> RenderedMarkdown:
    """Return a text as it is, for code and plain text."""
    return RenderedMarkdown(f'<pre class="plain" tabindex="0">{escape(text)}</pre>', (), note)


# -- passages ------------------------------------------------------------------------------------

_RULES: Sequence[tuple[str, str]] = (
    (r"<!--.*?(?:-->|\Z)", ""),
    (r"^[ \t]*(?:```|~~~)[^\n]*(?:\n|\Z)", ""),
    (
        r"^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(?:\|[ \t]*:?-{3,}:?[ \t]*)*\|?[ \t]*(?:\n|\Z)",
        "",
    ),
    (r"^[ \t]*#{1,6}[ \t]+", ""),
    (r"^[ \t]*(?:>[ \t]?)+", ""),
    (r"^[ \t]*[-*+][ \t]+(?:\[[ xX]\][ \t]+)?", "• "),
    (r"^[ \t]*(?:\|[ \t]*)+|(?:[ \t]*\|)+[ \t]*$", ""),
    (r"(?:[ \t]+\|)+[ \t]+", " · "),
    (r"!?\[(?=[^\]\n]*\]\()", ""),
    (r"\]\([^)\s]*(?:\)|\Z)", ""),
    (r"</?[a-zA-Z][^<>\n]{0,200}>", ""),
    (r"`+", ""),
    (r"\*\*|~~", ""),
    (r"(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])", ""),
)
"""Marks of Markdown, and what is shown for them. The first that fits at a place counts."""

_MARK = re.compile("|".join(f"({pattern})" for pattern, _ in _RULES), re.MULTILINE | re.DOTALL)
_SHOWN = tuple(shown for _, shown in _RULES)


def plain_passage(text: str, marks: Sequence[Sequence[int]] = ()) -> tuple[str, list[tuple[int, int]]]:
    """Return a passage without the marks of Markdown, and the spans of found words in it.

    A passage is a part of a text, so it may begin or end inside of a link, a table or a fence.
    """
    pieces: list[str] = []
    places: list[int] = []  # of each character of the text
    size = at = 0
    for found in _MARK.finditer(text):
        if found.start() == found.end():
            continue
        places += range(size, size + found.start() - at)
        size += found.start() - at
        shown = _SHOWN[(found.lastindex or 1) - 1]
        pieces += (text[at : found.start()], shown)
        places += [size] * (found.end() - found.start())
        size += len(shown)
        at = found.end()
    places += range(size, size + len(text) - at + 1)
    pieces.append(text[at:])
    moved = [(places[start], places[end]) for start, end in marks]
    return "".join(pieces), [(start, end) for start, end in moved if start < end]
