"""Pages of the post archive: timeline, one post, users, tags, statistics, and imports."""

from __future__ import annotations

import asyncio
import calendar
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tabane.errors import BadArguments, Forbidden, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.web.page import (
    FileDownload,
    Fragment,
    Json,
    PageAnswer,
    PageRequest,
    PageRoute,
    Redirect,
    WholePage,
)
from tabane.web.table_exports import Format, collect_rows, export_format, table_file

MOST_NAMES = 100

_SEPARATOR = re.compile(r"[,、，\n]")
_MONTH = re.compile(r"(\d{4})-(\d{2})")
TYPES = ("post", "like", "bookmark")


class PostFilterQuery(NamedTuple):
    """Filters as the address bar has them."""

    users: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> PostFilterQuery:
        """Return the filters in a query string. What is no date or type is left out."""
        types = tuple(name for name in _split_names(query.get("type", "")) if name in TYPES)
        return cls(
            tuple(name.removeprefix("@") for name in _split_names(query.get("user", ""))),
            _split_names(query.get("tag", "")),
            () if len(types) == len(TYPES) else types,
            _read_date(query.get("from", ""), last=False),
            _read_date(query.get("to", ""), last=True),
        )

    def __bool__(self) -> bool:
        return any(self)

    def parameters(self, *, dates: bool = True) -> dict[str, Any]:
        """Return the filters as parameters of an operation; without those that are not set."""
        found: dict[str, Any] = {}
        if self.users:
            found["user_filter"] = {"includes": list(self.users)}
        if self.tags:
            found["tags"] = list(self.tags)
        if self.types:
            found["log_type"] = list(self.types)
        span = {"from": self.since, "to": self.until}
        if dates and any(span.values()):
            found["date_filter"] = {name: day for name, day in span.items() if day}
        return found

    def query(self, *, dates: bool = True, **more: str) -> str:
        """Return the filters as a query string, together with other parameters."""
        found = {"user": ", ".join(self.users), "tag": ", ".join(self.tags), "type": ",".join(self.types)}
        if dates:
            found |= {"from": self.since, "to": self.until}
        return urlencode({name: value for name, value in {**found, **more}.items() if value})


def _split_names(text: str) -> tuple[str, ...]:
    names = (name.strip() for name in _SEPARATOR.split(text[:20_000]))
    return tuple(dict.fromkeys(name for name in names if name))[:MOST_NAMES]


def _read_date(text: str, *, last: bool) -> str:
    """Return a day, or the first or last day of a month, as YYYY-MM-DD; empty for anything else."""
    text = text.strip()
    if _DAY.fullmatch(text):
        return text
    month = _MONTH.fullmatch(text)
    if month is None or not 1 <= int(month[2]) <= 12 or int(month[1]) < 1:
        return ""
    day = calendar.monthrange(int(month[1]), int(month[2]))[1] if last else 1
    return f"{text}-{day:02}"


MOST_LINKS = 100
"""Links of one text. Later ones are plain text."""

# A URL ends at the first character that is not ASCII, because Japanese text follows without a space.
_LINK = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_CLOSING = re.compile(r"[.,;:!?'\")\]}>]+$")


class TextPart(NamedTuple):
    """A part of a text. ``url`` is the address of a link; empty if the part is no link."""

    text: str
    marked: bool = False
    url: str = ""


def text_parts(text: str, marks: Sequence[Sequence[int]] = (), *, links: bool = True) -> list[TextPart]:
    """Return the text in parts, in order. ``marks`` are spans that do not overlap, in order."""
    found: list[TextPart] = []
    at = 0
    for start, end, url in _find_links(text) if links else ():
        found += _marked_parts(text, at, start, marks, "")
        found += _marked_parts(text, start, end, marks, url)
        at = end
    return [*found, *_marked_parts(text, at, len(text), marks, "")]


