"""The words for flow labels, which the pages of a tool, of approvals and of the flow policy show."""

from __future__ import annotations

from collections.abc import Mapping

from tabane.messages import Message, say

LABELS: Mapping[str, tuple[Message, str]] = {
    "private": (say("What it returns is your own: mail, files, notes, accounts."), "accent"),
    "untrusted": (say("Strangers can write what it returns: mail, web pages, issues."), "warn"),
    "external": (say("What it is given leaves this machine, to a place that others can read."), ""),
    "destructive": (say("It deletes, spends, sends in your name, or runs programs."), "bad"),
}
"""The meaning of each label, and the color of its badge."""

ORIGINS: Mapping[str, Message] = {
    "settings": say("servers file"),
    "annotation": say("annotation of the server"),
    "table": say("table of well-known servers"),
    "name": say("guessed from its words"),
    "built-in": say("built in"),
}
