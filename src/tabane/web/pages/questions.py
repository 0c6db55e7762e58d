"""Questions of servers that wait for an answer: forms to fill, links to open, and what a model was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.page import Fragment, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.tool_results import printable
from tabane.web.question_forms import answer_of, question_form, shown_link

MOST_LISTED = 100
"""Questions that the list shows."""

LONGEST = 20_000
"""Characters of a message that the page of its question shows."""

LONGEST_LISTED = 300

MOST_MESSAGES = 20
"""Messages to a model that are shown."""

KINDS: Mapping[str, Message] = {
    "form": say("asks for an answer"),
    "url": say("asks you to open a link"),
    "sampling": say("asks for a text of the client's model"),
    "roots": say("asks for the folders of the client"),
}

CHANGED = ("questions",)
"""The event after an answer."""


async def question_list(request: PageRequest) -> WholePage:
    """Show the questions that wait, the oldest first."""
    rows = await _waiting(request)
    shown = [_shown(row, LONGEST_LISTED) for row in rows[:MOST_LISTED]]
    context = {"questions": shown, "more": max(0, len(rows) - MOST_LISTED)}
    return WholePage("questions/list.html", say("Questions"), context)


async def count(request: PageRequest) -> Fragment:
    """Return the number of questions that wait, for the navigation."""
    return Fragment("questions/count.html", {"count": len(await _waiting(request))})


async def one_question(request: PageRequest) -> WholePage:
    """Show one question, with a form to answer it."""
    row = await _found(request)
    if row is None:
        return WholePage("questions/gone_page.html", say("Question"))
    context = await _content(row)
    return WholePage("questions/question.html", say("Question"), context, module="questions")


async def state(request: PageRequest) -> Fragment:
    """Return that a question is gone; nothing while it waits."""
    return Fragment("questions/state.html", {"waits": await _found(request) is not None})


async def accept(request: PageRequest) -> PageAnswer:
    """Answer a question with what its form says."""
    row = await _found(request)
    if row is None:
        return Redirect("/questions", say("This question was answered already, or is no longer asked."))
    if row["kind"] != "form":
        return await _answer(request, row, "accept", None)
    values = await request.forms()
    read, form = await asyncio.to_thread(answer_of, row.get("schema"), values)
    if read.errors:
        return Fragment("questions/form.html", {**_facts(row), "form": form, "problem": ""}, 422)
    try:
        return await _answer(request, row, "accept", read.arguments)
    except BadArguments as error:
        problem = error.text(request.lang)
        return Fragment("questions/form.html", {**_facts(row), "form": form, "problem": problem}, 422)


async def decline(request: PageRequest) -> PageAnswer:
    """Tell the server that the person does not want to answer."""
    return await _refuse(request, "decline")


async def cancel(request: PageRequest) -> PageAnswer:
    """Tell the server that the person has dismissed the question."""
    return await _refuse(request, "cancel")


async def _refuse(request: PageRequest, action: str) -> PageAnswer:
    row = await _found(request)
    if row is None:
        return Redirect("/questions", say("This question was answered already, or is no longer asked."))
    return await _answer(request, row, action, None)


async def _answer(
    request: PageRequest, row: Mapping[str, Any], action: str, content: Mapping[str, Any] | None
) -> Redirect:
    await request.call("answer_question", id=row["id"], action=action, content=content)
    said = {
        "accept": say("{server!n} has your answer.", server=row["server"]),
        "decline": say("{server!n} was told that you decline.", server=row["server"]),
        "cancel": say("{server!n} was told that you do not answer.", server=row["server"]),
    }
    return Redirect("/questions", said[action])


async def _waiting(request: PageRequest) -> Sequence[dict[str, Any]]:
    found = await request.call("list_questions")
    return sorted(found["results"], key=lambda row: str(row["asked"]))


async def _found(request: PageRequest) -> dict[str, Any] | None:
    wanted = request.path("question")
    return next((row for row in await _waiting(request) if row["id"] == wanted), None)


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what templates show of a question besides its form."""
    return {"question": _shown(row, LONGEST), "url": question_url(row["id"])}


async def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = {**_facts(row), "form": None, "link": None, "asked": (), "problem": ""}
    if row["kind"] == "form":
        context["form"] = await asyncio.to_thread(question_form, row.get("schema"))
    elif row["kind"] == "url":
        context["link"] = link = shown_link(str(row.get("url", "")))
        context["shown_before"] = _text(link.before)
    elif row["kind"] == "sampling":
        context["asked"] = _messages(row.get("request"))
    return context


def question_url(id: str) -> str:
    """Return the URL of a question's page."""
    return f"/questions/{quote(id, safe='')}"


def _shown(row: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return a question for the templates: what the server says is untrusted, and nothing in it is hidden."""
    message = str(row.get("message") or "")
    return {
        **row,
        "message": shown_controls(printable(message[:longest])) + ("…" if len(message) > longest else ""),
        "purpose": KINDS.get(row["kind"], KINDS["form"]),
        "page": question_url(row["id"]),
    }


def _messages(params: object) -> list[tuple[str, str]]:
    """Return what a model was asked: the role and the text of each message, the system prompt first."""
    given = params if isinstance(params, Mapping) else {}
    system = given.get("systemPrompt")
    found = [("system", _text(system))] if isinstance(system, str) and system else []
    messages = given.get("messages")
    listed = messages[:MOST_MESSAGES] if isinstance(messages, list) else []
    found += [
        (_text(message.get("role"))[:40], _content_text(message.get("content")))
        for message in listed
        if isinstance(message, Mapping)
    ]
    return found


def _content_text(content: object) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(_block(block) for block in blocks[:MOST_MESSAGES])


def _block(block: object) -> str:
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return _text(block["text"])
    kind = block.get("type") if isinstance(block, Mapping) else None
    return f"[{_text(kind)[:40]}]" if kind else _text(json.dumps(block))[:200]


def _text(value: object) -> str:
    return shown_controls(printable(str(value if value is not None else "")[:LONGEST]))


_ONE = "/questions/{question}"

ROUTES = (
    PageRoute("/questions", question_list),
    PageRoute("/questions/-/count", count),
    PageRoute(_ONE, one_question),
    PageRoute(f"{_ONE}/state", state),
    PageRoute(f"{_ONE}/accept", accept, "POST"),
    PageRoute(f"{_ONE}/decline", decline, "POST"),
    PageRoute(f"{_ONE}/cancel", cancel, "POST"),
)
