"""Pages of the post archive: timeline, one post, users, tags, statistics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tabane.errors import BadArguments, TabaneError, UnknownName
from tabane.messages import Message, say
from tabane.web.page import Fragment, Json, PageRequest, PageRoute, WholePage
from tabane.web.pages.marked_text import text_parts
from tabane.web.pages.post_filters import PostFilterQuery

PER_PAGE = 30
NAMES_PER_PAGE = 100
MOST_DUPLICATES = 20
FEW = 10

LOG_TYPES: Mapping[int, Message] = {2: say("Like"), 3: say("Bookmark")}
TYPE_NAMES: Mapping[int, Message] = {1: say("Posts"), 2: say("Likes"), 3: say("Bookmarks")}
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


async def timeline(request: PageRequest) -> WholePage:
    """Show the posts, newest first."""
    size = await request.call("get_database_stats")
    jobs = await running_imports(request)
    if not size["total_posts"]:
        return WholePage("posts/empty.html", say("Posts"), {"jobs": jobs})
    page = await _listed(request)
    status = await request.call("get_status")
    context = {
        "size": size,
        "data": status["data_stats"],
        "jobs": jobs,
        "filters": PostFilterQuery.of(request.query),
        "given": {name: request.query.get(name, "") for name in ("q", "user", "tag", "type", "from", "to")},
        **page,
    }
    return WholePage("posts/timeline.html", say("Posts"), context, module="posts")


async def listed(request: PageRequest) -> Fragment:
    """Return the next posts of the timeline."""
    return Fragment("posts/list.html", await _listed(request))


async def _listed(request: PageRequest) -> dict[str, Any]:
    filters, text = PostFilterQuery.of(request.query), request.query.get("q", "")[:1000]
    found = await request.call(
        "list_posts",
        limit=PER_PAGE,
        cursor=request.query.get("cursor"),
        search_term=text or None,
        **filters.parameters(),
    )
    rows, day = _by_day(found["results"], request.query.get("day", ""))
    more = ""
    if found["next_cursor"]:
        more = "/posts/list?" + filters.query(q=text, cursor=found["next_cursor"], day=day)
    return {"rows": rows, "total": found.get("total"), "more": more}


def _by_day(results: Sequence[Mapping[str, Any]], day: str) -> tuple[list[dict[str, Any]], str]:
    """Return posts as the template has them; the first one of each day has the day as its heading."""
    rows = []
    for each in results:
        post = shown_post(each["post"], each["marks"])
        post["heading"] = post["day"] if post["day"] != day else ""
        day = post["day"]
        rows.append(post)
    return rows, day


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
    same = await request.call("list_posts", duplicates_of=key, limit=MOST_DUPLICATES)
    others = [shown_post(row["post"]) for row in same["results"] if row["post"]["post_id_str"] != key]
    title = say("Post of @{user}", user=post["user"]) if post["user"] else say("Post {id}", id=key)
    context = {"post": shown_post(post), "title": title, "duplicates": others, "modes": MODES}
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
    return await _counted(request, "user", say("Users"))


async def tags(request: PageRequest) -> WholePage | Fragment:
    """Show the tags with their numbers of posts."""
    return await _counted(request, "tag", say("Tags"))


async def _counted(request: PageRequest, member: str, title: Message) -> WholePage | Fragment:
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
    """Show the size of the archive, posts by year and type, and the most frequent users and tags."""
    size = await request.call("get_database_stats")
    status = await request.call("get_status")
    years = await request.call("get_timeline", unit="year")
    kinds = await request.call("get_post_facets", field="log_type")
    top_users = await request.call("list_post_users", limit=FEW)
    top_tags = await request.call("list_post_tags", limit=FEW)
    codes = {"post": 1, "like": 2, "bookmark": 3}
    context = {
        "size": size,
        "data": status["data_stats"],
        "model": status["model"],
        "years": [(row["period"], row["post_count"]) for row in reversed(years)],
        "kinds": [(TYPE_NAMES[codes.get(row["value"], 1)], row["post_count"]) for row in kinds],
        "users": [(row["user"], row["post_count"]) for row in top_users["results"]],
        "tags": [(row["tag"], row["post_count"]) for row in top_tags["results"]],
    }
    return WholePage("posts/statistics.html", say("Statistics"), context)


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
    if not request.may("list_jobs"):
        return []
    jobs = (await request.call("list_jobs"))["results"]
    wanted = ("import_posts", "open_posts")
    return [job for job in jobs if job["operation"] in wanted and job["status"] == "running"]


ROUTES = (
    PageRoute("/posts", timeline),
    PageRoute("/posts/list", listed),
    PageRoute("/posts/months", months),
    PageRoute("/posts/users", users),
    PageRoute("/posts/tags", tags),
    PageRoute("/posts/statistics", statistics),
    PageRoute("/posts/{post_id:int}", one),
    PageRoute("/posts/{post_id:int}/related", related),
)