def _find_links(text: str) -> Iterator[tuple[int, int, str]]:
    for number, found in enumerate(_LINK.finditer(text)):
        if number == MOST_LINKS:
            return
        url = _CLOSING.sub("", found.group())
        if len(url) > len("https://"):
            yield found.start(), found.start() + len(url), url


def _marked_parts(
    text: str, start: int, end: int, marks: Sequence[Sequence[int]], url: str
) -> Iterator[TextPart]:
    at = start
    for first, last in marks:
        first, last = max(first, at), min(last, end)
        if first < last:
            if at < first:
                yield TextPart(text[at:first], False, url)
            yield TextPart(text[first:last], True, url)
            at = last
    if at < end:
        yield TextPart(text[at:end], False, url)


def cut(text: str, marks: Sequence[Sequence[int]], most: int) -> tuple[str, list[list[int]], bool]:
    """Return the beginning of a text, its marks, and whether it was cut."""
    if len(text) <= most:
        return text, [list(mark) for mark in marks], False
    return text[:most], [[start, min(end, most)] for start, end in marks if start < most], True


PER_PAGE = 30
NAMES_PER_PAGE = 100
MOST_DUPLICATES = 20
FEW = 10

LOG_TYPES: Mapping[int, Message] = {2: say("Like"), 3: say("Bookmark")}
TYPE_NAMES: Mapping[int, Message] = {1: say("Posts"), 2: say("Likes"), 3: say("Bookmarks")}
TYPE_CODES: Mapping[str, int] = {"post": 1, "like": 2, "bookmark": 3}
MODES: Mapping[str, Message] = {
    "": say("Meaning of the post"),
    "hybrid": say("Words and meaning"),
    "reasoning": say("Meaning of the reasoning"),
    "summary": say("Meaning of the summary"),
    "average": say("All three, average"),
    "weighted": say("All three, weighted"),
    "maximum": say("All three, best"),
}

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


async def timeline(request: PageRequest) -> WholePage | FileDownload:
    """Show the posts, newest first, or return them as a file."""
    if format := export_format(request):
        return await _export(request, format)
    size, jobs = await asyncio.gather(request.call("get_database_stats"), running_imports(request))
    if not size["total_posts"]:
        return WholePage("posts/empty.html", say("Posts"), {"jobs": jobs}, module="post_drop")
    filters, page = PostFilterQuery.of(request.query), await _timeline_page(request)
    text = request.query.get("q", "")[:1000]
    context = {
        "size": size,
        "jobs": jobs,
        "filters": filters,
        "chips": _chips(filters, text),
        "given": {name: request.query.get(name, "") for name in ("q", "user", "tag", "type")},
        "query": filters.query(q=text),
        **page,
    }
    return WholePage("posts/timeline.html", say("Posts"), context, module="posts")


def _chips(filters: PostFilterQuery, text: str) -> list[tuple[Message, str]]:
    """Return each filter in force in words, with the address of the timeline without it."""
    found: list[tuple[Message, PostFilterQuery]] = [
        *(
            (Message("{name}", name=f"@{name}"), filters._replace(users=_without(filters.users, name)))
            for name in filters.users
        ),
        *(
            (say("Tag {tag}", tag=name), filters._replace(tags=_without(filters.tags, name)))
            for name in filters.tags
        ),
        *(
            (TYPE_NAMES[TYPE_CODES[name]], filters._replace(types=_without(filters.types, name)))
            for name in filters.types
        ),
    ]
    if filters.since and filters.until:
        days = say("{first} to {last}", first=filters.since, last=filters.until)
        found.append((days, filters._replace(since="", until="")))
    elif filters.since:
        found.append((say("From {day}", day=filters.since), filters._replace(since="")))
    elif filters.until:
        found.append((say("Up to {day}", day=filters.until), filters._replace(until="")))
    chips = [(label, _timeline_url(rest, text)) for label, rest in found]
    return [*chips, *([(Message("{name}", name=f"“{text}”"), _timeline_url(filters, ""))] if text else [])]


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


