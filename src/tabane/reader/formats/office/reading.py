"""What the readers of office documents return."""

from __future__ import annotations

from dataclasses import dataclass

from lxml.html import HtmlElement

from tabane.messages import Message


@dataclass(frozen=True, slots=True)
class OfficeContent:
    """A document as HTML, or as Markdown. ``hidden``: the parts that nobody sees; ``deep``: those that are
    nested too deeply; ``cut``: it is larger than the limit, and this is its beginning. ``notes`` are further
    warnings.
    """

    content: HtmlElement | str
    hidden: int = 0
    deep: int = 0
    cut: bool = False
    notes: tuple[Message, ...] = ()
