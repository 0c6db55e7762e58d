"""A real model as an agent: asked at an endpoint, or replayed from a transcript.

It gets the hub's list of tools and instructions, as a host would give them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from tabane.cli.bench.scripted_agent import ModelEnd, ToolCaller
from tabane.cli.bench.task_file import MOST_BYTES, wrong
from tabane.cli.bench.temporary_hub import MethodRefused
from tabane.cli.bench.tokens import PromptTokens
from tabane.errors import ModelError, ModelUnavailable, UpstreamError
from tabane.messages import say
from tabane.net.http_failures import HttpFailure, ResponseTooLong
from tabane.search.embedding.process_requests import AGAIN, asked_pause
from tabane.wire.json import InvalidJson, decode, encode

if TYPE_CHECKING:
    from tabane.net.fetching import HttpFetcher

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
        """Write what was sent to the model, and its answer."""
        self._write({"task": task, "sent": list(sent), "answer": answer.message, "tokens": answer.tokens})

    def close(self) -> None:
        """Close the file."""
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


_LONGEST_ANSWER = 8 << 20  # bytes
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class ChatService:
    """``url`` ends before ``/chat/completions``; ``key`` is sent as a bearer token.

    ``timeout`` is the seconds for one request, ``attempts`` the number of tries, ``pause`` the seconds after
    the first, ``longest_pause`` the longest pause, also if the server asks for more. ``most_tokens`` is the
    limit of one answer.
    """

    url: str
    model: str
    key: str | None = None
    timeout: float = 120.0
    attempts: int = 5
    pause: float = 0.5
    longest_pause: float = 60.0
    most_tokens: int = 2048

    def __repr__(self) -> str:
        return f"ChatService({self.shown!r}, {self.model!r})"  # without the key

    @property
    def shown(self) -> str:
        """Return the URL without what may be secret: user, password and query."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class ChatEndpoint:
    """Asks a service, one request after the other, while the block runs."""

    def __init__(self, service: ChatService) -> None:
        self._service = service
        self._limit = "max_tokens"
        self._fetcher: HttpFetcher | None = None
        self._runner = asyncio.Runner()

    def __enter__(self) -> ChatEndpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fetcher is not None:
            self._fetcher.close()
        self._runner.close()

    def answer(self, task: str, messages: Sequence[Message], tools: Sequence[Message]) -> ModelAnswer:
        """Return the next message of the model.

        Raises ModelUnavailable if the server does not answer after all attempts, ModelError if it refuses the
        request or its answer is not valid.
        """
        return self._runner.run(self._answer(messages, tools))

    async def _answer(self, messages: Sequence[Message], tools: Sequence[Message]) -> ModelAnswer:
        reason, wait = "", 0.0
        for attempt in range(self._service.attempts):
            if attempt:
                await asyncio.sleep(wait)
            wait = min(self._service.pause * 2**attempt, self._service.longest_pause)
            reason, asked, body = await self._try(messages, tools)
            if body is not None:
                try:
                    answer: Any = decode(body)
                    message = answer["choices"][0]["message"]
                    usage = answer.get("usage") or {}
                except (InvalidJson, LookupError, TypeError, AttributeError) as error:
                    raise self._wrong(str(error) or type(error).__name__) from None
                if not isinstance(message, dict):
                    raise self._wrong("choices[0].message is not an object")
                total = usage.get("total_tokens") if isinstance(usage, dict) else None
                return ModelAnswer(message, total if isinstance(total, int) else None)
            wait = min(max(wait, asked), self._service.longest_pause)
        raise ModelUnavailable(
            say("The model at {url} does not respond: {reason}.", url=self._service.shown, reason=reason)
        )

    async def _try(
        self, messages: Sequence[Message], tools: Sequence[Message]
    ) -> tuple[str, float, bytes | None]:
        """Return why there is no answer, the seconds that the server asks to wait, and the answer."""
        wanted = {
            "model": self._service.model,
            "messages": list(messages),
            "tools": list(tools),
            self._limit: self._service.most_tokens,
            "stream": False,
        }
        url = f"{self._service.url.rstrip('/')}/chat/completions"
        try:
            answer = await self._opened().fetch(
                url,
                limit=_LONGEST_ANSWER,
                seconds=self._service.timeout,
                form=encode(wanted),
                wanted=range(600),
                packed=True,
                redirects=True,
            )
        except ResponseTooLong:
            raise self._wrong(f"more than {_LONGEST_ANSWER} bytes") from None
        except (HttpFailure, TimeoutError, UpstreamError) as error:
            return str(error) or type(error).__name__, 0, None
        if answer.status == 200:
            return "", 0, answer.body
        if answer.status in AGAIN:
            return f"HTTP {answer.status}", asked_pause(answer.headers), None
        if answer.status == 400 and self._limit == "max_tokens" and b"max_completion_tokens" in answer.body:
            self._limit = "max_completion_tokens"  # newer models of OpenAI refuse the older name
            return f"HTTP {answer.status}", 0, None
        raise ModelError(
            say(
                "The model at {url} refused the request (HTTP {status}): {reason}",
                url=self._service.shown,
                status=answer.status,
                reason=answer.body.decode("utf-8", "replace")[:_LONGEST_REASON],
            )
        )

    def _opened(self) -> HttpFetcher:
        from tabane.net.fetching import bearer, environment_fetcher

        if self._fetcher is None:
            self._fetcher = environment_fetcher(os.environ, bearer(self._service.key))
        return self._fetcher

    def _wrong(self, reason: str) -> ModelError:
        return ModelError(
            say(
                "The model at {url} sent a response that is not valid: {reason}.",
                url=self._service.shown,
                reason=reason,
            )
        )