def _timeline_url(filters: PostFilterQuery, text: str) -> str:
    query = filters.query(q=text)
    return f"/posts?{query}" if query else "/posts"


EXPORTED = ("id", "time", "user", "type", "text", "url", "tags")


async def _export(request: PageRequest, format: Format) -> FileDownload:
    """Return the posts that match the filters as a file."""
    filters, text = PostFilterQuery.of(request.query), request.query.get("q", "")[:1000]
    rows, cut = await collect_rows(
        request, "list_posts", part=100, search_term=text or None, **filters.parameters()
    )
    names = {code: name for name, code in TYPE_CODES.items()}
    posts = (row["post"] for row in rows)
    lines = (
        {
            "id": post["post_id_str"], "time": post["timestamp"], "user": post["user"],
            "type": names.get(post["log_type"], ""), "text": post["content"], "url": post["url"],
            "tags": ", ".join(post.get("tags", [])),
        }
        for post in posts
    )  # fmt: skip
    return table_file(format, "posts", EXPORTED, lines, cut=cut)


MOST_VALUES = 8
"""Values of a facet."""


class FacetValue(NamedTuple):
    """A value of a facet, how many posts have it, and the address of the timeline with only them.

    The address of one that is chosen leads to the timeline without it.
    """

    label: str | Message
    posts: int
    url: str
    chosen: bool


async def facets(request: PageRequest) -> Fragment:
    """Return what the posts of the timeline can be narrowed to, and this day in earlier years."""
    filters, text = PostFilterQuery.of(request.query), request.query.get("q", "")[:1000]
    term = text or None

    async def counted(field: str, others: PostFilterQuery) -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = await request.call(
            "get_post_facets", field=field, limit=MOST_VALUES, search_term=term, **others.parameters()
        )
        return rows

    years, people, kinds, words, days = await asyncio.gather(
        request.call("get_timeline", unit="year", search_term=term, **filters.parameters(dates=False)),
        counted("user", filters._replace(users=())),
        counted("log_type", filters._replace(types=())),
        counted("tags", filters._replace(tags=())),
        no_rows() if filters or text else on_this_day(request),
    )
    groups = [
        (say("Year"), _years(filters, text, years)),
        (
            say("User"),
            _named(
                text,
                people,
                filters.users,
                lambda name: f"@{name}",
                lambda some: filters._replace(users=some),
            ),
        ),
        (
            say("Type"),
            _named(
                text,
                kinds,
                filters.types,
                lambda name: TYPE_NAMES[TYPE_CODES.get(name, 1)],
                lambda some: filters._replace(types=some),
            ),
        ),
        (say("Tag"), _named(text, words, filters.tags, str, lambda some: filters._replace(tags=some))),
    ]
    shown = [
        (name, values) for name, values in groups if len(values) > 1 or any(value.chosen for value in values)
    ]
    return Fragment("posts/facets.html", {"groups": shown, "days": days})


async def no_rows() -> list[Any]:
    """Return what is shown of a part that is not asked for."""
    return []


def _years(filters: PostFilterQuery, text: str, rows: Sequence[Mapping[str, Any]]) -> list[FacetValue]:
    found = []
    for row in reversed(rows):
        span = (f"{row['period']}-01-01", f"{row['period']}-12-31")
        chosen = (filters.since, filters.until) == span
        since, until = ("", "") if chosen else span
        url = _timeline_url(filters._replace(since=since, until=until), text)
        if row["post_count"] or chosen:
            found.append(FacetValue(row["period"], row["post_count"], url, chosen))
    return found


def _named(
    text: str,
    rows: Sequence[Mapping[str, Any]],
    chosen: tuple[str, ...],
    label: Callable[[str], str | Message],
    narrow: Callable[[tuple[str, ...]], PostFilterQuery],
) -> list[FacetValue]:
    """Return the values of a facet. ``narrow`` returns the filters with those values of it."""
    return [
        FacetValue(
            label(row["value"]),
            row["post_count"],
            _timeline_url(narrow(() if row["value"] in chosen else (row["value"],)), text),
            row["value"] in chosen,
        )
        for row in rows
    ]


