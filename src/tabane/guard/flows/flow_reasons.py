"""The reasons of the flow policy, for the person who is asked and for the model whose call waits."""

from __future__ import annotations

from tabane.guard.flows.rules import FlowFinding
from tabane.messages import Message, say
from tabane.messages.quoting import command_word
from tabane.operations import LOCAL

MOST_NAMED = 3
"""Sources that a reason names."""


def flow_reason(finding: FlowFinding, tool: str, holder: str, *, fetches: bool = False) -> Message:
    """Return why a call is held back: what was read, what the call would do, and how it is allowed.

    ``fetches``: it reads the page at an address, and gives nothing else away. Pairs are allowed for one
    ``holder``. The command names it unless it is the user of this machine.
    """
    whose = "" if holder == LOCAL.holder else f" --holder {command_word(holder)}"
    read = ", ".join(name for _, name in finding.sources[:MOST_NAMED])
    pair = finding.pairs[0]
    if finding.rule == "private-leaves" and fetches:
        return say(
            "The address that {tool} would read may carry data out of this machine: it is long, looks "
            "encoded, holds something private, or is one of too many. Before it, this client read content "
            "that strangers can write ({read}) and private data ({private}). A person who wants such calls "
            "from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool,
            read=read,
            private=finding.private[1],
            pair=pair,
            whose=whose,
        )
    if finding.rule == "private-leaves":
        return say(
            "{tool} sends data out of this machine. Before it, this client read content that strangers can "
            "write ({read}) and private data ({private}), so that content may be what asks for it. A person "
            "who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool,
            read=read,
            private=finding.private[1],
            pair=pair,
            whose=whose,
        )
    if finding.rule == "untrusted-acts":
        return say(
            "{tool} does something that cannot be undone. Before it, this client read content that strangers "
            "can write ({read}), so that content may be what asks for it. A person who wants such calls from "
            "now on runs: tabane policy allow {pair!c}{whose}.",
            tool=tool,
            read=read,
            pair=pair,
            whose=whose,
        )
    return say(
        "{tool} sends data out of this machine. Before it, this client read content that strangers can write "
        "({read}). A person who wants such calls from now on runs: tabane policy allow {pair!c}{whose}.",
        tool=tool,
        read=read,
        pair=pair,
        whose=whose,
    )
