"""Words for the states of servers: the one table for the command line, the web page, health and documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tabane.messages import Message, say

Tone = Literal["ok", "accent", "warn", "bad", ""]
"""What a state means for a person: it works, is on its way, will work again, needs help, or is at rest."""


class StateWords(NamedTuple):
    """A state in words, and the color of its badge."""

    words: Message
    tone: Tone


SERVER_STATES: Mapping[str, StateWords] = {
    "ready": StateWords(say("running"), "ok"),
    "unable": StateWords(say("cannot start"), "bad"),
    "downloading": StateWords(say("downloading"), "accent"),
    "starting": StateWords(say("starting"), "accent"),
    "waiting": StateWords(say("restarting soon"), "warn"),
    "circuit open": StateWords(say("paused after failures"), "bad"),
    "login required": StateWords(say("login required"), "warn"),
    "stopped": StateWords(say("stopped"), ""),
    "disabled": StateWords(say("disabled"), ""),
    "idle": StateWords(say("starts on demand"), ""),
    "enabled": StateWords(say("enabled"), "ok"),
}
"""By the value of the state in JSON and metrics, those that need attention before those at rest."""


def state_of_row(row: Mapping[str, object]) -> str:
    """Return the state that a row of list_servers is shown in: one that cannot start is ``unable``."""
    state = str(row["state"])
    cannot = (state == "idle" and not row["healthy"]) or (state == "disabled" and not row["switched_off"])
    return "unable" if cannot else state


def words_of_state(state: str) -> StateWords:
    """Return the words for a state. A hub of another version may have others, which are shown as they are."""
    return SERVER_STATES.get(state) or StateWords(Message("{state}", state=state), "")