async def listed(request: PageRequest) -> Fragment:
    """Return the next posts of the timeline."""
    return Fragment("posts/list.html", await _timeline_page(request))


async def _timeline_page(request: PageRequest) -> dict[str, Any]:
    filters, text = PostFilterQuery.of(request.query), request.query.get("q", "")[:1000]
    found = await request.call(
        "list_posts",
        limit=PER_PAGE,
        cursor=request.query.get("cursor"),
        search_term=text or None,
        **filters.parameters(),
    )
    rows, day = [], request.query.get("day", "")
    for each in found["results"]:
        post = shown_post(each["post"], each["marks"])
        post["heading"] = post["day"] if post["day"] != day else ""  # of the first post of each day
        day = post["day"]
        rows.append(post)
    more = ""
    if found["next_cursor"]:
        more = "/posts/list?" + filters.query(q=text, cursor=found["next_cursor"], day=day)
    return {"rows": rows, "total": found.get("total"), "more": more}


def shown_post(post: Mapping[str, Any], marks: Sequence[Sequence[int]] = ()) -> dict[str, Any]:
    """Return a post as the templates have it: the text in parts, the timestamp as day and time."""
    stamp = str(post["timestamp"]).replace("/", "-")
    day = found.group() if (found := _DAY.match(stamp)) else ""
    return {
        "id": post["post_id_str"],
        "user": post["user"],
        "url": post["url"] if str(post["url"]).startswith(("https://", "http://")) else "",
        "day": day,
        "time": stamp[len(day) :].strip(" T")[:5] if day else post["timestamp"],
        "timestamp": post["timestamp"],
        "type": LOG_TYPES.get(post["log_type"]),
        "parts": text_parts(post["content"], marks),
        "tags": post.get("tags", []),
        "reasoning": post.get("reasoning", ""),
        "summary": post.get("summary", ""),
    }


async def one(request: PageRequest) -> WholePage:
    """Show one post with its duplicates. Related posts are loaded after it."""
    key = request.path("post_id")
    try:
        post = await request.call("get_post", post_id=key)
    except BadArguments as error:
        raise UnknownName(error.message) from None
    shown = shown_post(post)
    day = {"from": shown["day"], "to": shown["day"]} if shown["day"] else None
    same, beside = await asyncio.gather(
        request.call("list_posts", duplicates_of=key, limit=MOST_DUPLICATES),
        request.rows("list_posts", date_filter=day, limit=FEW) if day else no_rows(),
    )
    others = [shown_post(row["post"]) for row in same["results"] if row["post"]["post_id_str"] != key]
    title = say("Post of @{user}", user=post["user"]) if post["user"] else say("Post {id}", id=key)
    context = {
        "post": shown,
        "title": title,
        "duplicates": others,
        "same_day": [shown_post(row["post"]) for row in beside if row["post"]["post_id_str"] != key],
        "modes": MODES,
    }
    return WholePage("posts/one.html", title, context, module="posts")


async def related(request: PageRequest) -> Fragment:
    """Return the posts that are near to one."""
    mode = request.query.get("mode", "")
    wanted = mode if mode in MODES and mode else None
    try:
        rows = await request.call(
            "get_related_posts", post_id=request.path("post_id"), mode=wanted, top_k=FEW
        )
    except TabaneError as error:
        return Fragment("posts/related.html", {"error": error.text(request.lang), "rows": []})
    shown = [shown_post(row["post"]) | {"score": row["score"]} for row in rows]
    return Fragment("posts/related.html", {"rows": shown, "error": ""})


async def users(request: PageRequest) -> WholePage | Fragment:
    """Show the users with their numbers of posts."""
    return await _counted_page(request, "user", say("Users"))


async def tags(request: PageRequest) -> WholePage | Fragment:
    """Show the tags with their numbers of posts."""
    return await _counted_page(request, "tag", say("Tags"))


