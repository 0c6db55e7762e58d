"""What the tabulator offers: commands, and what can follow each of them; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Choices = Mapping[str, Callable[[], Sequence[str]]]
"""By command, what can follow it."""

_MARKS = "-@#"


def candidates(before: str, word: str, commands: Sequence[str], choices: Choices) -> list[str]:
    """The words that ``word`` may become, given the line before it. Case does not matter."""
    first = before.split()[:1]
    if not first:
        return [name for name in commands if word and name.startswith(word)]
    offered = choices.get(first[0])
    if offered is None:
        return []
    bare = word.lstrip(_MARKS)
    marks = word[: len(word) - len(bare)]
    return [marks + one for one in offered() if one.casefold().startswith(bare.casefold())]
