"""The tools that the suite calls: what each does is said in the suite's scenarios, under the same name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import (
    AudioContent,
    ClientCapabilities,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    SamplingCapability,
    TextContent,
    TextResourceContents,
    Tool,
)

from tests.harness.servers.conformance.calls import (
    Call,
    Question,
    ToolFailedError,
    form,
    missing,
    prompt,
    roots,
)
from tests.harness.servers.conformance.media import picture, sound

Json = dict[str, Any]
NO_ARGUMENTS: Json = {"type": "object", "additionalProperties": False}
PAUSE = 0.05
"""Seconds between two notifications of a tool that tells how it goes."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """A tool and what it does."""

    name: str
    description: str
    run: Callable[[Call], Awaitable[list[ContentBlock]]]
    schema: Json = field(default_factory=lambda: NO_ARGUMENTS)

    @property
    def tool(self) -> Tool:
        return Tool(name=self.name, description=self.description, input_schema=self.schema)


def text(words: str) -> list[ContentBlock]:
    return [TextContent(text=words)]


def resource(uri: str, mime_type: str, words: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words))


# Content


async def simple_text(call: Call) -> list[ContentBlock]:
    return text("This is a simple text response for testing.")


async def image_content(call: Call) -> list[ContentBlock]:
    return [ImageContent(data=picture(), mime_type="image/png")]


async def audio_content(call: Call) -> list[ContentBlock]:
    return [AudioContent(data=sound(), mime_type="audio/wav")]


async def embedded_resource(call: Call) -> list[ContentBlock]:
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


async def multiple_content_types(call: Call) -> list[ContentBlock]:
    return [
        TextContent(text="Multiple content types test:"),
        ImageContent(data=picture(), mime_type="image/png"),
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


async def error_handling(call: Call) -> list[ContentBlock]:
    raise ToolFailedError("This tool intentionally returns an error for testing")


async def arguments_back(call: Call) -> list[ContentBlock]:
    return text(f"Called with {dict(call.arguments)}")


# What is told while a call runs


async def with_logging(call: Call) -> list[ContentBlock]:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log("info", step)
        await anyio.sleep(PAUSE)
    return text("Tool with logging executed")


async def with_progress(call: Call) -> list[ContentBlock]:
    for done in (0, 50, 100):
        await call.context.session.report_progress(done, 100)
        await anyio.sleep(PAUSE)
    return text("Tool with progress executed")


# Questions to the client


def said(answer: Any, *names: str) -> str:
    """What a user's answer holds under those names, or that there was none."""
    if answer.action != "accept":
        return f"<{answer.action}>"
    return ", ".join(str((answer.content or {}).get(name)) for name in names)


def outcome(answer: Any) -> str:
    return f"action={answer.action}, content={answer.content}"


async def sampling(call: Call) -> list[ContentBlock]:
    answer = (await call.ask({"answer": prompt(str(call.arguments.get("prompt", "")))}))["answer"]
    return text(f"LLM response: {getattr(answer.content, 'text', answer.content)}")


async def elicitation(call: Call) -> list[ContentBlock]:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    question = form(str(call.arguments.get("message", "")), fields, "username", "email")
    return text(f"User response: {outcome((await call.ask({'answer': question}))['answer'])}")


async def elicitation_defaults(call: Call) -> list[ContentBlock]:
    fields = {
        "name": {"type": "string", "description": "Name", "default": "John Doe"},
        "age": {"type": "integer", "description": "Age", "default": 30},
        "score": {"type": "number", "description": "Score", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "description": "Verified", "default": True},
    }
    answer = (await call.ask({"answer": form("Change what is not right", fields)}))["answer"]
    return text(f"Elicitation completed: {outcome(answer)}")


async def elicitation_enums(call: Call) -> list[ContentBlock]:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{nth} Option"} for n, nth in ((1, "First"), (2, "Second"))]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = (await call.ask({"answer": form("Choose of each", fields)}))["answer"]
    return text(f"Elicitation completed: {outcome(answer)}")


NAME = form("What is your name?", {"name": {"type": "string"}}, "name")
CONFIRM = form("Please confirm", {"ok": {"type": "boolean"}}, "ok")


async def asks_user(call: Call) -> list[ContentBlock]:
    answers = await call.ask({"user_name": NAME})
    return text(f"Hello, {said(answers['user_name'], 'name')}!")


async def asks_model(call: Call) -> list[ContentBlock]:
    answers = await call.ask({"capital_question": prompt("What is the capital of France?")})
    return text(f"The model says: {answers['capital_question'].content}")


async def asks_roots(call: Call) -> list[ContentBlock]:
    answers = await call.ask({"client_roots": roots()})
    return text("Roots: " + ", ".join(str(root.uri) for root in answers["client_roots"].roots))


async def asks_with_state(call: Call) -> list[ContentBlock]:
    await call.ask({"confirm": CONFIRM}, remember="confirming")
    if call.modern and call.request_state != "confirming":
        raise ToolFailedError("The answer came without the state that was to be sent back with it")
    return text("state-ok")