# -- for the home page ------------------------------------------------------------------------------

MOST_YEARS, OF_A_YEAR = 12, 2
"""Earlier years of a day that are looked at, the latest first, and posts of each that are shown."""


class EarlierDay(NamedTuple):
    """The same day of an earlier year: the last posts of it, how many there are, and where all are."""

    year: int
    ago: int
    posts: list[dict[str, Any]]
    total: int
    url: str


async def on_this_day(request: PageRequest, today: date | None = None) -> list[EarlierDay]:
    """Return the posts of this day in earlier years, the latest year first; without years that have none.

    Nothing is opened for somebody who may not list posts, or if there are none. ``today`` is that of the
    hub's machine if it is not given.
    """
    if not (request.may("list_posts") and request.holds("posts")):
        return []
    earliest = str((await request.call("get_database_stats"))["date_range"]["earliest"] or "")[:4]
    today = today or date.today()
    first = max(int(earliest), today.year - MOST_YEARS) if earliest.isdecimal() else today.year
    found = [_earlier_day(request, today, year) for year in range(today.year - 1, first - 1, -1)]
    return [day for day in await asyncio.gather(*found) if day is not None]


async def _earlier_day(request: PageRequest, today: date, year: int) -> EarlierDay | None:
    """Return the day in that year; None if it has no posts, or the year has no such day."""
    try:
        day = today.replace(year=year).isoformat()
    except ValueError:  # 29 February
        return None
    listed = await request.call("list_posts", limit=OF_A_YEAR, date_filter={"from": day, "to": day})
    if not listed["results"]:
        return None
    shown = [shown_post(row["post"]) for row in listed["results"]]
    return EarlierDay(year, today.year - year, shown, listed["total"], f"/posts?from={day}&to={day}")


async def latest_posts(request: PageRequest, count: int = 3) -> list[dict[str, Any]]:
    """Return the newest posts as :func:`shown_post` does. Opens nothing if there is no archive."""
    if not (request.may("list_posts") and request.holds("posts")):
        return []
    return [shown_post(row["post"]) for row in await request.rows("list_posts", limit=count)]


async def _counted_page(request: PageRequest, member: str, title: Message) -> WholePage | Fragment:
    prefix = request.query.get("prefix", "")[:200]
    cursor = request.query.get("cursor")
    found = await request.call(
        f"list_post_{member}s", prefix=prefix or None, cursor=cursor, limit=NAMES_PER_PAGE
    )
    most = int(request.query.get("most", "0") or 0) if request.query.get("most", "0").isdecimal() else 0
    rows = [{"name": row[member], "count": row["post_count"]} for row in found["results"]]
    most = most or max((row["count"] for row in rows), default=1)
    more = ""
    if found["next_cursor"]:
        after = {"prefix": prefix, "cursor": found["next_cursor"], "most": str(most), "part": "1"}
        more = f"/posts/{member}s?{urlencode(after)}"
    context = {
        "rows": rows,
        "total": found["total"],
        "more": more,
        "most": most,
        "member": member,
        "prefix": prefix,
        "first": not cursor,
    }
    if request.query.get("part"):
        return Fragment("posts/counted_rows.html", context)
    return WholePage("posts/counted.html", title, context, module="posts")


async def statistics(request: PageRequest) -> WholePage:
    """Show the size of the archive, posts by month, year and type, and the most frequent users and tags."""
    size, status, years, kinds, top_users, top_tags = await asyncio.gather(
        request.call("get_database_stats"),
        request.call("get_status"),
        request.call("get_timeline", unit="year"),
        request.call("get_post_facets", field="log_type"),
        request.call("list_post_users", limit=FEW),
        request.call("list_post_tags", limit=FEW),
    )
    context = {
        "size": size,
        "data": status["data_stats"],
        "model": status["model"],
        "years": [(row["period"], row["post_count"]) for row in reversed(years)],
        "kinds": [(row["value"], row["post_count"]) for row in kinds],
        "type_names": {name: TYPE_NAMES[code] for name, code in TYPE_CODES.items()},
        "users": [(row["user"], row["post_count"]) for row in top_users["results"]],
        "tags": [(row["tag"], row["post_count"]) for row in top_tags["results"]],
    }
    return WholePage("posts/statistics.html", say("Statistics"), context, module="posts")


