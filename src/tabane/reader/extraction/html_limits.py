"""Limits of a page before it is parsed: its length, its tags, and the attributes of a tag.

The parser and everything after it take time in proportion to the page, with one exception: the parser
compares each attribute of a tag with all others of that tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tabane.messages import Message, say

_LARGE = 20_000_000  # characters
_MOST_TAGS = 400_000
_MOST_ATTRIBUTES = 1_000  # of a tag
_MOST_ASKED = 20  # such tags, whose place in the page is looked at

_TAG = re.compile(r"<[a-zA-Z!/?]")
# Possessive, so that each is linear. A bracket in a quoted value does not end a tag.
_ATTRIBUTE = r"""[\s/]++[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]++))?+"""
_CROWDED = re.compile(rf"<[a-zA-Z][^\s/>]*+(?:{_ATTRIBUTE}){{{_MOST_ATTRIBUTES}}}")
_REST_OF_TAG = re.compile(rf"(?:{_ATTRIBUTE}|[\s/=]++)*+")


class HtmlWithinLimits(NamedTuple):
    """HTML that can be parsed, and warnings about what was left out of it."""

    text: str
    warnings: tuple[Message, ...]


def within_limits(html: str) -> HtmlWithinLimits:
    """Return HTML without its end, if it is too long or has too many tags, and without the attributes that
    follow the 1,000th of a tag.
    """
    warnings: list[Message] = []
    text = html[:_LARGE]
    if text.count("<") > _MOST_TAGS:
        last = next(islice(_TAG.finditer(text), _MOST_TAGS, None), None)
        text = text[: last.start()] if last else text
    if len(text) < len(html):
        warnings.append(say("The page is larger than the limit, so its end is missing."))
    crowded = list(_crowded(text))
    if any(not _in_script(text, tag.end) for tag in crowded[:_MOST_ASKED]):
        warnings.append(
            say(
                "A tag of the page has too many attributes. Only its first {most} were read.",
                most=_MOST_ATTRIBUTES,
            )
        )
    return HtmlWithinLimits(_shortened(text, crowded), tuple(warnings))


class _CrowdedTag(NamedTuple):
    """Offsets of the end of the last attribute to read, and of the end of the last one."""

    end: int
    rest: int


def _crowded(text: str) -> Iterator[_CrowdedTag]:
    at = 0
    while found := _CROWDED.search(text, at):
        rest = _REST_OF_TAG.match(text, found.end())
        at = rest.end() if rest else found.end()
        yield _CrowdedTag(found.end(), at)


def _shortened(text: str, crowded: Sequence[_CrowdedTag]) -> str:
    begins = [0, *(tag.rest for tag in crowded)]
    ends = [*(tag.end for tag in crowded), len(text)]
    return "".join(text[begin:end] for begin, end in zip(begins, ends, strict=True))


def _in_script(text: str, at: int) -> bool:
    """Return whether this is in a script, whose text may look like a tag."""
    return text.rfind("<script", 0, at) > text.rfind("</script", 0, at)
