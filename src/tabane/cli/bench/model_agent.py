"""A real model as an agent: it gets the hub's list of tools and instructions, as a host would give them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabane.cli.bench.agent_results import ModelEnd
from tabane.cli.bench.assistant import MethodRefused
from tabane.cli.bench.scripted_agent import ToolCaller
from tabane.cli.bench.tokens import PromptTokens
from tabane.cli.bench.transcripts import ChatModel, Message, ModelAnswer, TranscriptWriter

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
            self._do(talk, calls)
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
        calls = [_plain_call(call, n) for n, call in enumerate(_list(message.get("tool_calls")))]
        content = message.get("content")
        talk.messages.append(
            {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
        )
        talk.sent = len(talk.messages)
        if isinstance(content, str) and content:
            talk.answer = content

    def _do(self, talk: ModelConversation, calls: Sequence[Any]) -> None:
        for number, call in enumerate(calls):
            plain = _plain_call(call, number)
            text = "This call was not made: too many calls at once."
            if number < MOST_CALLS:
                text = self._result(talk, plain["function"])
            name = plain["function"]["name"]
            talk.messages.append({"role": "tool", "tool_call_id": plain["id"], "name": name, "content": text})

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


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
