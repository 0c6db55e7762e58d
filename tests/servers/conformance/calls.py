"""What a fixture of the conforming server is called with, and how it asks the client something."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
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
        answers = await asyncio.gather(*map(self._push, questions.values()))
        return dict(zip(questions, answers, strict=True))

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
        raise InputNeededError(
            InputRequiredResult(input_requests=dict(questions), request_state=remember),
        )

    async def _push(self, question: Question) -> Any:
        return await self.context.session.send_request(
            question,
            answer_type(question),
            metadata=ServerMessageMetadata(related_request_id=self.context.request_id),
        )


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


def answer_type(
    question: Question,
) -> type[ElicitResult] | type[ListRootsResult] | type[CreateMessageResult]:
    """The shape of the answer to a question."""
    if isinstance(question, ElicitRequest):
        return ElicitResult
    if isinstance(question, ListRootsRequest):
        return ListRootsResult
    return CreateMessageResult
