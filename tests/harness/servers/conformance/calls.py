"""What a fixture of the conforming server is called with, and how it asks the client something."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponseRequestParams,
    ListRootsRequest,
    ListRootsResult,
    LoggingLevel,
    MissingRequiredClientCapabilityErrorData,
    RootsCapability,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Question = CreateMessageRequest | ElicitRequest | ListRootsRequest

SEVERITIES: tuple[LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)


class InputNeededError(Exception):
    """The call cannot go on before the client has answered; `result` is what it is told (2026-07-28)."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


class ToolFailedError(Exception):
    """The tool failed, and its text says why: a result with `isError`, not a protocol error."""


@dataclass(slots=True)
class State:
    """What clients may change about the server while it runs."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    level: LoggingLevel = "debug"
    """The least severe log entry that handshake clients want; they share it, the suite being but one."""
    more_tools: bool = False
    more_prompts: bool = False
    asked: dict[str, set[str]] = field(default_factory=dict)
    """The ids of the questions of each session, none of which may be used again in it."""

    def question_id(self, session: str, name: str) -> str:
        """The id of a question in the handshake era: its name, when it is asked for the first time."""
        used = self.asked.setdefault(session, set())
        ids = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
        chosen = next(each for each in ids if each not in used)
        used.add(chosen)
        return chosen


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool or prompt, in whichever era its client speaks."""

    context: ServerRequestContext[Any, Any]
    arguments: Mapping[str, Any]
    input: InputResponseRequestParams
    state: State

    @property
    def modern(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def request_state(self) -> str | None:
        """What an earlier round of this call asked to be remembered; its seal has been checked."""
        return self.input.request_state

    def declared(self, question: Question) -> bool:
        """Whether the client said that it can answer this kind of question."""
        return self.context.session.check_client_capability(needed(question))

    async def log(self, level: LoggingLevel, text: str) -> None:
        """A log entry about this call, where its client wants such."""
        if self.modern or SEVERITIES.index(level) >= SEVERITIES.index(self.state.level):
            await self.context.session.send_log_message(
                level, text, logger="conformance", related_request_id=self.context.request_id
            )

    async def ask(self, questions: Mapping[str, Question], remember: str | None = None) -> dict[str, Any]:
        """The client's answers by the questions' names.

        A handshake client is asked while the call waits. A 2026-07-28 client is told what is wanted
        (InputNeededError) and calls again with the answers and with `remember`.
        """
        for question in questions.values():
            self._require(question)
        if self.modern:
            return self._given(questions, remember)
        answers = await asyncio.gather(*itertools.starmap(self.push, questions.items()))
        return dict(zip(questions, answers, strict=True))

    async def ask_if_possible(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """The client's answers to those questions that it can be asked.

        A handshake client behind another program may refuse what it has declared: the call goes on without.
        """
        declared = {name: question for name, question in questions.items() if self.declared(question)}
        if self.modern:
            return await self.ask(declared)
        pushed = itertools.starmap(self.push, declared.items())
        answers = dict(zip(declared, await asyncio.gather(*pushed, return_exceptions=True), strict=True))
        if unexpected := [each for each in answers.values() if _is_failure(each)]:
            raise unexpected[0]
        return {name: answer for name, answer in answers.items() if not isinstance(answer, MCPError)}

    def _require(self, question: Question) -> None:
        if self.declared(question):
            return
        if self.modern:
            raise missing(needed(question))
        raise ToolFailedError(f"The client cannot answer {question.method}")

    def _given(self, questions: Mapping[str, Question], remember: str | None) -> dict[str, Any]:
        answers = self.input.input_responses or {}
        given = {name: answers.get(name) for name in questions}
        if all(isinstance(given[name], answer_type(question)) for name, question in questions.items()):
            return given
        raise InputNeededError(InputRequiredResult(input_requests=dict(questions), request_state=remember))

    async def push(self, name: str, question: Question) -> Any:
        """The answer of a handshake client, whatever it declared. Raises MCPError if it refuses."""
        data = question.model_dump(by_alias=True, mode="json", exclude_none=True)
        # The session's public send_request has no way to choose the id, which its channel has.
        channel = self.context.session._request_outbound
        given = self.state.question_id(self._session, name)
        answer = await channel.send_raw_request(data["method"], data.get("params"), {"request_id": given})
        return answer_type(question).model_validate(answer, by_name=False)

    @property
    def _session(self) -> str:
        request = self.context.request
        return str(request.headers.get("mcp-session-id")) if request is not None else "the only one"


def _is_failure(answer: Any) -> bool:
    return isinstance(answer, BaseException) and not isinstance(answer, MCPError)


def form(message: str, properties: Mapping[str, Any], *required: str) -> ElicitRequest:
    """A question to the user, as a form of those properties."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def prompt(text: str, max_tokens: int = 100) -> CreateMessageRequest:
    """A question to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def roots() -> ListRootsRequest:
    """A question about the folders the client works in."""
    return ListRootsRequest()


def needed(question: Question) -> ClientCapabilities:
    """What a client must have declared to be asked this."""
    if isinstance(question, ElicitRequest):
        return ClientCapabilities(elicitation=ElicitationCapability())
    if isinstance(question, ListRootsRequest):
        return ClientCapabilities(roots=RootsCapability())
    return ClientCapabilities(sampling=SamplingCapability())


def missing(capabilities: ClientCapabilities) -> MCPError:
    """The error for a client that did not declare those capabilities."""
    data = MissingRequiredClientCapabilityErrorData(required_capabilities=capabilities)
    return MCPError(
        code=MISSING_REQUIRED_CLIENT_CAPABILITY,
        message="A client capability that this call needs was not declared",
        data=data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def answer_type(question: Question) -> type[ElicitResult] | type[ListRootsResult] | type[CreateMessageResult]:
    """The shape of the answer to a question."""
    if isinstance(question, ElicitRequest):
        return ElicitResult
    if isinstance(question, ListRootsRequest):
        return ListRootsResult
    return CreateMessageResult