MOST_CALLS = 16
"""Calls of one message that are made; the others are answered with an error."""

PROMPT = (
    "You are an assistant with tools. Do what the user asks with the tools, without asking back. "
    "When it is done, say the result in the language of the user."
)


@dataclass(frozen=True, slots=True)
class ConversationLimits:
    """A conversation ends after so many answers of the model, or when it has used so many tokens."""

    turns: int = 20
    tokens: int = 100_000


@dataclass(slots=True)
class ModelConversation:
    """A conversation about a task: its messages, and what was counted. ``answer`` is the last text."""

    messages: list[dict[str, Any]]
    answer: str = ""
    ended: ModelEnd = "turns"
    turns: int = 0
    calls: int = 0
    malformed: int = 0
    tokens: float = 0
    sent: int = field(default=0)


class ModelAgent:
    """Has conversations of ``model`` with the hub. ``tools`` are the hub's list, as the model gets it."""

    def __init__(
        self,
        model: ChatModel,
        hub: ToolCaller,
        listed: Sequence[Mapping[str, Any]],
        instructions: str,
        count: PromptTokens,
        limits: ConversationLimits,
        writer: TranscriptWriter | None = None,
    ) -> None:
        self._model, self._hub, self._count, self._limits = model, hub, count, limits
        self.tools = [as_function(tool) for tool in listed]
        self._system = f"{PROMPT}\n\n{instructions}".strip()
        self._writer = writer

    def run(self, task: str, prompt: str) -> ModelConversation:
        """Return the conversation that begins with this prompt. Raises ModelError."""
        system = {"role": "system", "content": self._system}
        talk = ModelConversation([system, {"role": "user", "content": prompt}])
        while talk.turns < self._limits.turns:
            answer = self._model.answer(task, talk.messages, self.tools)
            self._note(task, talk, answer)
            calls = answer.message.get("tool_calls")
            if not isinstance(calls, list) or not calls:
                talk.ended = "answered"
                break
            if talk.tokens > self._limits.tokens:
                talk.ended = "tokens"
                break
            for number, call in enumerate(calls):
                plain = _plain_call(call, number)
                text = "This call was not made: too many calls at once."
                if number < MOST_CALLS:
                    text = self._result(talk, plain["function"])
                name = plain["function"]["name"]
                talk.messages.append(
                    {"role": "tool", "tool_call_id": plain["id"], "name": name, "content": text}
                )
        return talk

    def _note(self, task: str, talk: ModelConversation, answer: ModelAnswer) -> None:
        talk.turns += 1
        if self._writer is not None:
            self._writer.exchange(task, talk.messages[talk.sent :], answer)
        counted = answer.tokens
        if counted is None:
            counted = round(self._count([talk.messages, self.tools, answer.message]))
        talk.tokens += counted
        message = answer.message
        given = message.get("tool_calls")
        calls = [_plain_call(call, n) for n, call in enumerate(given if isinstance(given, list) else ())]
        content = message.get("content")
        talk.messages.append(
            {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
        )
        talk.sent = len(talk.messages)
        if isinstance(content, str) and content:
            talk.answer = content

    def _result(self, talk: ModelConversation, function: Mapping[str, str]) -> str:
        talk.calls += 1
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict) or not function["name"]:
            talk.malformed += 1
            return "Error: the arguments of the call are not a JSON object."
        try:
            answer = self._hub.call(function["name"], arguments)
        except MethodRefused as error:
            return f"Error: {error.text()}"
        return f"Error: {answer.text}" if answer.failed else answer.text


def as_function(tool: Mapping[str, Any]) -> Message:
    """Return a tool of MCP as a function of chat completions."""
    return {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parameters": tool.get("inputSchema", {"type": "object"}),
        },
    }


def _plain_call(call: Any, number: int) -> dict[str, Any]:
    """Return a call of the model with the members that it must have, whatever it sent."""
    given = call if isinstance(call, dict) else {}
    function = given.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": str(given.get("id") or f"call-{number}"),
        "type": "function",
        "function": {"name": str(function.get("name") or ""), "arguments": text},
    }


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
        before, now = exchange.sent, sent
        if len(before) != len(now):
            count = f"{len(before)} messages", f"{len(now)} messages"
            self.differences.append(ReplayDifference(task, turn, "messages", *count))
        for one, other in zip(before, now, strict=False):
            what = str(one.get("name") or one.get("role"))
            self._compare(task, turn, what, _lines(one.get("content")), _lines(other.get("content")))
        return exchange.answer

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
