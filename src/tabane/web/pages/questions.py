"""Questions of servers that wait for an answer: forms to fill, links to open, and what a model was asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from tabane.errors import BadArguments, UnknownName
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.page import Fragment, Notice, PageAnswer, PageRequest, PageRoute, Redirect, WholePage
from tabane.web.pages.tools import printable, visible_text
from tabane.web.schema_forms import (
    FilledField,
    FormArguments,
    FormValues,
    SchemaField,
    arguments_of,
    filled,
    read_schema,
    values_of,
)

_ADDRESS = re.compile(r"(https?://)(\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#\\@:\[\]<>%]{1,253})(:\d{1,5})?([/?#].*)?")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\<>\"\u2028\u2029\ud800-\udfff]|\s")
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[::1\]|.*\.localhost", re.IGNORECASE)

LinkWarning = Literal["odd", "foreign", "unencrypted"]


def question_field(schema: object) -> SchemaField:
    """Return the fields of a question's schema: each choice once, under its title."""
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        members = {key: _with_titles(part) for key, part in schema["properties"].items()}
        schema = {**schema, "properties": members}
    return read_schema(schema)


def question_form(schema: object) -> FilledField:
    """Return the form of a question, filled with the defaults of its schema."""
    form = question_field(schema)
    named = schema.get("properties") if isinstance(schema, dict) else None
    parts = named.items() if isinstance(named, dict) else ()
    defaults = {key: part["default"] for key, part in parts if isinstance(part, dict) and "default" in part}
    return filled(form, values_of(form, defaults))


def answer_of(schema: object, values: FormValues) -> tuple[FormArguments, FilledField]:
    """Return the content that a form says, and the form with what is wrong with it."""
    form = question_field(schema)
    read = arguments_of(form, values)
    wrong = {each.path: found for each in form.fields if (found := _format_error(each, read.arguments))}
    read = FormArguments(read.arguments, {**wrong, **read.errors})
    return read, filled(form, values, read.errors)


@dataclass(frozen=True, slots=True)
class ShownLink:
    """A link in parts: ``before`` and ``after`` its host. It may be opened if ``href`` is not empty.

    ``ascii`` is the host as a browser looks it up, if that is not how it is written.
    """

    before: str
    host: str
    after: str
    href: str = ""
    ascii: str = ""
    warnings: tuple[LinkWarning, ...] = ()