async def months(request: PageRequest) -> Json:
    """Return the posts of each month that match the filters of the timeline, without the dates."""
    filters, text = PostFilterQuery.of(request.query), request.query.get("q", "")[:1000]
    unit = "year" if request.query.get("unit") == "year" else "month"
    found = await request.call(
        "get_timeline", unit=unit, search_term=text or None, **filters.parameters(dates=False)
    )
    return Json([[row["period"], row["post_count"]] for row in found])


async def running_imports(request: PageRequest) -> list[Mapping[str, Any]]:
    """Return the imports of posts that run; none if the person may not see jobs."""
    jobs = await request.rows("list_jobs")
    wanted = ("import_posts", "open_posts")
    return [job for job in jobs if job["operation"] in wanted and job["status"] == "running"]


MOST_SHOWN = 100
"""Rows that could not be used."""

KINDS: Mapping[str, Message] = {
    "twilog.csv": say("posts (CSV)"),
    "x_archive": say("archive of X"),
    "results": say("results of a model"),
    "vectors of content": say("vectors of contents"),
    "vectors of reasoning": say("vectors of reasoning"),
    "vectors of summary": say("vectors of summaries"),
}

_FOLDERS = ("embeddings", "reasoning", "summary")
_FIELDS = ("files", *_FOLDERS, "report")


async def form(request: PageRequest) -> WholePage:
    """Show the form, and the job of the query or one that runs."""
    key = request.query.get("job", "")
    running = await running_imports(request)
    job = await _import_job(request, key) if key else next(iter(running), None)
    values = dict.fromkeys((*_FIELDS, "prune"), "")
    allowed = request.may("import_posts")
    context = {"values": values, "errors": {}, "allowed": allowed, **_progress_context(job, key)}
    return WholePage("posts/import.html", say("Import posts"), context, module="post_drop")


async def start(request: PageRequest) -> PageAnswer:
    """Start the import of the files in the form."""
    given = await request.form()
    sample = given.get("sample") == "true"
    values = {name: given.get(name, "").strip() for name in (*_FIELDS, "prune")}
    files = [path for line in values["files"].splitlines() if (path := _read_path(line))]
    folders = {name: _read_path(values[name]) or None for name in (*_FOLDERS, "report")}
    if not (sample or files or any(folders[name] for name in _FOLDERS)):
        problem = say("Name at least one file or folder.")
        return _rejected_form(values, {"files": problem.render(request.lang)})
    try:
        job = await request.call(
            "import_posts",
            files=files,
            prune=bool(values["prune"]) and not sample,
            sample=sample or None,
            **({} if sample else folders),
        )
    except BadArguments as error:
        return _rejected_form(values, {"files": error.text(request.lang)})
    return Redirect(f"/posts/import?job={job['job']}")


async def check_upload(request: PageRequest) -> Json:
    """Return why files of so many bytes cannot be sent now; empty if they can."""
    _require_import(request)
    given = request.query.get("size", "")
    problem = request.uploads.problem(int(given) if given.isdecimal() else 0)
    return Json({"problem": problem.render(request.lang) if problem else ""})


async def upload(request: PageRequest) -> Json:
    """Receive files that were dropped or chosen, and start their import."""
    _require_import(request)
    key, names = await request.uploads.receive(request.stream())
    try:
        job = await request.call("import_posts", files=names, upload=key)
    except BaseException:
        await request.uploads.remove(key)
        raise
    return Json({"job": job["job"], "url": f"/posts/import?job={job['job']}"})


def _require_import(request: PageRequest) -> None:
    """Raise Forbidden before anything is received from somebody who may not import posts."""
    if not request.may("import_posts"):
        raise Forbidden(say("An administrator of this hub can import posts."))


