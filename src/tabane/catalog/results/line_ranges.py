"""Ranges of lines as a model writes them: ``120-180``, ``120``, ``120-``, ``-20``; pure."""

from __future__ import annotations

import re

_RANGE = re.compile(r"\s*(-?\d{1,12})?\s*(?:(-|:|\.\.|,|–|to)\s*(-?\d{1,12})?)?\s*")


class InvalidRange(ValueError):
    """A text that is no range of lines."""


def line_range(given: str, count: int) -> range:
    """Return the lines of a range, from 1 to ``count``; empty if it is beyond them.

    A negative number counts from the end: ``-20`` is the last 20 lines, ``-20--10`` is from the 20th to the
    10th from the end. Both ends belong to the range. Raises InvalidRange.
    """
    found = _RANGE.fullmatch(given)
    if found is None or (found[1] is None and found[3] is None):
        raise InvalidRange(given)
    first = _line(found[1], 1, count)
    if found[2] is None:
        last = count if found[1].startswith("-") else first
    else:
        last = _line(found[3], count, count)
    if first > last and found[1] is not None and found[3] is not None and first <= count:
        raise InvalidRange(given)
    return range(max(first, 1), min(last, count) + 1)


def _line(number: str | None, usual: int, count: int) -> int:
    if number is None:
        return usual
    return count + 1 + int(number) if number.startswith("-") else int(number)
