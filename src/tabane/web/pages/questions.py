"""Questions of servers that wait for an answer: forms to fill, links to open, and what a model was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from tabane.errors import BadArguments, UnknownName
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

TEMPLATES = {"form": "questions/form.html", "url": "questions/link.html"}
"""Templates of the answer by kind. The others are answered with a text."""


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
    context = {**await _content(row), "answer": TEMPLATES.get(row["kind"], "questions/text.html")}
    return WholePage("questions/question.html", say("Question"), context, module="questions")


async def state(request: PageRequest) -> Fragment:
    """Return that a question is gone; nothing while it waits."""
    return Fragment("questions/state.html", {"waits": await _found(request) is not None})


async def accept(request: PageRequest) -> PageAnswer:
    """Answer a question with what its form says."""
    row = await _found(request)
    if row is None:
        return _GONE
    given = await _given(request, row)
    problem = ""
    if not given.wrong:
        try:
            return await _answer(request, row, "accept", given.content)
        except BadArguments as error:
            problem = error.text(request.lang)
    context = {**_facts(row), **given.context, "problem": problem}
    return Fragment(TEMPLATES.get(row["kind"], "questions/text.html"), context, 422)


class _Given(NamedTuple):
    """What a form says: the content of the answer, and the context that shows the form once more."""

    content: Any
    context: dict[str, Any]
    wrong: bool = False


async def _given(request: PageRequest, row: Mapping[str, Any]) -> _Given:
    if row["kind"] == "form":
        read, form = await asyncio.to_thread(answer_of, row.get("schema"), await request.forms())
        return _Given(read.arguments, {"form": form}, bool(read.errors))
    if row["kind"] == "url":
        return _Given(None, _link(row))
    text = (await request.form()).get("text", "")
    return _Given(text.split() if row["kind"] == "roots" else text, {"text": text})


async def decline(request: PageRequest) -> PageAnswer:
    """Tell the server that the person does not want to answer."""
    return await _refuse(request, "decline")


async def cancel(request: PageRequest) -> PageAnswer:
    """Tell the server that the person has dismissed the question."""
    return await _refuse(request, "cancel")


async def _refuse(request: PageRequest, action: str) -> PageAnswer:
    row = await _found(request)
    return _GONE if row is None else await _answer(request, row, action, None)


async def _answer(request: PageRequest, row: Mapping[str, Any], action: str, content: Any) -> Redirect:
    try:
        await request.call("answer_question", id=row["id"], action=action, content=content)
    except UnknownName:
        return _GONE
    said = {
        "accept": say("{server!n} has your answer.", server=row["server"]),
        "decline": say("{server!n} was told that you decline.", server=row["server"]),
        "cancel": say("{server!n} was told that you do not answer.", server=row["server"]),
    }
    return Redirect("/questions", said[action])


_GONE = Redirect("/questions", say("This question was answered already, or is no longer asked."))


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
    context: dict[str, Any] = {**_facts(row), "problem": "", "text": ""}
    if row["kind"] == "form":
        context["form"] = await asyncio.to_thread(question_form, row.get("schema"))
    elif row["kind"] == "url":
        context |= _link(row)
    return context


def _link(row: Mapping[str, Any]) -> dict[str, Any]:
    link = shown_link(str(row.get("url") or ""))
    return {"link": link, "shown_before": _text(link.before)}


def question_url(id: str) -> str:
    """Return the URL of a question's page."""
    return f"/questions/{quote(id, safe='')}"


def _shown(row: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return a question for the templates: what the server says is untrusted, and nothing in it is hidden."""
    message = str(row.get("message") or "")
    return {
        **row,
        "message": shown_controls(printable(message[:longest])) + ("…" if len(message) > longest else ""),
        "title": _title(row),
        "page": question_url(row["id"]),
    }


def _title(row: Mapping[str, Any]) -> Message:
    match row["kind"]:
        case "url":
            return say("{server!n} asks you to open a link", server=row["server"])
        case "sampling":
            return say("{server!n} asks the model of the client", server=row["server"])
        case "roots":
            return say("{server!n} asks for the folders of the client", server=row["server"])
    return say("{server!n} asks for an answer", server=row["server"])


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
