"""Results of the operations on posts, as rows for programs and as text for readers; pure.

A model wrote reasoning, summary and tags for search only. No text shows them, and no assistant gets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabane.messages import Lang, Message, say
from tabane.posts.post import Post

Row = dict[str, Any]

FOR_SEARCH = ("reasoning", "summary", "tags")
"""Members of a post that were written for search only."""


SHOWN = 20
"""Characters of a vector that a text shows."""


class PostRows(list[Row]):
    """A list of rows as sent over the wire, with extra information for its text.

    ``asked`` is the query. ``warning`` says why posts may be missing.
    """

    def __init__(self, rows: Sequence[Row] = (), asked: str = "", warning: Message | None = None) -> None:
        super().__init__(rows)
        self.asked, self.warning = asked, warning


def row(post: Post) -> Row:
    """Return a post for programs. Members that were written for search are included if not empty."""
    row: Row = {
        "post_id": post.post_id,
        "post_id_str": str(post.post_id),
        "content": post.content,
        "timestamp": post.timestamp,
        "url": post.url,
        "user": post.user,
        "log_type": post.log_type,
    }
    made = {"reasoning": post.reasoning, "summary": post.summary, "tags": list(post.tags)}
    return row | {name: value for name, value in made.items() if value}


def structured(value: Any, lang: Lang) -> Any:
    """Return the answer as structured content: an object, without the members for search."""
    if isinstance(value, PostRows):
        answer: Row = {"results": [lean(each) for each in value]}
        return answer if value.warning is None else answer | {"warning": value.warning.render(lang)}
    return lean(value)


def lean(value: Row) -> Row:
    """Return a row, and the post in it, without the members for search."""
    return {
        name: lean(part) if isinstance(part, dict) else part
        for name, part in value.items()
        if name not in FOR_SEARCH
    }


def number(value: int) -> str:
    """Format a number with thousands separators."""
    return f"{value:,}"


def similar(rows: PostRows, lang: Lang) -> str:
    """Format numbered posts with their similarity scores."""
    head = say('🔍 Search results: {count} (query: "{query}")', count=number(len(rows)), query=rows.asked)
    if not rows:
        head = say("No search results were found")
    entries = [(f"[{entry['score']:.3f}] ", entry["post"]) for entry in rows]
    return _post_list(head, entries, rows.warning, lang)


def holding(rows: PostRows, lang: Lang) -> str:
    """Format numbered posts that were found by their text."""
    head = say('📝 Text search results: {count} (term: "{query}")', count=number(len(rows)), query=rows.asked)
    if not rows:
        head = say('No search results were found (term: "{query}")', query=rows.asked)
    return _post_list(head, [("", post) for post in rows], rows.warning, lang)


def related(rows: PostRows, lang: Lang) -> str:
    """Format numbered posts that are similar to one post, with their scores."""
    head = say("🔗 Related posts: {count} (of {post_id})", count=number(len(rows)), post_id=rows.asked)
    entries = [(f"[{entry['score']:.3f}] ", entry["post"]) for entry in rows]
    return _post_list(head, entries, rows.warning, lang)


def post(value: Row, lang: Lang) -> str:
    """Format one post."""
    return "\n".join((_post_line(value), _indented_text(str(value["content"]), "")))


def _post_list(head: Message, entries: Sequence[tuple[str, Row]], warning: Message | None, lang: Lang) -> str:
    lines = [head.render(lang)]
    if entries or warning is not None:
        lines.append("")
    if warning is not None:
        lines += [f"⚠ {warning.render(lang)}", ""]
    for place, (score, entry) in enumerate(entries, 1):
        lines += [f"{place}. {score}{_post_line(entry)}", _indented_text(str(entry["content"]), "   "), ""]
    return "\n".join(lines)


def _post_line(entry: Row) -> str:
    """Format ``@alice (2024-03-15 14:30:25) https://…`` without the unknown parts."""
    parts = (
        f"@{entry['user']}" if entry["user"] else "",
        f"({entry['timestamp']})" if entry["timestamp"] else "",
        str(entry["url"]),
    )
    return " ".join(part for part in parts if part)


def _indented_text(content: str, margin: str) -> str:
    """Indent the text. Line breaks are kept, empty lines are removed."""
    return "\n".join(margin + line.rstrip() for line in content.splitlines() if line.strip())


def user_stats(rows: PostRows, lang: Lang) -> str:
    """Format users with their numbers of posts."""
    head = say("👥 Posts by user (top {count})", count=number(len(rows))).render(lang)
    lines = (
        say(
            "{place}. {user}: {count} {count:post|posts}",
            place=place,
            user=each["user"],
            count=number(each["post_count"]),
        )
        for place, each in enumerate(rows, 1)
    )
    return "\n".join((head, "", *(line.render(lang) for line in lines)))


def database_stats(value: Row, lang: Lang) -> str:
    """Format the size and the period of the archive."""
    lines = [
        say("📊 Database statistics"),
        say("Posts: {count}", count=number(value["total_posts"])),
        say("Users: {count}", count=number(value["total_users"])),
    ]
    span = value["date_range"]
    if span["earliest"] is not None:
        lines.append(say("Period: {earliest} to {latest}", earliest=span["earliest"], latest=span["latest"]))
    return "\n".join(line.render(lang) for line in lines)


def status(value: Row, lang: Lang) -> str:
    """Format the state of the archive."""
    ready, counts = value["ready"], value["data_stats"]
    lines = [
        say("{light} Tabane Status", light="🟢" if ready else "🔴"),
        say("State: running") if ready else say("State: stopped"),
        say("Server type: {server_type}", server_type=value["server_type"]),
        say("Model: {model}", model=value["model"] or "–"),
        say("📊 Data statistics:"),
        say("・Posts: {count}", count=number(counts["total_posts"])),
        say("・Users: {count}", count=number(counts["total_users"])),
        say("・Summaries: {count}", count=number(counts["total_summaries"])),
        say("・Tags: {count}", count=number(counts["total_tags"])),
    ]
    return "\n".join(line.render(lang) for line in lines)


def suggestions(value: Mapping[str, Sequence[str]], lang: Lang) -> str:
    """Format the suggested users for each unknown name."""
    if not value:
        return say("All of these users have posts in the archive.").render(lang)
    lines = (
        say("{name} → {users}", name=name, users=", ".join(users) or "–") for name, users in value.items()
    )
    return "\n".join(line.render(lang) for line in lines)


def users(names: Sequence[str], lang: Lang) -> str:
    """Format names of users, one a line."""
    return "\n".join(names)


def counted(rows: PostRows, lang: Lang) -> str:
    """Format values or periods, each with its number of posts."""
    lines = (
        say(
            "{value}: {count} {count:post|posts}",
            value=next(iter(each.values())),
            count=number(each["post_count"]),
        )
        for each in rows
    )
    return "\n".join(line.render(lang) for line in lines)


def embedded(value: Row, lang: Lang) -> str:
    """Format the size and the beginning of a vector. The whole vector would fill an assistant's context."""
    vector = str(value["vector"])
    lines = (
        say("The text was embedded:"),
        say("Length of the base64 data: {count} {count:character|characters}", count=number(len(vector))),
        say(
            "Base64 data (first {count} {count:character|characters}): {text}...",
            count=SHOWN,
            text=vector[:SHOWN],
        ),
    )
    return "\n".join(line.render(lang) for line in lines)


def beginning_of_vector(value: Row, lang: Lang) -> Row:
    """Return the size and the beginning of a vector as structured content.

    RPC clients get the whole vector.
    """
    vector = str(value["vector"])
    return {"length": len(vector), "first": vector[:SHOWN]}
