"""Removal and counting of invisible text in pages: characters, and comments in Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urljoin

from tabane.messages import Message, say
from tabane.text.invisible_characters import ZERO_WIDTH, cleaned

_NAMES = {
    "control": say("control characters"),
    "direction": say("marks of direction"),
    "tag": say("tag characters"),
    "variation selector": say("variation selectors"),
    "broken": say("half characters"),
    ZERO_WIDTH: say("zero-width characters"),
}


def one_line(text: str | None, most: int = 300) -> str | None:
    """Return a value for front matter: cleaned, on one line, and no longer than a title may be."""
    if not text:
        return None
    line = " ".join(cleaned(text[: most * 8]).text.split())
    return (line if len(line) <= most else f"{line[: most - 1]}…") or None


_FIELD = 300  # characters: commands and paths are shorter


def in_words(message: Message) -> Message:
    """Return a message with its fields cleaned, each on one line and short.

    Messages are outside the fence around a page's text, and their fields may come from the page or a server.
    """
    fields: dict[str, object] = {}
    for name, value in message.fields.items():
        if isinstance(value, Message):
            fields[name] = in_words(value)
        else:
            fields[name] = (
                value if isinstance(value, int | float | None) else one_line(str(value), _FIELD) or ""
            )
    return Message(message.template, **fields)


# These run over up to 20 MB of untrusted text: ambiguous parts are possessive (``*+``) or
# bounded, so that each is linear, and none blocks the other threads.
_FENCE = re.compile(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*+(?P<fence>`{3,}+|~{3,}+)")

# Code is not changed, fenced or inline (inline code only up to a length that people write).
_CODE = (
    r"(?P<code>^[ \t>]*+(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*+(?P<fence>`{3,}+|~{3,}+)[^\n]*+(?:\n|\Z)"
    r"(?s:.*?)(?:^[ \t>]*+(?P=fence)[`~]*+[ \t]*+$|\Z)"
    r"|(?<![`\\])(?P<ticks>`++)(?s:.{1,500}?)(?<!`)(?P=ticks)(?!`))"
)
_COMMENT = r"<!--(?s:.*?)(?:-->|\Z)"
# [//]: # (text) and similar forms: notes that no reader of the page sees.
_NOTE = r"^ {0,3}\[(?://|[Cc]omment|#|_)[^\]\n]*\]:[ \t]*(?:#|<>|<#>)[^\n]*\n?"
_TITLE = r"""(?:"[^"\n]*+"|'[^'\n]*+'|\([^()\n]*+\))?"""
_DESTINATION = rf"\([ \t]*+(?:<[^<>\n]*+>|(?:[^()\s<]|\([^()\s]*+\))*+)[ \t\n]*+{_TITLE}[ \t]*+\)"
_DESTINATION_END = re.compile(_DESTINATION)

# What decides where links are: code, escapes, brackets, and the ends of paragraphs, over which no link goes.
_BRACKETS = re.compile(
    rf"{_CODE}|(?P<escaped>\\[^\n])|(?P<begin>!?\[)|(?P<end>\])(?=(?P<link>\()?)|(?P<gap>\n[ \t>]*+\n)",
    re.MULTILINE,
)

# The label may hold a picture, whose own address comes first: what stands before an address is its bracket.
_ADDRESS = re.compile(
    rf"{_CODE}|(?P<before>(?<!\\)\]\([ \t]*+)(?P<address>[^\s()<>]++)(?=[ \t]*+(?:\)|\n?[\"'(]))"
    r"|(?P<definition>^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*+)(?P<defined>[^\s<>]++)",
    re.MULTILINE,
)
_LEADS_ITSELF = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|#")

_UNSHOWN = re.compile(f"{_CODE}|{_COMMENT}|{_NOTE}", re.MULTILINE)


def without_comments(markdown: str) -> tuple[str, int]:
    """Return the Markdown without comments, and the number of comments removed. Comments in code are kept."""
    count = 0

    def left(found: re.Match[str]) -> str:
        nonlocal count
        if found["code"] is not None:
            return found["code"]
        count += 1
        return ""

    return _UNSHOWN.sub(left, markdown), count


def without_links(markdown: str) -> str:
    """Replace links with their text, and images with their alternative text.

    One pass, in which each bracket is seen once: a search for the end of each label could take forever.
    """
    parts: list[str] = []
    open_brackets: list[int] = []  # the parts with brackets that may begin a link
    at = place = 0
    while (found := _BRACKETS.search(markdown, place)) is not None:
        place = found.end()
        if found["begin"] is not None:
            parts += (markdown[at : found.start()], found["begin"])
            open_brackets.append(len(parts) - 1)
            at = place
        elif found["gap"] is not None:
            open_brackets.clear()
            place -= 1  # the line end may begin another gap, or the line of a fence
        elif found["end"] is not None and open_brackets:
            begin = open_brackets.pop()
            end = _DESTINATION_END.match(markdown, place) if found["link"] is not None else None
            if end is not None:
                parts[begin] = ""
                parts.append(markdown[at : found.start()])
                at = place = end.end()
    return "".join([*parts, markdown[at:]])


def with_whole_links(markdown: str, base: str) -> str:
    """Return the Markdown with links and images made absolute against ``base``."""

    def whole(found: re.Match[str]) -> str:
        address = found["address"] or found["defined"]
        if found["code"] is not None or not address or _LEADS_ITSELF.match(address):
            return found.group()
        try:
            return f"{found['before'] or found['definition']}{urljoin(base, address)}"
        except ValueError:
            return found.group()

    return _ADDRESS.sub(whole, markdown)


def fence_after(line: str, fence: str | None) -> str | None:
    """Return the code fence that is open after a line, given the ``fence`` open before it; None for none."""
    found = _FENCE.match(line)
    if found is None:
        return fence
    rest = line[found.end() :]
    if fence is None:
        return None if "`" in found["fence"] and "`" in rest else found["fence"]
    return None if found["fence"].startswith(fence) and not rest.strip() else fence


def warnings_of(removed: Mapping[str, int], comments: int = 0) -> tuple[Message, ...]:
    """Return the warnings about characters that were removed."""
    warnings = []
    if removed:
        total = f"{sum(removed.values()):,}"
        kinds = _listed(removed)
        warnings.append(
            say(
                "{count} invisible {count:character was|characters were} removed ({kinds}).",
                count=total,
                kinds=kinds,
            )
        )
    if comments:
        warnings.append(
            say(
                "{count} {count:comment|comments} that the page does not show {count:was|were} removed.",
                count=comments,
            )
        )
    return tuple(warnings)


def hidden_warnings(count: int) -> tuple[Message, ...]:
    """Return the warning about parts of a page that nobody sees, if there were any."""
    if not count:
        return ()
    return (
        say(
            "{count} {count:part|parts} that readers do not see {count:was|were} left out.",
            count=count,
        ),
    )


def _listed(removed: Mapping[str, int]) -> Message:
    """Return kinds and how many of each, as one message."""
    template = ", ".join(f"{{kind{at}}} {{count{at}}}" for at in range(len(removed)))
    fields: dict[str, object] = {}
    for at, (kind, count) in enumerate(sorted(removed.items())):
        fields |= {f"kind{at}": _NAMES[kind], f"count{at}": f"{count:,}"}
    return Message(template, **fields)
