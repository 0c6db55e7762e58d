"""Signals: what a text says that an attack on a model would say, each with its weight. One is never proof."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Sign(Enum):
    """What a part of a text does. The evidence of a passage is the sum over different signs."""

    OVERRIDE = "override"
    """It cancels the instructions that the model has, or gives it another role."""
    MARKUP = "markup"
    """It imitates the marks of a prompt."""
    SECRECY = "secrecy"
    """Something is to be hidden from the user."""
    ORDER = "order"
    """It orders the model to do something besides calling the tool."""
    PRESSURE = "pressure"
    """It threatens, hurries, or claims an authority."""
    ADDRESS = "address"
    """It speaks to the model."""
    SECRETS = "secrets"
    """It wants credentials, keys or other secrets."""
    CONVERSATION = "conversation"
    """It wants what the user and the model said, or the instructions of the model."""
    STUFFING = "stuffing"
    """Something is to be put into an argument."""
    CHANNEL = "channel"
    """Something is to be sent out."""
    EXCLUSIVE = "exclusive"
    """The tool is to be used always, first, or in place of others."""
    OTHER_TOOL = "other tool"
    """It speaks badly of another tool, or says how to use one."""
    REDIRECT = "redirect"
    """Calls of another tool are to go to somebody else."""
    UNCONFIRMED = "unconfirmed"
    """The user is not to be asked."""
    COMMAND = "command"
    """It has a command that harms."""
    PERSISTENCE = "persistence"
    """It wants to change files that steer assistants or shells."""
    OUTPUT = "output"
    """It says what the user is to be told."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and takes a fifth of a scan


@dataclass(frozen=True)
class Signal:
    """An expression that finds a sign.

    It is tried on texts that have a word of each set of ``needs``, and one of ``anchors`` if there are any.
    It is compiled when it is first tried: all of them together take as long as half the start of a hub.
    """

    sign: Sign
    weight: int
    pattern: str
    needs: tuple[frozenset[str], ...] = ()
    anchors: tuple[str, ...] = ()

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return _compiled(self.pattern)

    def may_be_in(self, text: str, words: frozenset[str]) -> bool:
        """Return whether the expression may find something: trying it costs more than this."""
        if any(map(words.isdisjoint, self.needs)):
            return False
        return not self.anchors or any(map(text.__contains__, self.anchors))


class Hit(NamedTuple):
    """A sign that was found in a text."""

    start: int
    end: int
    sign: Sign
    weight: int


MAIL = r"(?<![a-z0-9_.+-])[a-z0-9_.+-]{1,64}+@[a-z0-9-]{1,64}+\."
"""The beginning of a mail address."""

_BOUNDED = (
    (r"\w*", r"\w{0,40}+"), (r"\w+", r"\w{1,40}+"),
    (r"\S*", r"\S{0,80}"), (r"\S+", r"\S{1,80}"),
)  # fmt: skip
"""Repeats in patterns, and how they are compiled: without a limit, a long text takes quadratic time."""


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. Words have up to 40 letters in it, and are never given back in part."""
    for repeat, bounded in _BOUNDED:
        pattern = pattern.replace(repeat, bounded)
    return re.compile(pattern)


def signal(sign: Sign, weight: int, pattern: str, *needs: str, anchors: tuple[str, ...] = ()) -> Signal:
    """Return a signal. Each of ``needs`` is a set of words with blanks between them."""
    words = tuple(frozenset(needed.split()) for needed in needs)
    return Signal(sign, weight, pattern, words, anchors)


def any_of(words: Iterable[str] | str) -> str:
    """Return an expression for any of these words; blanks separate them in a string."""
    return "(?:" + "|".join(words.split() if isinstance(words, str) else words) + ")"


def anchored(sign: Sign, weight: int, pattern: str, *anchors: str) -> Signal:
    """Return a signal that is tried on texts that contain one of ``anchors``."""
    return Signal(sign, weight, pattern, (), anchors)
