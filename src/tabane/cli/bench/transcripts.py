"""Transcripts of a model's conversations: recorded as lines of JSON, without keys, and read again.

The first line describes the run. Then come the exchanges: what was sent since the answer before, and the
answer. The name of the temporary folder is replaced, so that a transcript fits any run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tabane.cli.bench.data_file import MOST_BYTES, wrong
from tabane.messages import say

Message = Mapping[str, Any]

PLACE = "⟨folder⟩"
"""Stands for the temporary folder."""

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A message of the model, and the tokens of the exchange as its server counted them."""

    message: dict[str, Any]
    tokens: int | None = None


class ChatModel(Protocol):
    """A model that takes a conversation and tools, and answers. Raises ModelError."""

    def answer(self, task: str, messages: Sequence[Message], tools: Sequence[Message]) -> ModelAnswer: ...


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """The messages that were sent since the previous exchange, and the answer."""

    sent: Sequence[Message]
    answer: ModelAnswer


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript that was read. ``about`` is its first line."""

    about: Mapping[str, Any]
    exchanges: Mapping[str, Sequence[RecordedExchange]] = field(default_factory=dict)


class TranscriptWriter:
    """Writes a transcript line by line, so that what was said is kept if the run is interrupted."""

    def __init__(self, file: Path, folder: str, about: Mapping[str, Any]) -> None:
        self._folder = folder
        try:
            self._lines = file.open("w", encoding="utf-8")
        except OSError as error:
            raise wrong(file, say("{reason}", reason=error.strerror or str(error))) from None
        self._write({"format": FORMAT, **about})

    def exchange(self, task: str, sent: Sequence[Message], answer: ModelAnswer) -> None:
        self._write({"task": task, "sent": list(sent), "answer": answer.message, "tokens": answer.tokens})

    def close(self) -> None:
        self._lines.close()

    def _write(self, value: Mapping[str, Any]) -> None:
        text = json.dumps(value, ensure_ascii=False).replace(self._folder, PLACE)
        self._lines.write(text.encode("utf-8", "replace").decode() + "\n")
        self._lines.flush()


def read_transcript(file: Path, folder: str) -> Transcript:
    """Return a transcript, for a run in ``folder``. Raises DataFileError."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise wrong(file, say("it is larger than {count} {count:byte|bytes}", count=MOST_BYTES))
        lines = file.read_text(encoding="utf-8").replace(PLACE, folder).splitlines()
        entries = [json.loads(line) for line in lines if line.strip()]
        if not entries or entries[0].get("format") != FORMAT:
            raise wrong(file, say("it is not a transcript of tabane bench"))
        found: dict[str, list[RecordedExchange]] = {}
        for entry in entries[1:]:
            answer = ModelAnswer(dict(entry["answer"]), entry.get("tokens"))
            found.setdefault(entry["task"], []).append(RecordedExchange(list(entry["sent"]), answer))
    except OSError as error:
        raise wrong(file, say("{reason}", reason=error.strerror or str(error))) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wrong(file, say("it is not a transcript of tabane bench")) from None
    return Transcript(entries[0], found)
