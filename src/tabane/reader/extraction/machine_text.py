"""Text for machines (JSON-LD's articleBody), and when it may be used. Pure.

No reader of the page sees that text, so its author could address models only. It never replaces visible
text, unless the page shows the beginning of the same text and then stops, or shows nothing. Of 344 pages of
seven kinds (WCXB's dev split and others), 9 have a long text of this kind, and none needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tabane.messages import Message, say

SHORT = 250
"""Characters below which a text for machines is at most a summary."""

TIMES = 3
"""Factor by which it must be longer than the content to contain something that was not found."""

_SEEN = 0.8
"""Share of its word sequences that are visible above which it was written for readers."""

_BEGINS = 0.5
"""Share of the content's word sequences that it contains above which it is the same text."""

_NOTHING = 5  # words: "Loading …"
_LONG = 4  # words of a sequence
_MOST = 400_000  # characters that are compared

_WORDS = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f\uac00-\ud7af]|[^\\W\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f\uac00-\ud7af]+"
)
_SENTENCES = re.compile(r"(?<=[.!?。！？])(?:\s+|(?<=[。！？]))|\n+")
_ENDS_OPEN = re.compile(r"(?:…|\.\.\.|・・・)[\s\]\)」』]*$")
_GOES_ON = re.compile(
    r"\b(?:read (?:more|on|the (?:full|rest|whole))|continue reading|keep reading|full (?:article|story)"
    r"|to (?:continue|keep) reading|subscrib\w+ to|(?:sign|log) ?in to|(?:subscribers|members) only"
    r"|weiterlesen|lire la suite|seguir leyendo)\b"
    r"|続きを(?:読|見)|続きは|続きをお読み|全文を(?:読|見)|会員限定|有料会員|会員登録|残り\s*[\d,]+\s*文字|阅读全文",
    re.IGNORECASE,
)


class MachineTextChoice(NamedTuple):
    """The use of the text: ``text`` None leaves the content unchanged; ``warning`` says what was done."""

    text: str | None
    warning: Message


def used(
    body: str, visible: Sequence[str], kept: Sequence[bool], *, closed: bool
) -> MachineTextChoice | None:
    """Decide how to use the text for machines; None if it only repeats the content.

    ``visible`` are the page's blocks of text in order, ``kept`` says which of them are content. ``closed``
    is whether the page says that only a part of it is free.
    """
    content = " ".join(text for text, keep in zip(visible, kept, strict=True) if keep)
    if len(body) <= SHORT or len(body) <= TIMES * len("".join(content.split())):
        return None
    page = " ".join(visible)
    if len(_WORDS.findall(page[:_MOST])) <= _NOTHING:
        return MachineTextChoice(
            body,
            say(
                "The page shows no text. This text comes from its metadata (JSON-LD), which is "
                "written for programs."
            ),
        )
    sequences, shown = _sequences(body), _sequences(page)
    if _share(sequences, shown) >= _SEEN:
        return MachineTextChoice(
            _visible_part(body, page, shown),
            say(
                "The text was taken from the metadata of the page (JSON-LD), but only the parts "
                "that the page shows."
            ),
        )
    if _share(_sequences(content), sequences) >= _BEGINS and (closed or _is_cut(visible, kept)):
        return MachineTextChoice(
            body,
            say(
                "The page shows only a part of this text. The rest comes from its metadata "
                "(JSON-LD), which readers do not see."
            ),
        )
    return MachineTextChoice(
        None,
        say(
            "The metadata of the page (JSON-LD) contains a longer text that readers do not "
            "see. It was left out."
        ),
    )


def overlaps(text: str, other: str) -> bool:
    """Return whether ``other`` contains most of ``text`` in the same words."""
    return _share(_sequences(text), _sequences(other)) >= _BEGINS


def _sequences(text: str, length: int = _LONG) -> frozenset[tuple[str, ...]]:
    words = _WORDS.findall(text[:_MOST].lower())
    return frozenset(tuple(words[at : at + length]) for at in range(max(1, len(words) - length + 1)) if words)


def _share(part: frozenset[tuple[str, ...]], whole: frozenset[tuple[str, ...]]) -> float:
    return len(part & whole) / len(part) if part else 0.0


def _visible_part(body: str, page: str, shown: frozenset[tuple[str, ...]]) -> str:
    """Return the sentences of a text that are visible on the page, with its paragraphs."""
    short = frozenset().union(*(_sequences(page, length) for length in range(1, _LONG)))
    paragraphs = (
        " ".join(one.strip() for one in _SENTENCES.split(part) if _is_shown(one, short, shown))
        for part in body[:_MOST].split("\n")
    )
    return "\n\n".join(part for part in paragraphs if part)


def _is_shown(sentence: str, short: frozenset[tuple[str, ...]], shown: frozenset[tuple[str, ...]]) -> bool:
    """Return whether most word sequences of a sentence are shown, or all of a sentence that is too short."""
    words = _WORDS.findall(sentence.lower())
    if len(words) < _LONG:
        return tuple(words) in short
    return _share(_sequences(sentence), shown) >= _SEEN


def _is_cut(visible: Sequence[str], kept: Sequence[bool]) -> bool:
    """Return whether the content is cut off, or asks the reader to go elsewhere, to pay or to sign in."""
    last = max((number for number, keep in enumerate(kept) if keep), default=0)
    ends = (text for text, keep in zip(visible, kept, strict=True) if keep and len(text) > 20)
    after = visible[last : last + 4]
    return any(_ENDS_OPEN.search(text) for text in ends) or any(
        len(text) < 300 and _GOES_ON.search(text) for text in after
    )
