"""Tools, a prompt and a resource that ask the client something, in whichever era it speaks.

:class:`Asking` is mixed into a server on the official SDK. A handshake client is asked during the call. A
client of 2026-07-28 gets ``input_required``, and calls again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import (
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestURLParams,
    GetPromptResult,
    ModelHint,
    ModelPreferences,
    PromptMessage,
    ReadResourceResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)

from tests.harness.servers.conformance.calls import Call, Question, form, prompt, roots

Json = dict[str, Any]

ROUNDS = 3
LINK = "https://accounts.example.com/authorize?state=%E8%8A%B1&scope=a+b"
FORM: Json = {
    "name": {
        "type": "string",
        "title": "名前",
        "description": "Who you are",
        "minLength": 1,
        "maxLength": 40,
    },
    "mail": {"type": "string", "format": "email", "default": "hana@example.com"},
    "site": {"type": "string", "format": "uri"},
    "born": {"type": "string", "format": "date"},
    "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
    "share": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.25},
    "news": {"type": "boolean", "default": True},
    "color": {"type": "string", "enum": ["red", "green"], "default": "green"},
    "size": {
        "type": "string",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
        "default": "l",
    },
    "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}, "default": ["tue"]},
    "tools": {
        "type": "array",
        "minItems": 1,
        "maxItems": 2,
        "items": {"anyOf": [{"const": "a", "title": "A tool"}, {"const": "b", "title": "B tool"}]},
    },
}
"""Everything that the schema of a form may have (2025-11-25 and 2026-07-28)."""
FILLED: Json = {"name": "花", "tools": ["a", "b"]}
"""The members without a default."""


def tools() -> list[Tool]:
    """Return the tools that ask."""
    described = {
        "fills": "Asks for a form with everything that forms have",
        "opens": "Asks to open a link",
        "wants": "Needs a link to be opened before it is called",
        "several": "Asks for a form, a model and folders at the same time",
        "rounds": "Asks again after each answer",
        "writes": "Asks a model with everything that such a question has",
    }
    token = {"type": "object", "properties": {"token": {"type": "string"}}}
    return [Tool(name=name, description=text, input_schema=token) for name, text in described.items()]


def link(message: str, number: str) -> ElicitRequest:
    """Return the question to open a link. Only the handshake era gives it an id."""
    return ElicitRequest(params=ElicitRequestURLParams(message=message, url=LINK, elicitation_id=number))


def text(value: Any) -> list[ContentBlock]:
    """Return a value as the only content of a result."""
    return [TextContent(text=value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]


def answered(answer: Any) -> Json:
    """Return what a client answered to an elicitation."""
    return {"action": answer.action, "content": answer.content}


async def together(call: Call, questions: Mapping[str, Question]) -> dict[str, Any]:
    """Ask several questions that are open at the same time, in both eras."""
    if call.modern:
        return await call.ask(questions)
    answers = await asyncio.gather(*(call.ask({name: one}) for name, one in questions.items()))
    return {name: answer for given in answers for name, answer in given.items()}


class Asking:
    """The handlers. ``offered`` are the tokens of calls that were told to open a link first."""

    name: str

    def __init__(self) -> None:
        self.offered: set[str] = set()

    async def do_fills(self, call: Call) -> list[ContentBlock]:
        question = form("Fill this in, 花", FORM, "name", "tools")
        return text(answered((await call.ask({"form": question}, remember="état"))["form"]))

    async def do_opens(self, call: Call) -> list[ContentBlock]:
        number = f"{self.name}-link"
        answer = (await call.ask({"link": link("Sign in", number)}, remember="opened"))["link"]
        if not call.modern and answer.action == "accept":
            await call.context.session.send_elicit_complete(number, call.context.request_id)
        return text(answered(answer))

    async def do_wants(self, call: Call) -> list[ContentBlock]:
        token = str(call.arguments.get("token"))
        if call.modern:
            answer = (await call.ask({"link": link("Sign in first", "")}, remember=token))["link"]
            return text(answer.action)
        if token not in self.offered:
            self.offered.add(token)
            asked = link("Sign in first", f"{self.name}-{token}").params
            assert isinstance(asked, ElicitRequestURLParams)
            raise UrlElicitationRequiredError([asked])
        return text("accept")

    async def do_several(self, call: Call) -> list[ContentBlock]:
        questions: dict[str, Question] = {
            "who": form("Who?", {"name": {"type": "string"}}, "name"),
            "words": prompt("Say something"),
            "where": roots(),
        }
        answers = await together(call, questions)
        words = getattr(answers["words"].content, "text", "")
        return text([answered(answers["who"]), words, [str(root.uri) for root in answers["where"].roots]])

    async def do_rounds(self, call: Call) -> list[ContentBlock]:
        known: list[Any] = json.loads(call.request_state or "[]")
        for number in range(len(known), ROUNDS):
            question = form(f"Round {number} after {known}", {"name": {"type": "string"}})
            answer = (await call.ask({f"q{number}": question}, remember=json.dumps(known)))[f"q{number}"]
            if answer.action != "accept":
                return text([*known, answer.action])
            known.append(answer.content["name"])
        return text(known)

    async def do_writes(self, call: Call) -> list[ContentBlock]:
        message = SamplingMessage(role="user", content=TextContent(text="Write\u2028this"))
        params = CreateMessageRequestParams(
            messages=[message, SamplingMessage(role="assistant", content=TextContent(text="Well,"))],
            model_preferences=ModelPreferences(hints=[ModelHint(name="small")], speed_priority=0.5),
            system_prompt="You are 花",
            temperature=0.25,
            max_tokens=7,
            stop_sequences=["END"],
            metadata={"kept": [1, None]},
        )
        answer = (await call.ask({"words": CreateMessageRequest(params=params)}))["words"]
        return text([answer.model, answer.stop_reason, answer.content.text])

    async def asked_prompt(self, call: Call) -> GetPromptResult:
        """Return the prompt, once the client said for whom it is."""
        question = form("For whom?", {"name": {"type": "string"}}, "name")
        answer = (await call.ask({"who": question}, remember="prompt"))["who"]
        content = TextContent(text=json.dumps(answered(answer), ensure_ascii=False))
        return GetPromptResult(messages=[PromptMessage(role="user", content=content)])

    async def asked_resource(self, call: Call, uri: str) -> ReadResourceResult:
        """Return the resource, once the client said for whom it is."""
        question = form("Who reads?", {"name": {"type": "string"}}, "name")
        answer = (await call.ask({"who": question}, remember="resource"))["who"]
        if answer.action != "accept":
            raise MCPError(code=-31998, message=f"It was not shown: {answer.action}")
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, text=f"for {answer.content['name']}")]
        )
