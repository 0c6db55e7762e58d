"""The prompts, resources, templates and completions that the suite asks for, under its names."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CompleteRequestParams,
    Completion,
    ContentBlock,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from tests.harness.servers.conformance.calls import Call, form
from tests.harness.servers.conformance.media import picture
from tests.harness.servers.conformance.tools import resource, said

Contents = TextResourceContents | BlobResourceContents


@dataclass(frozen=True, slots=True)
class PromptFixture:
    """A prompt and what it becomes."""

    prompt: Prompt
    get: Callable[[Call], Awaitable[list[ContentBlock]]]


async def simple(call: Call) -> list[ContentBlock]:
    return [TextContent(text="This is a simple prompt for testing.")]


async def with_arguments(call: Call) -> list[ContentBlock]:
    first, second = (call.arguments.get(name, "") for name in ("arg1", "arg2"))
    return [TextContent(text=f"Prompt with arguments: arg1='{first}', arg2='{second}'")]


async def with_resource(call: Call) -> list[ContentBlock]:
    uri = str(call.arguments.get("resourceUri", "test://example-resource"))
    return [
        resource(uri, "text/plain", "Embedded resource content for testing."),
        TextContent(text="Please process the embedded resource above."),
    ]


async def with_image(call: Call) -> list[ContentBlock]:
    return [
        ImageContent(data=picture(), mime_type="image/png"),
        TextContent(text="Please analyze the image above."),
    ]


async def asks_context(call: Call) -> list[ContentBlock]:
    question = form("What context should the prompt use?", {"context": {"type": "string"}}, "context")
    answers = await call.ask({"user_context": question})
    return [TextContent(text=f"Work in this context: {said(answers['user_context'], 'context')}")]


def described(name: str, description: str, *arguments: str) -> Prompt:
    wanted = [
        PromptArgument(name=argument, description=f"The {argument}", required=True) for argument in arguments
    ]
    return Prompt(name=name, description=description, arguments=wanted or None)


PROMPTS = (
    PromptFixture(described("test_simple_prompt", "A prompt without arguments"), simple),
    PromptFixture(
        described("test_prompt_with_arguments", "A prompt with two arguments", "arg1", "arg2"), with_arguments
    ),
    PromptFixture(
        described("test_prompt_with_embedded_resource", "A prompt with a resource in it", "resourceUri"),
        with_resource,
    ),
    PromptFixture(described("test_prompt_with_image", "A prompt with a picture in it"), with_image),
    PromptFixture(described("test_input_required_result_prompt", "A prompt that asks first"), asks_context),
)
MORE_PROMPTS = (PromptFixture(described("test_added_prompt", "Is there every other time"), simple),)


async def messages(fixture: PromptFixture, call: Call) -> GetPromptResult:
    """The prompt, filled in."""
    content = await fixture.get(call)
    return GetPromptResult(messages=[PromptMessage(role="user", content=block) for block in content])


RESOURCES = (
    Resource(
        uri="test://static-text", name="static-text", description="A text that stays", mime_type="text/plain"
    ),
    Resource(
        uri="test://static-binary", name="static-binary", description="A picture", mime_type="image/png"
    ),
    Resource(
        uri="test://watched-resource",
        name="watched-resource",
        description="A text that may be subscribed to",
        mime_type="text/plain",
    ),
)
TEMPLATES = (
    ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data of an id",
        mime_type="application/json",
    ),
)
_TEMPLATE = re.compile(r"test://template/([^/]+)/data")


def read(uri: str) -> Contents:
    """What stands at that address. An unknown one is an error that names it."""
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        return TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    if uri == "test://static-binary":
        return BlobResourceContents(uri=uri, mime_type="image/png", blob=picture())
    if uri == "test://watched-resource":
        return TextResourceContents(uri=uri, mime_type="text/plain", text="Watched resource content")
    if found := _TEMPLATE.fullmatch(uri):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    raise MCPError(code=INVALID_PARAMS, message=f"Resource not found: {uri}", data={"uri": uri})


WORDS = ("paris", "park", "party", "test", "testament", "tester")


def complete(params: CompleteRequestParams) -> Completion:
    """Words that begin like what was typed, for the arguments of prompts; nothing for templates."""
    if not isinstance(params.ref, PromptReference):
        return Completion(values=[], total=0, has_more=False)
    values = [word for word in WORDS if word.startswith(params.argument.value)]
    return Completion(values=values, total=len(values), has_more=False)
