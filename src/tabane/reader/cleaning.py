"""Removal and counting of invisible text. Pure.

Invisible characters can carry instructions that a person does not see: tag characters, runs of variation
selectors, controls that reverse the direction of text. Those that a writing system needs are kept: joiners in
emoji and in Persian or Hindi, the single selector after a kanji in a name, direction marks next to Hebrew and
Arabic, break marks of Thai and Khmer. Comments in Markdown are invisible text too.

Sources: Unicode 17, chapter 23; UTS #39 on invisible characters; UTS #51 for sequences of emoji; UTS #37 for
variants of ideographs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urljoin

from tabane.messages import Message, say

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufff9-\ufffb"
_TURNING = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u206f"
_NOTHING_WIDE = "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u3164\ufeff\uffa0"
_VARYING = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e00ff"
_BROKEN = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"

_UNSEEN = re.compile(f"[{_CONTROL}{_TURNING}{_NOTHING_WIDE}{_VARYING}{_TAGS}{_BROKEN}\U0001d173-\U0001d17a]+")
_NEWLINES = re.compile("\r\n?|[\u2028\u2029\x85\x0b\x0c]")

# England, Scotland and Wales: the flags of tags that Unicode recommends. Other sequences hide text.
_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(c)) for c in name) + "\U000e007f" for name in ("gbeng", "gbsct", "gbwls")
)

_KINDS = {
    "control": re.compile(f"[{_CONTROL}]"),
    "direction": re.compile(f"[{_TURNING}]"),
    "tag": re.compile(f"[{_TAGS}]"),
    "variation selector": re.compile(f"[{_VARYING}]"),
    "broken": re.compile(f"[{_BROKEN}]"),
}
_OTHER = "zero-width"
_NAMES = {
    "control": say("control characters"),
    "direction": say("marks of direction"),
    "tag": say("tag characters"),
    "variation selector": say("variation selectors"),
    "broken": say("half characters"),
    _OTHER: say("zero-width characters"),
}

_JOINING = re.compile(
    "ARABIC|SYRIAC|MONGOLIAN|NKO|DEVANAGARI|BENGALI|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|KANNADA|MALAYALAM|"
    "SINHALA|MYANMAR|KHMER|TIBETAN|BALINESE"
)
_WITHOUT_BLANKS = re.compile("THAI|LAO|KHMER|MYANMAR|TIBETAN|BALINESE|JAVANESE|TAI")


class CleanedText(NamedTuple):
    """The text as a person sees it, and how many characters of which kind were taken out of it."""

    text: str
    removed: Mapping[str, int]


def has_unseen(text: str) -> bool:
    """Return whether cleaning may change the text."""
    return _UNSEEN.search(text) is not None


def cleaned(text: str) -> CleanedText:
    """Return the text without invisible characters, with line feeds as line ends."""
    text = _NEWLINES.sub("\n", text)
    if text.isascii() and text.isprintable():
        return CleanedText(text, {})
    removed: Counter[str] = Counter()

    def left(run: re.Match[str]) -> str:
        kept = _kept(
            run.group(), text[max(0, run.start() - 4) : run.start()], text[run.end() : run.end() + 1]
        )
        removed.update(_kind(character) for character in run.group())
        removed.subtract(_kind(character) for character in kept)
        return kept

    text = _UNSEEN.sub(left, text)
    return CleanedText(text, {kind: count for kind, count in removed.items() if count > 0})


def one_line(text: str | None, most: int = 300) -> str | None:
    """Return a value for front matter: cleaned, on one line, and no longer than a title may be."""
    if not text:
        return None
    line = " ".join(cleaned(text[: most * 8]).text.split())
    return (line if len(line) <= most else f"{line[: most - 1]}…") or None


def in_words(message: Message) -> Message:
    """Return a message with its fields cleaned, each on one line: they may come from a page or a server."""
    fields: dict[str, object] = {}
    for name, value in message.fields.items():
        if isinstance(value, Message):
            fields[name] = in_words(value)
        else:
            fields[name] = (
                value if isinstance(value, int | float | None) else one_line(str(value), 2_000) or ""
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
_LABEL = r"(?<!\\)\[(?P<label>(?:[^\[\]\\]|\\.|\[[^\[\]\n]{0,500}+\]){0,1000}?)\]"

# The label may hold a picture, whose own address comes first: what stands before an address is its bracket.
_ADDRESS = re.compile(
    rf"{_CODE}|(?P<before>(?<!\\)\]\([ \t]*+)(?P<address>[^\s()<>]++)(?=[ \t]*+(?:\)|\n?[\"'(]))"
    r"|(?P<definition>^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*+)(?P<defined>[^\s<>]++)",
    re.MULTILINE,
)
_LEADS_ITSELF = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|#")

_UNSHOWN = re.compile(f"{_CODE}|{_COMMENT}|{_NOTE}", re.MULTILINE)
_PICTURE = re.compile(f"{_CODE}|!{_LABEL}{_DESTINATION}", re.MULTILINE)
_LINK = re.compile(f"{_CODE}|{_LABEL}{_DESTINATION}", re.MULTILINE)


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
    """Replace links with their text, and images with their alternative text."""
    for pattern in (_PICTURE, _LINK):
        markdown = pattern.sub(
            lambda found: found["label"] if found["code"] is None else found["code"], markdown
        )
    return markdown


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


def _listed(removed: Mapping[str, int]) -> Message:
    """Return kinds and how many of each, as one message."""
    template = ", ".join(f"{{kind{at}}} {{count{at}}}" for at in range(len(removed)))
    fields: dict[str, object] = {}
    for at, (kind, count) in enumerate(sorted(removed.items())):
        fields |= {f"kind{at}": _NAMES[kind], f"count{at}": f"{count:,}"}
    return Message(template, **fields)


def _kind(character: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if pattern.match(character)), _OTHER)


def _kept(run: str, before: str, after: str) -> str:
    """Return the part of a run of invisible characters to keep, given the text before and after it."""
    if before.endswith("\U0001f3f4") and run in _FLAGS:
        return run
    kept = ""
    if _varies(run[0]) and _takes(before[-1:], run[0]):
        kept, run = run[0], run[1:]
    if len(run) == 1 and _belongs(run, before, after, bool(kept)):
        kept += run
    return kept


def _varies(character: str) -> bool:
    return re.match(f"[{_VARYING}]", character) is not None


def _takes(base: str, selector: str) -> bool:
    """Return whether a character has variants: a symbol its emoji, an ideograph the forms that names have."""
    if not base:
        return False
    if selector >= "\U000e0100":
        return _is_ideograph(base)
    if selector <= "\u180f":
        return unicodedata.name(base, "").startswith("MONGOLIAN")
    if selector >= "\ufe0e":
        return base in "#*0123456789" or unicodedata.category(base) in ("So", "Sm", "Po", "Pd", "Sk")
    return _is_ideograph(base) or unicodedata.category(base) in ("Sm", "Po", "So") or base == "0"


def _belongs(mark: str, before: str, after: str, varied: bool) -> bool:
    """Return whether the surrounding text needs this mark."""
    base = before[-1:]
    if mark == "\u200d" and _is_emoji(after) and (varied or _is_emoji(base)):
        return True
    if mark in "\u200c\u200d":
        return _writes(base, _JOINING) and (mark == "\u200d" or _writes(after, _JOINING))
    if mark in "\u200b\u2060":
        return _writes(base, _WITHOUT_BLANKS) and _writes(after, _WITHOUT_BLANKS)
    if mark in "\u200e\u200f\u061c":
        return any(unicodedata.bidirectional(near) in ("R", "AL") for near in (*before, *after))
    return mark in "\u115f\u1160" and "\u1100" <= (after or base) <= "\u11ff"


def _is_emoji(character: str) -> bool:
    if not character:
        return False
    skin = "\U0001f3fb" <= character <= "\U0001f3ff"
    return skin or unicodedata.category(character) == "So" or character in "♀♂⚕⚖✈❤➡⬛↔↕"


def _is_ideograph(character: str) -> bool:
    return unicodedata.name(character, "").startswith("CJK ")


def _writes(character: str, scripts: re.Pattern[str]) -> bool:
    """Return whether a character belongs to one of these scripts, by its Unicode name."""
    return bool(character) and scripts.match(unicodedata.name(character, "")) is not None