def _rejected_form(values: Mapping[str, str], errors: Mapping[str, str]) -> Fragment:
    context = {"values": values, "errors": errors, "allowed": True}
    return Fragment("posts/import_form.html", context, status=422)


def _read_path(text: str) -> str:
    """Return a path as it was typed or dropped: without quotes, and with ~ as the home of the hub's user."""
    text = text.strip().strip("'\"")
    if not text.startswith("~"):
        return text
    try:
        return str(Path(text).expanduser())
    except RuntimeError:  # ~somebody, who does not exist
        return text


async def progress(request: PageRequest) -> Fragment:
    """Return the state of a job."""
    key = request.query.get("job", "")
    context = _progress_context(await _import_job(request, key), key)
    return Fragment("posts/import_progress.html", context)


async def cancel(request: PageRequest) -> Fragment:
    """Stop an import."""
    job = await request.call("cancel_job", job=request.query.get("job", ""))
    return Fragment("posts/import_progress.html", _progress_context(job))


async def _import_job(request: PageRequest, key: str) -> Mapping[str, Any] | None:
    """Return the state of a job; None if the hub does not know it (any more)."""
    try:
        found: Mapping[str, Any] = await request.call("follow_job", job=key, wait=0)
    except UnknownName:
        return None
    except TabaneError:
        if not key:
            return None
        raise
    return found if found["operation"] in ("import_posts", "open_posts") else None


def _progress_context(job: Mapping[str, Any] | None, key: str = "") -> dict[str, Any]:
    """Return what the templates need of a job. ``key`` is the one of the address, which may be forgotten."""
    result = (job or {}).get("result") or {}
    bad = result.get("bad_rows", [])
    sources = [
        {
            **each,
            "name": Path(each["source"]).name or each["source"],
            "kind": KINDS.get(each["kind"], each["kind"]),
        }
        for each in result.get("sources", [])
    ]
    return {
        "job": job,
        "lost": bool(key) and job is None,
        "report": result if "sources" in result else None,
        "sentences": _report_sentences(result) if "sources" in result else [],
        "unchanged": bool(result.get("unchanged_files")),
        "sources": sources,
        "bad_rows": bad[:MOST_SHOWN],
        "more_bad": max(0, result.get("bad", 0) - MOST_SHOWN),
    }


def _report_sentences(report: Mapping[str, Any]) -> list[Message]:
    """Return the result of an import in words."""
    new, changed, there = report["new"], report["changed"], report["unchanged"]
    removed, bad = report["removed"], report["bad"]
    found = [
        (new, say("{count:,} new {count:post was|posts were} imported.", count=new)),
        (changed, say("{count:,} {count:post|posts} changed.", count=changed)),
        (there, say("{count:,} {count:post was|posts were} there already.", count=there)),
        (removed, say("{count:,} {count:post was|posts were} removed.", count=removed)),
        (bad, say("{count:,} {count:row|rows} could not be read: the reasons are below.", count=bad)),
    ]
    nothing = [] if new or changed or removed else [say("There is nothing new in the files.")]
    return [*nothing, *(sentence for count, sentence in found if count)]


ROUTES = (
    PageRoute("/posts/import", form),
    PageRoute("/posts/import", start, method="POST"),
    PageRoute("/posts/import/upload", check_upload),
    PageRoute("/posts/import/upload", upload, method="POST"),
    PageRoute("/posts/import/progress", progress),
    PageRoute("/posts/import/cancel", cancel, method="POST"),
    PageRoute("/posts", timeline),
    PageRoute("/posts/list", listed),
    PageRoute("/posts/months", months),
    PageRoute("/posts/facets", facets),
    PageRoute("/posts/users", users),
    PageRoute("/posts/tags", tags),
    PageRoute("/posts/statistics", statistics),
    PageRoute("/posts/{post_id:int}", one),
    PageRoute("/posts/{post_id:int}/related", related),
)
