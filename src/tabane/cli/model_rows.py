"""The table of `tabane models list`."""

from __future__ import annotations

from typing import Any

from tabane.cli.output import Terminal, text
from tabane.messages import Message, say

_USES = {"documents": say("texts"), "tools": say("tool search")}

_HEADERS = (say("model"), say("state"), say("details"))


def print_models(terminal: Terminal, found: dict[str, Any]) -> None:
    """Print a row for each model, and what the figures mean."""
    terminal.table(_HEADERS, [(row["name"], _state(row), _about(row)) for row in found["results"]], whole={0})
    terminal.note("")
    terminal.note(
        say(
            "Speed is that of this machine, when the model was last used. Japanese: nDCG@10 on JaQuAD. "
            "paraphrases, tool search: share of right ones first / among five, by meaning alone; "
            "see docs/performance.md."
        )
    )
    terminal.note(say("Change the model with: tabane models use NAME"))


def _about(row: dict[str, Any]) -> str:
    """Return what is known of a model: groups of facts, those that are unknown left out."""
    groups = (_traits(row), _speed(row), _quality(row["quality"]), [row["good_for"]])
    return "; ".join(", ".join(fact for fact in group if fact) for group in groups if any(group))


def _traits(row: dict[str, Any]) -> list[str]:
    size = row["megabytes"]
    return [row["languages"] or "", "" if size is None else f"{size:,.0f} MB", row["license"] or ""]


def _speed(row: dict[str, Any]) -> list[str]:
    query, texts = row["query_ms"], row["texts_per_second"]
    return [
        "" if query is None else text(say("{ms:.1f} ms a query", ms=query)),
        "" if texts is None else text(say("{count:,.0f} {count:text|texts}/s", count=texts)),
    ]


def _quality(quality: dict[str, Any]) -> list[str]:
    jaquad, paraphrases, tools = quality["jaquad_ndcg"], quality["paraphrases"], quality["tools"]
    return [
        "" if jaquad is None else text(say("Japanese {value:.2f}", value=jaquad)),
        "" if paraphrases is None else text(say("paraphrases {both}", both=_both(paraphrases))),
        "" if tools is None else text(say("tool search {both}", both=_both(tools))),
    ]


def _both(values: list[float]) -> str:
    return "/".join(f"{value:.2f}" for value in values)


def _state(row: dict[str, Any]) -> Message:
    if row["used_for"]:
        uses = ", ".join(text(_USES[use]) for use in row["used_for"])
        return say("in use: {uses}", uses=uses) if row["here"] else say("chosen: {uses}", uses=uses)
    return say("here") if row["here"] else say("not here")
