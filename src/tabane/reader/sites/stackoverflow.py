"""Stack Overflow and the other sites of Stack Exchange, by their API."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from urllib.parse import SplitResult

from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.media_type_detection import WHOLE_MEDIA
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import (
    KeyLookup,
    ReadingTools,
    SiteApi,
    SitePages,
    SiteSample,
    moment,
    no_keys,
)

PAGE = 100
"""Items of a page, the most that the API gives."""

COMMENT_PAGES = 3

_NAMES = {
    "stackoverflow.com": "Stack Overflow",
    "superuser.com": "Super User",
    "serverfault.com": "Server Fault",
    "askubuntu.com": "Ask Ubuntu",
    "mathoverflow.net": "MathOverflow",
    "stackapps.com": "Stack Apps",
}
_LANGUAGES = frozenset({"es", "ja", "pt", "ru", "meta"})  # of Stack Overflow alone
_PATH = re.compile(r"/(questions|q|a|answers)/([1-9]\d{0,11})(?:/.*)?")


class StackOwner(Struct, frozen=True):
    display_name: str = ""


class StackComment(Struct, frozen=True):
    post_id: int
    body: str = ""
    score: int = 0
    creation_date: int = 0
    owner: StackOwner | None = None


class StackAnswer(Struct, frozen=True):
    answer_id: int
    question_id: int
    body: str = ""
    score: int = 0
    is_accepted: bool = False
    creation_date: int = 0
    owner: StackOwner | None = None


class StackQuestion(Struct, frozen=True):
    question_id: int
    title: str
    body: str = ""
    link: str = ""
    score: int = 0
    view_count: int = 0
    answer_count: int = 0
    creation_date: int = 0
    tags: list[str] = []
    owner: StackOwner | None = None
    closed_reason: str | None = None


_Shape = TypeVar("_Shape")
_Item = TypeVar("_Item", StackQuestion, StackAnswer, StackComment)


class StackItems(Struct, Generic[_Item], frozen=True):
    """The wrapper of every response of the API."""

    items: list[_Item]
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class _StackThread:
    """A question with its answers in display order, and all comments."""

    question: StackQuestion
    answers: Sequence[StackAnswer]
    comments: Sequence[StackComment]
    warnings: tuple[Message, ...]


class StackOverflowAdapter(SitePages[tuple[str, str, str]]):
    """A question with its answers, the accepted one first and the others by their votes, and all comments.

    Three requests. ``keys`` looks up STACKEXCHANGE_KEY: without it the limit is 300 requests a day, with it
    10,000.
    """

    name, title = "stackoverflow", "Stack Exchange"
    sample = SiteSample("https://stackoverflow.com/questions/11227809", "sorted array", 3_000)

    def __init__(self, keys: KeyLookup = no_keys, base: str = "https://api.stackexchange.com") -> None:
        self._keys, self._base = keys, base

    def place(self, host: str, parts: SplitResult) -> tuple[str, str, str] | None:
        """Return the site as the API calls it, whether a question or an answer, and its number."""
        host = host.removeprefix("www.")
        found = _PATH.fullmatch(parts.path)
        return (host, found[1], found[2]) if found and _is_site(host) else None

    async def page(self, place: tuple[str, str, str], url: str, tools: ReadingTools) -> Page | None:
        site, kind, id_ = place
        api = _StackApi(tools, self._base, site, self._keys("STACKEXCHANGE_KEY") or None)
        if kind in ("a", "answers"):
            found = await api.get(f"answers/{id_}", StackItems[StackAnswer])
            id_ = str(_first_item(found.items).question_id)
        thread = await _read_thread(id_, api)
        page = await tools.converting.page(
            _thread_html(thread).encode(), f"https://{site}/", WHOLE_MEDIA, "utf-8"
        )
        question = thread.question
        name = _NAMES.get(site) or (
            f"Stack Overflow ({site[:2]})" if site.endswith("stackoverflow.com") else site
        )
        return replace(
            page,
            url=question.link or f"https://{site}/questions/{question.question_id}",
            title=html.unescape(question.title),
            author=html.unescape(_owner_name(question.owner)),
            date=moment(question.creation_date) or None,
            site=name,
            canonical=question.link or None,
            way=StackOverflowAdapter.name,
            warnings=(*thread.warnings, *page.warnings),
        )


class _StackApi(SiteApi):
    """The API for one read."""

    def __init__(self, tools: ReadingTools, base: str, site: str, key: str | None) -> None:
        super().__init__(tools, f"{base}/2.3/", explain=self._explain_refusal)
        self._site, self._key = site, key

    async def get(self, path: str, shape: type[_Shape], /, **parameters: object) -> _Shape:
        return await super().get(path, shape, **parameters, site=self._site, filter="withbody", key=self._key)

    def _explain_refusal(self, error: ReadError) -> tuple[Message, str] | None:
        if error.status not in (400, 502):
            return None
        if self._key:
            message = say(
                "Stack Exchange refused the request: its limit is used up, or the key is not valid."
            )
        else:
            message = say(
                "Stack Exchange refused the request: without a key it allows 300 requests a day; "
                "set STACKEXCHANGE_KEY for 10,000."
            )
        return message, "rate"


def _is_site(host: str) -> bool:
    sub, _, rest = host.partition(".")
    return host in _NAMES or rest == "stackexchange.com" or (rest in _NAMES and sub in _LANGUAGES)


async def _read_thread(id_: str, api: _StackApi) -> _StackThread:
    question = _first_item((await api.get(f"questions/{id_}", StackItems[StackQuestion])).items)
    warnings: list[Message] = []
    answers: list[StackAnswer] = []
    if question.answer_count:
        found = await api.get(
            f"questions/{id_}/answers", StackItems[StackAnswer], order="desc", sort="votes", pagesize=PAGE
        )
        answers = sorted(found.items, key=lambda each: (not each.is_accepted, -each.score, each.answer_id))
        if found.has_more:
            all_ = question.answer_count
            warnings.append(
                say(
                    "The {shown} best of {all} {all:answer is|answers are} shown.",
                    shown=len(answers),
                    all=all_,
                )
            )
    posts = [question.question_id, *(each.answer_id for each in answers)][:PAGE]
    comments, more = await _read_comments(posts, api)
    return _StackThread(question, answers, comments, (*warnings, *more))


async def _read_comments(
    posts: Sequence[int], api: _StackApi
) -> tuple[list[StackComment], tuple[Message, ...]]:
    found: list[StackComment] = []
    path = f"posts/{';'.join(map(str, posts))}/comments"
    for number in range(1, COMMENT_PAGES + 1):
        try:
            some = await api.get(
                path, StackItems[StackComment], order="asc", sort="creation", pagesize=PAGE, page=number
            )
        except ReadError as error:
            return found, (say("Some of it could not be read: {reason}", reason=error.message),)
        found += some.items
        if not some.has_more:
            return found, ()
    return found, (say("Only the first {shown} {shown:comment is|comments are} shown.", shown=len(found)),)


def _first_item(items: Sequence[_Item]) -> _Item:
    if not items:
        raise ReadError(say("There is no such question, or it was deleted."), "status", status=404)
    return items[0]


def _thread_html(thread: _StackThread) -> str:
    """Return all of it as one document, to be converted at once."""
    question = thread.question
    said: defaultdict[int, list[StackComment]] = defaultdict(list)
    for comment in thread.comments:
        said[comment.post_id].append(comment)
    facts = {
        "Score": str(question.score),
        "Asked by": f"{_owner_name(question.owner)}, {moment(question.creation_date)}",
        "Tags": html.escape(", ".join(question.tags)),
        "Views": f"{question.view_count:,}",
        "Closed": html.escape(question.closed_reason or ""),
    }
    lines = "".join(f"<li>{name}: {value}</li>" for name, value in facts.items() if value)
    parts = [f"<h1>{question.title}</h1><ul>{lines}</ul><div>{question.body}</div>"]
    parts.append(_comments_html(said[question.question_id]))
    for answer in thread.answers:
        accepted = "Accepted answer" if answer.is_accepted else "Answer"
        by = f"{_owner_name(answer.owner)}, {moment(answer.creation_date)}"
        head = f"{accepted} (score {answer.score}) by {by}"
        parts.append(f"<h2>{head}</h2><div>{answer.body}</div>{_comments_html(said[answer.answer_id])}")
    return "<!doctype html><meta charset=utf-8><body>" + "".join(parts)


def _comments_html(comments: Sequence[StackComment]) -> str:
    if not comments:
        return ""
    lines = (
        f"<li><b>{_owner_name(each.owner)}</b>, {moment(each.creation_date)[:10]}"
        + (f" (score {each.score})" if each.score else "")
        + f": {each.body}</li>"
        for each in comments
    )
    return f"<p><b>Comments</b></p><ul>{''.join(lines)}</ul>"


def _owner_name(owner: StackOwner | None) -> str:
    """Return names come with their letters as entities, so that they are HTML already."""
    return (owner.display_name if owner else "") or "(deleted)"
