"""A model that answers as in a transcript, and compares what it is sent with what was sent then."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabane.cli.bench.transcripts import Message, ModelAnswer, Transcript
from tabane.errors import ModelError
from tabane.messages import say

_VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"  # a moment
    r"|\w{3} \w{3} +\d+ \d{4} \d\d:\d\d:\d\d GMT[+-]\d{4}(?: \([^)]*\))?"
    r"|\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}(?: [+-]\d{4})?"
    r"|\b[0-9a-f]{7,40}\b"  # a hash of a commit
    r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
)
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A message that differs. ``what`` names it; ``before`` and ``now`` are the first lines that differ."""

    task: str
    turn: int
    what: str
    before: str
    now: str

    def as_object(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "turn": self.turn,
            "what": self.what,
            "before": self.before,
            "now": self.now,
        }


class ReplayedModel:
    """Answers from a transcript. ``differences`` are found on the way.

    Moments and hashes of commits are not compared, because they differ in each run.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._turns: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self.differences: list[ReplayDifference] = []

    def has(self, task: str) -> bool:
        """Return whether the transcript has this task."""
        return bool(self._transcript.exchanges.get(task))

    def compare_setting(self, about: Mapping[str, Any]) -> None:
        """Compare the list of tools and the instructions."""
        for key in ("tools", "instructions"):
            before, now = self._transcript.about.get(key), about.get(key)
            self._compare("", 0, key, _lines(before), _lines(now))

    def answer(self, task: str, messages: Sequence[Message], tools: Sequence[Message]) -> ModelAnswer:
        """Return the recorded answer. Raises ModelError if the transcript ends before."""
        turn = self._turns[task] = self._turns.get(task, 0) + 1
        exchanges = self._transcript.exchanges.get(task, ())
        if turn > len(exchanges):
            raise ModelError(
                say(
                    "The transcript of {task} ends after {count} {count:turn|turns}.",
                    task=task,
                    count=turn - 1,
                )
            )
        exchange = exchanges[turn - 1]
        sent = messages[self._seen.get(task, 0) :]
        self._seen[task] = len(messages) + 1  # the answer is appended to the messages
        self._compare_messages(task, turn, exchange.sent, sent)
        return exchange.answer

    def _compare_messages(
        self, task: str, turn: int, before: Sequence[Message], now: Sequence[Message]
    ) -> None:
        if len(before) != len(now):
            count = f"{len(before)} messages", f"{len(now)} messages"
            self.differences.append(ReplayDifference(task, turn, "messages", *count))
        for one, other in zip(before, now, strict=False):
            what = str(one.get("name") or one.get("role"))
            self._compare(task, turn, what, _lines(one.get("content")), _lines(other.get("content")))

    def _compare(self, task: str, turn: int, what: str, before: list[str], now: list[str]) -> None:
        if before == now:
            return
        place = next(
            (n for n, (one, other) in enumerate(zip(before, now, strict=False)) if one != other),
            min(len(before), len(now)),
        )
        shown = ("".join(lines[place : place + 1])[:_SHOWN] for lines in (before, now))
        self.differences.append(ReplayDifference(task, turn, what, *shown))


def _lines(value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return _VARYING.sub("…", text).splitlines()