async def asks_all(call: Call) -> list[ContentBlock]:
    questions: dict[str, Question] = {
        "user_name": NAME,
        "greeting": prompt("Generate a greeting", 50),
        "client_roots": roots(),
    }
    answers = await call.ask(questions, remember="all of them")
    return text(f"{answers['greeting'].content} {said(answers['user_name'], 'name')}")


async def asks_twice(call: Call) -> list[ContentBlock]:
    """The name of the first round is in the state of the second: the client is not asked for it again."""
    name = (call.request_state or "").removeprefix("name:")
    if name == (call.request_state or ""):
        question = form("Step 1: What is your name?", {"name": {"type": "string"}}, "name")
        name = said((await call.ask({"step1": question}, remember="begun"))["step1"], "name")
    question = form("Step 2: What is your favorite color?", {"color": {"type": "string"}}, "color")
    answers = await call.ask({"step2": question}, remember=f"name:{name}")
    return text(f"{name} likes {said(answers['step2'], 'color')}")


async def asks_what_it_may(call: Call) -> list[ContentBlock]:
    every: dict[str, Question] = {"user_name": NAME, "greeting": prompt("Generate a greeting", 50)}
    answers = await call.ask_if_possible(every)
    return text(f"Answered: {', '.join(answers)}")


async def needs_sampling(call: Call) -> list[ContentBlock]:
    if not call.modern:
        # As many servers of that era do: ask, and let the client's refusal be the error of the call.
        await call.push("needed", prompt("Are you there?"))
    elif not call.declared(prompt("")):
        raise missing(ClientCapabilities(sampling=SamplingCapability()))
    return text("The client declared sampling")


async def asks_while_streaming(call: Call) -> list[ContentBlock]:
    await call.context.session.report_progress(1, 2)
    answers = await call.ask({"streamed_name": NAME})
    return text(f"Hello, {said(answers['streamed_name'], 'name')}!")


# Changes of the lists


async def change_tools(call: Call) -> list[ContentBlock]:
    call.state.more_tools = not call.state.more_tools
    await call.state.bus.publish(ToolsListChanged())
    return text("The list of tools changed")


async def change_prompts(call: Call) -> list[ContentBlock]:
    call.state.more_prompts = not call.state.more_prompts
    await call.state.bus.publish(PromptsListChanged())
    return text("The list of prompts changed")


def strings(*names: str, **more: Json) -> Json:
    """The schema of required strings; `more` are further properties."""
    properties: Json = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties | more, "required": list(names)}


FULL_SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

TOOLS = (
    Fixture("test_simple_text", "Answers with a text", simple_text),
    Fixture("test_image_content", "Answers with a picture", image_content),
    Fixture("test_audio_content", "Answers with a sound", audio_content),
    Fixture("test_embedded_resource", "Answers with a resource in it", embedded_resource),
    Fixture("test_multiple_content_types", "Answers with contents of several kinds", multiple_content_types),
    Fixture("test_error_handling", "Always fails", error_handling),
    Fixture("test_tool_with_logging", "Logs three entries while it runs", with_logging),
    Fixture("test_logging_tool", "Logs for those who want it alone", with_logging),
    Fixture("test_tool_with_progress", "Tells three times how far it is", with_progress),
    Fixture("test_sampling", "Asks the client's model", sampling, strings("prompt")),
    Fixture("test_elicitation", "Asks the user", elicitation, strings("message")),
    Fixture("test_elicitation_sep1034_defaults", "Asks the user, with defaults", elicitation_defaults),
    Fixture("test_elicitation_sep1330_enums", "Asks the user to choose", elicitation_enums),
    Fixture("test_input_required_result_elicitation", "Asks for a name", asks_user),
    Fixture("test_input_required_result_sampling", "Asks the model for a capital", asks_model),
    Fixture("test_input_required_result_list_roots", "Asks for the roots", asks_roots),
    Fixture("test_input_required_result_request_state", "Asks, and wants its state back", asks_with_state),
    Fixture("test_input_required_result_tampered_state", "Refuses a state it never sealed", asks_with_state),
    Fixture("test_input_required_result_multiple_inputs", "Asks three things at once", asks_all),
    Fixture("test_input_required_result_multi_round", "Asks twice, one after the other", asks_twice),
    Fixture("test_input_required_result_capabilities", "Asks what the client can answer", asks_what_it_may),
    Fixture("test_missing_capability", "Works for clients with sampling alone", needs_sampling),
    Fixture("test_streaming_elicitation", "Asks after it told how far it is", asks_while_streaming),
    Fixture("test_trigger_tool_change", "Adds a tool, or takes it away again", change_tools),
    Fixture("test_trigger_prompt_change", "Adds a prompt, or takes it away again", change_prompts),
    Fixture(
        "json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", arguments_back, FULL_SCHEMA
    ),
    Fixture(
        "test_custom_headers",
        "Has an argument that HTTP clients mirror into a header",
        arguments_back,
        strings("query", region={"type": "string", "x-mcp-header": "Region"}),
    ),
)
MORE_TOOLS = (Fixture("test_added_tool", "Is there every other time", simple_text),)
