"""The words for flow labels, which the pages of a tool, of approvals and of the flow policy show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tabane.messages import Message, say


class FlowLabel(NamedTuple):
    """A label in words: what a tool with it does, what that means, and the color of its badge.

    ``read`` says it of something that was read.
    """

    words: Message
    meaning: Message
    color: str
    read: Message


LABELS: Mapping[str, FlowLabel] = {
    "private": FlowLabel(
        say("reads your own data"),
        say("What it returns is your own: mail, files, notes, accounts."),
        "accent",
        say("your own data"),
    ),
    "untrusted": FlowLabel(
        say("reads what strangers write"),
        say("Strangers can write what it returns: mail, web pages, issues."),
        "warn",
        say("strangers can write it"),
    ),
    "external": FlowLabel(
        say("leaves this machine"),
        say("What it is given leaves this machine, to a place that others can read."),
        "warn",
        say("sent away"),
    ),
    "destructive": FlowLabel(
        say("cannot be undone"),
        say("It deletes, spends, sends in your name, or runs programs."),
        "bad",
        say("cannot be undone"),
    ),
}
"""Labels by name, in the order in which they are shown."""

ORIGINS: Mapping[str, Message] = {
    "settings": say("servers file"),
    "annotation": say("annotation of the server"),
    "table": say("table of well-known servers"),
    "name": say("guessed from its words"),
    "built-in": say("built in"),
}