def shown_link(url: str) -> ShownLink:
    """Return a link so that a person sees where it leads.

    Python and browsers read odd URLs differently. One with user names, backslashes, spaces or control
    characters, or of another scheme, is shown as a text that cannot be opened.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None or _UNSAFE.search(url) or shown_controls(url) != url:
        return ShownLink(url, "", "", warnings=("odd",))
    scheme, host, port, rest = found.groups("")
    try:
        looked_up = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return ShownLink(url, "", "", warnings=("odd",))
    warnings: list[LinkWarning] = []
    if "xn--" in looked_up.lower():
        warnings.append("foreign")
    if scheme == "http://" and not _LOCAL.fullmatch(host):
        warnings.append("unencrypted")
    return ShownLink(scheme, host, port + rest, url, looked_up if looked_up != host else "", tuple(warnings))


def _with_titles(part: object) -> object:
    if not isinstance(part, dict):
        return part
    if part.get("type") == "array":
        return {**part, "uniqueItems": True}
    values, names = part.get("enum"), part.get("enumNames")
    if isinstance(values, list) and isinstance(names, list) and len(values) == len(names):
        # As in 2025-06-18. Later revisions have oneOf.
        titled = [{"const": value, "title": name} for value, name in zip(values, names, strict=True)]
        return {**{key: value for key, value in part.items() if key != "enum"}, "oneOf": titled}
    return part


def _format_error(field: SchemaField, content: Mapping[str, Any]) -> Message | None:
    """Return what is wrong with a text that has a format."""
    text = content.get(field.key)
    if field.kind != "text" or not isinstance(text, str):
        return None
    match field.format:
        case "email" if not _EMAIL.fullmatch(text):
            return say("Enter an email address.")
        case "uri" if not _URI.fullmatch(text):
            return say("Enter a complete URL, such as https://example.com/.")
        case "date" if not _parses(date, text):
            return say("Enter a date such as 2026-11-30.")
        case "date-time" if not _parses(datetime, text) or "T" not in text.upper():
            return say("Enter a date and a time, such as 2026-11-30T09:00:00Z.")
    return None


def _parses(kind: type[date], text: str) -> bool:
    try:
        kind.fromisoformat(text)
    except ValueError:
        return False
    return True


MOST_LISTED = 100
"""Questions that the list shows."""

LONGEST = 20_000
"""Characters of a message that the page of its question shows."""

LONGEST_LISTED = 300

TEMPLATES = {"form": "questions/form.html", "url": "questions/link.html"}
"""Templates of the answer by kind. The others are answered with a text."""


async def question_list(request: PageRequest) -> WholePage:
    """Show the questions that wait, the oldest first."""
    rows = await _list_waiting(request)
    shown = [_question_row(row, LONGEST_LISTED) for row in rows[:MOST_LISTED]]
    context = {"questions": shown, "more": max(0, len(rows) - MOST_LISTED)}
    return WholePage("questions/list.html", say("Questions"), context)


async def open_questions(request: PageRequest) -> list[dict[str, Any]]:
    """Return the questions that wait, the oldest first, for ``questions/brief.html``.

    Include the template with the question as ``question``. There are none if nobody may see them.
    """
    rows = await _list_waiting(request) if request.may("list_questions") else []
    return [_question_row(row, LONGEST_LISTED) for row in rows]


async def count(request: PageRequest) -> Fragment:
    """Return the number of questions that wait, for the navigation."""
    return Fragment("questions/count.html", {"count": len(await _list_waiting(request))})


async def one_question(request: PageRequest) -> WholePage:
    """Show one question, with a form to answer it."""
    row = await _find_question(request)
    if row is None:
        return WholePage("questions/gone_page.html", say("Question"))
    context: dict[str, Any] = {**_question_context(row), "problem": "", "text": ""}
    if row["kind"] == "form":
        context["form"] = await asyncio.to_thread(question_form, row.get("schema"))
    elif row["kind"] == "url":
        context |= _link_context(row)
    context["answer"] = TEMPLATES.get(row["kind"], "questions/text.html")
    return WholePage("questions/question.html", say("Question"), context, module="questions")


async def state(request: PageRequest) -> Fragment:
    """Return that a question is gone; nothing while it waits."""
    return Fragment("questions/state.html", {"waits": await _find_question(request) is not None})


async def accept(request: PageRequest) -> PageAnswer:
    """Answer a question with the values of its form."""
    row = await _find_question(request)
    if row is None:
        return _GONE
    given = await _read_answer(request, row)
    problem = ""
    if not given.wrong:
        try:
            return await _send_answer(request, row, "accept", given.content)
        except BadArguments as error:
            problem = error.text(request.lang)
    context = {**_question_context(row), **given.context, "problem": problem}
    return Fragment(TEMPLATES.get(row["kind"], "questions/text.html"), context, 422)


class _FormAnswer(NamedTuple):
    """The content of an answer, and the context that shows its form again."""

    content: Any
    context: dict[str, Any]
    wrong: bool = False


async def _read_answer(request: PageRequest, row: Mapping[str, Any]) -> _FormAnswer:
    if row["kind"] == "form":
        read, form = await asyncio.to_thread(answer_of, row.get("schema"), await request.forms())
        return _FormAnswer(read.arguments, {"form": form}, bool(read.errors))
    if row["kind"] == "url":
        return _FormAnswer(None, _link_context(row))
    text = (await request.form()).get("text", "")
    return _FormAnswer(text.split() if row["kind"] == "roots" else text, {"text": text})


async def decline(request: PageRequest) -> PageAnswer:
    """Tell the server that the person does not want to answer."""
    return await _refuse(request, "decline")


async def cancel(request: PageRequest) -> PageAnswer:
    """Tell the server that the person has dismissed the question."""
    return await _refuse(request, "cancel")


async def _refuse(request: PageRequest, action: str) -> PageAnswer:
    stay = (await request.form()).get("stay") == "true"
    row = await _find_question(request)
    done = _GONE if row is None else await _send_answer(request, row, action, None)
    if stay and done.message is not None:
        return Notice(done.message, events=("questions",))
    return done


async def _send_answer(request: PageRequest, row: Mapping[str, Any], action: str, content: Any) -> Redirect:
    try:
        await request.call("answer_question", id=row["id"], action=action, content=content)
    except UnknownName:
        return _GONE
    messages = {
        "accept": say("{server!n} has your answer.", server=row["server"]),
        "decline": say("{server!n} was told that you decline.", server=row["server"]),
        "cancel": say("{server!n} was told that you do not answer.", server=row["server"]),
    }
    return Redirect("/questions", messages[action])


_GONE = Redirect("/questions", say("This question was answered already, or is no longer asked."))


async def _list_waiting(request: PageRequest) -> Sequence[dict[str, Any]]:
    found = await request.call("list_questions")
    return sorted(found["results"], key=lambda row: str(row["asked"]))


async def _find_question(request: PageRequest) -> dict[str, Any] | None:
    wanted = request.path("question")
    return next((row for row in await _list_waiting(request) if row["id"] == wanted), None)


def _question_context(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of a question, without its form."""
    return {"question": _question_row(row, LONGEST), "url": question_url(row["id"])}


def _link_context(row: Mapping[str, Any]) -> dict[str, Any]:
    link = shown_link(str(row.get("url") or ""))
    return {"link": link, "shown_before": shown_controls(printable(link.before[:LONGEST]))}


def question_url(id: str) -> str:
    """Return the URL of a question's page."""
    return f"/questions/{quote(id, safe='')}"


def _question_row(row: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return a question for the templates: what the server says is untrusted, and nothing in it is hidden."""
    return {
        **row,
        "message": visible_text(str(row.get("message") or ""), longest),
        "title": _question_title(row),
        "page": question_url(row["id"]),
    }


def _question_title(row: Mapping[str, Any]) -> Message:
    match row["kind"]:
        case "url":
            return say("{server!n} asks you to open a link", server=row["server"])
        case "sampling":
            return say("{server!n} asks the model of the client", server=row["server"])
        case "roots":
            return say("{server!n} asks for the folders of the client", server=row["server"])
    return say("{server!n} asks for an answer", server=row["server"])


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
