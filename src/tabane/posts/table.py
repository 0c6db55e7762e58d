"""Operations on posts: parameters, declarations, and their results as rows and as text for readers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from tabane.messages import Lang, Message, say
from tabane.operations import EVERYONE, Caller, NoParameters, Opener, Operation, Privilege, Progress, bound
from tabane.posts import query
from tabane.posts.post import Post, Unit
from tabane.posts.query import (
    DateFilter,
    LogType,
    Mode,
    PostConditions,
    PostSearchOptions,
    Source,
    UserFilter,
)
from tabane.search.source import Keywords

if TYPE_CHECKING:
    from tabane.posts.importing.importer import PostSources

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


def post_row(post: Post) -> Row:
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
    extras = {"reasoning": post.reasoning, "summary": post.summary, "tags": list(post.tags)}
    return row | {name: value for name, value in extras.items() if value}


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


def grouped(value: int) -> str:
    """Format a number with thousands separators."""
    return f"{value:,}"


_ECHOED = 1_000  # characters of a query


def similar_text(rows: PostRows, lang: Lang) -> str:
    """Format numbered posts with their similarity scores."""
    head = say('🔍 Search results: {count} (query: "{query}")', count=grouped(len(rows)), query=_echo(rows))
    if not rows:
        head = say("No search results were found")
    return _post_list(head, rows, lang)


def holding_text(rows: PostRows, lang: Lang) -> str:
    """Format numbered posts that were found by their text."""
    head = say(
        '📝 Text search results: {count} (term: "{query}")', count=grouped(len(rows)), query=_echo(rows)
    )
    if not rows:
        head = say('No search results were found (term: "{query}")', query=_echo(rows))
    return _post_list(head, rows, lang)


def _echo(rows: PostRows) -> str:
    return rows.asked if len(rows.asked) <= _ECHOED else f"{rows.asked[:_ECHOED]}…"


def related_text(rows: PostRows, lang: Lang) -> str:
    """Format numbered posts that are similar to one post, with their scores."""
    head = say("🔗 Related posts: {count} (of {post_id})", count=grouped(len(rows)), post_id=rows.asked)
    return _post_list(head, rows, lang)


def post_text(value: Row, lang: Lang) -> str:
    """Format one post."""
    return "\n".join((_post_line(value), _indented_text(str(value["content"]), "")))


def _post_list(head: Message, rows: PostRows, lang: Lang) -> str:
    lines = [head.render(lang)]
    if rows or rows.warning is not None:
        lines.append("")
    if rows.warning is not None:
        lines += [f"⚠ {rows.warning.render(lang)}", ""]
    for place, row in enumerate(rows, 1):
        score = f"[{row['score']:.3f}] " if "score" in row else ""
        post = row.get("post", row)
        lines += [f"{place}. {score}{_post_line(post)}", _indented_text(str(post["content"]), "   "), ""]
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


def user_stats_text(rows: PostRows, lang: Lang) -> str:
    """Format users with their numbers of posts."""
    head = say("👥 Posts by user (top {count})", count=grouped(len(rows))).render(lang)
    lines = (
        say(
            "{place}. {user}: {count} {count:post|posts}",
            place=place,
            user=each["user"],
            count=grouped(each["post_count"]),
        )
        for place, each in enumerate(rows, 1)
    )
    return "\n".join((head, "", *(line.render(lang) for line in lines)))


def database_stats_text(value: Row, lang: Lang) -> str:
    """Format the size and the period of the archive."""
    lines = [
        say("📊 Database statistics"),
        say("Posts: {count}", count=grouped(value["total_posts"])),
        say("Users: {count}", count=grouped(value["total_users"])),
    ]
    span = value["date_range"]
    if span["earliest"] is not None:
        lines.append(say("Period: {earliest} to {latest}", earliest=span["earliest"], latest=span["latest"]))
    return "\n".join(line.render(lang) for line in lines)


def status_text(value: Row, lang: Lang) -> str:
    """Format the state of the archive."""
    ready, counts = value["ready"], value["data_stats"]
    lines = [
        say("{light} Tabane Status", light="🟢" if ready else "🔴"),
        say("State: running") if ready else say("State: stopped"),
        say("Server type: {server_type}", server_type=value["server_type"]),
        say("Model: {model}", model=value["model"] or "–"),
        say("📊 Data statistics:"),
        say("・Posts: {count}", count=grouped(counts["total_posts"])),
        say("・Users: {count}", count=grouped(counts["total_users"])),
        say("・Summaries: {count}", count=grouped(counts["total_summaries"])),
        say("・Tags: {count}", count=grouped(counts["total_tags"])),
    ]
    return "\n".join(line.render(lang) for line in lines)


def suggestions_text(value: Mapping[str, Sequence[str]], lang: Lang) -> str:
    """Format the suggested users for each unknown name."""
    if not value:
        return say("All of these users have posts in the archive.").render(lang)
    lines = (
        say("{name} → {users}", name=name, users=", ".join(users) or "–") for name, users in value.items()
    )
    return "\n".join(line.render(lang) for line in lines)


def users_text(names: Sequence[str], lang: Lang) -> str:
    """Format names of users, one a line."""
    return "\n".join(names)


def counts_text(rows: PostRows, lang: Lang) -> str:
    """Format values or periods, each with its number of posts."""
    lines = (
        say(
            "{value}: {count} {count:post|posts}",
            value=next(iter(each.values())),
            count=grouped(each["post_count"]),
        )
        for each in rows
    )
    return "\n".join(line.render(lang) for line in lines)


def embedding_text(value: Row, lang: Lang) -> str:
    """Format the size and the beginning of a vector. The whole vector would fill an assistant's context."""
    vector = str(value["vector"])
    lines = (
        say("The text was embedded:"),
        say("Length of the base64 data: {count} {count:character|characters}", count=grouped(len(vector))),
        say(
            "Base64 data (first {count} {count:character|characters}): {text}...",
            count=SHOWN,
            text=vector[:SHOWN],
        ),
    )
    return "\n".join(line.render(lang) for line in lines)


def vector_beginning(value: Row, lang: Lang) -> Row:
    """Return the size and the beginning of a vector as structured content.

    RPC clients get the whole vector.
    """
    vector = str(value["vector"])
    return {"length": len(vector), "first": vector[:SHOWN]}


LONGEST_TERM = 10_000  # characters; a longer query is cut, but terms are conditions
LONGEST_TEXT = 100_000
LARGEST_ID = 2**63 - 1
_MOST_FILES = 1000

TopK = Annotated[int, Meta(ge=1, le=100, extra_json_schema={"default": 10})]
Limit = Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 50})]
PageSize = Annotated[int, Meta(ge=1, le=100)]
PostCursor = Annotated[str, Meta(max_length=1000, description="The next_cursor of the page before.")]
Weights = Annotated[
    list[float], Meta(max_length=16, description="Of content, reasoning, summary; for average and weighted.")
]
Tags = Annotated[
    list[Annotated[str, Meta(max_length=200)]], Meta(max_length=100, description="Any of these.")
]
LogTypes = Annotated[list[LogType], Meta(max_length=16)]

Diversity = Annotated[float, Meta(ge=0, le=1, extra_json_schema={"hidden": True})]
"""0 is the ranking as it is; the more, the less the posts say the same."""

_NAMES = {"type": "array", "items": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 0}
UserFilterObject = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "properties": {
                "includes": _NAMES, "excludes": _NAMES, "threshold_min": _COUNT, "threshold_max": _COUNT,
            },
        }
    ),
]  # fmt: skip
DateFilterObject = Annotated[
    dict[str, Any],
    Meta(
        description="YYYY-MM-DD [HH:MM:SS], both ends included.",
        extra_json_schema={"properties": {"from": {"type": "string"}, "to": {"type": "string"}}},
    ),
]
FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]
PostId = Annotated[int, Meta(ge=0, le=LARGEST_ID)] | Annotated[str, Meta(pattern="^[0-9]{1,19}$")]


class Status(Struct, frozen=True, forbid_unknown_fields=True):
    """``websocket_url`` is accepted because the original tool had it. The called hub always answers."""

    websocket_url: Annotated[str, Meta(max_length=2048, extra_json_schema={"hidden": True})] | None = None


class PostFilterParameters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conditions on posts: users, dates, tags and kinds."""

    user_filter: UserFilterObject | None = None
    date_filter: DateFilterObject | None = None
    tags: Tags | None = None
    log_type: LogTypes | None = None

    def conditions(self) -> PostConditions:
        """Return the checked conditions. Raises :class:`~tabane.errors.BadArguments` that names the path."""
        return PostConditions(
            query.read(UserFilter, self.user_filter, "user_filter"),
            query.read(DateFilter, self.date_filter, "date_filter"),
            tuple(self.tags or ()),
            tuple(self.log_type or ()),
        )


class SimilarPostParameters(PostFilterParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mode, weights and filters of a search by similarity."""

    mode: Mode | None = None
    weights: Weights | None = None

    def options(self) -> PostSearchOptions:
        """Return the requested ranking. Raises :class:`~tabane.errors.BadArguments` that names the path."""
        weights = None if self.weights is None else tuple(self.weights)
        return PostSearchOptions(
            self.mode or "content", weights, self.conditions(), mode_is_default=self.mode is None
        )


class PostSearchSettings(SimilarPostParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings as one object, as the original's clients send them.

    Older clients send ``remove_duplicates`` and ``mode_settings`` too. Both are accepted and have no effect:
    duplicates are always removed, and the mode is a parameter of its own.
    """

    top_k: TopK | None = None
    diversity: Diversity | None = None
    remove_duplicates: bool | None = None
    mode_settings: dict[str, Any] | None = None


class SearchSimilar(SimilarPostParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A search by similarity, with its settings beside it or in one object."""

    query: Annotated[str, Meta(description="meaning|text; either alone will do.")]
    top_k: TopK | None = None
    diversity: Diversity | None = None
    settings: Annotated[dict[str, Any], Meta(extra_json_schema={"hidden": True})] | None = None
    remove_duplicates: Annotated[bool, Meta(extra_json_schema={"hidden": True})] | None = None

    def merged(self) -> PostSearchSettings:
        """Return the settings, overridden by the parameters beside them."""
        settings = query.read(PostSearchSettings, self.settings, "settings")
        own = {name: getattr(self, name, None) for name in PostSearchSettings.__struct_fields__}
        return PostSearchSettings(
            **{name: getattr(settings, name) if value is None else value for name, value in own.items()}
        )


class VectorSearch(SimilarPostParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A ranking of all posts, or of the first ``top_k``."""

    query: str
    top_k: Annotated[int, Meta(ge=1)] | None = None


class SearchText(PostFilterParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A search for words, in one of the texts of posts."""

    search_term: Annotated[str, Meta(max_length=LONGEST_TERM, description='word "a phrase" -not')]
    limit: Limit | None = None
    source: Source | None = None


class UserStats(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of users to list."""

    limit: Limit | None = None


class SuggestUsers(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of users, as somebody wrote them."""

    user_list: Annotated[list[query.Name], Meta(min_length=1, max_length=100)]


class EmbedText(Struct, frozen=True, forbid_unknown_fields=True):
    """A text to embed as a query."""

    text: Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]


class TermParameters(PostFilterParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conditions on posts, and terms that their content must contain."""

    search_term: Annotated[str, Meta(max_length=LONGEST_TERM, description='word "a phrase" -not')] | None = (
        None
    )


class Timeline(TermParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A count by period. ``user``: only this user's posts."""

    unit: Unit | None = None
    user: query.Name | None = None


class Facet(TermParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A count by the values of a field."""

    field: Literal["tags", "log_type", "user"]
    limit: Limit | None = None


class ListPosts(TermParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``duplicates_of``: only posts of the same user with the same content as this one."""

    limit: PageSize = 50
    cursor: PostCursor | None = None
    duplicates_of: PostId | None = None


class ListCounted(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``prefix`` is the beginning of a name. Case is ignored."""

    prefix: Annotated[str, Meta(max_length=query.LONGEST_NAME)] | None = None
    limit: PageSize = 50
    cursor: PostCursor | None = None


class FindPosts(SimilarPostParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A search whose answer explains each hit. With ``keywords``, the mode has no effect.

    ``typing``: the last word may be unfinished.
    """

    query: Annotated[str, Meta(description="meaning|text; either alone will do.")]
    keywords: Keywords | None = None
    top_k: TopK | None = None
    diversity: Diversity | None = None

    def options(self) -> PostSearchOptions:
        return structs.replace(super().options(), keywords=self.keywords)


class OnePost(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of a post."""

    post_id: PostId


class RelatedPosts(SimilarPostParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A search for posts similar to one post."""

    post_id: PostId
    top_k: TopK | None = None


class ExportPosts(PostFilterParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An export of posts, by default as JSON lines."""

    format: Literal["csv", "jsonl"] | None = None


class ImportPosts(Struct, frozen=True, forbid_unknown_fields=True):
    """Absolute paths on the hub's machine; ``embeddings``, ``reasoning``, ``summary`` are folders of vectors.

    ``prune`` removes posts that have no row in ``files``. ``report`` is a file for all unusable rows.
    ``once`` does nothing if the same files were imported in this way before, and are unchanged. ``sample``
    adds the files of a small archive of invented posts. ``upload`` is the id of an upload of the web page:
    ``files`` are names in it, and it is removed after the import.
    """

    files: Annotated[list[FilePath], Meta(max_length=_MOST_FILES)] = []
    embeddings: FilePath | None = None
    reasoning: FilePath | None = None
    summary: FilePath | None = None
    prune: bool = False
    report: FilePath | None = None
    once: bool = False
    sample: bool = False
    upload: Annotated[str, Meta(pattern="^[0-9a-f]{32}$", extra_json_schema={"hidden": True})] | None = None

    def sources(self) -> PostSources:
        """Return the sources of the import. Raises :class:`~tabane.errors.BadArguments` that names a file."""
        # Late: readers of archives load with the first import.
        from tabane.posts.importing.importer import plan, sample_files

        files = [*self.files, *(sample_files() if self.sample else ())]
        return plan(files, embeddings=self.embeddings, reasoning=self.reasoning, summary=self.summary)


_QUERY: dict[str, Any] = {
    "privilege": Privilege.READ, "camel_case": True, "public": True, "source": "posts",
}  # fmt: skip
_TOOL = _QUERY | {"faces": EVERYONE, "structured": structured}

_OPERATIONS = (
    Operation(
        "search_similar",
        "Search the user's archive of posts (tweets on X/Twitter, likes, bookmarks) by meaning or topic: "
        "my old tweets about something. Returns posts, best first.",
        SearchSimilar, "posts.operations:Archive.search_similar", text=similar_text, **_TOOL,
    ),
    Operation(
        "search_posts_by_text",
        "Find posts (tweets) that contain exact words or a phrase, newest first. To search by meaning, "
        "use search_similar.",
        SearchText, "posts.operations:Archive.search_posts_by_text", text=holding_text, **_TOOL,
    ),
    Operation(
        "get_user_stats",
        "Count who posts (tweets) most: the users of the archive by number of posts.",
        UserStats, "posts.operations:Archive.get_user_stats", text=user_stats_text, **_TOOL,
    ),
    Operation(
        "get_database_stats",
        "Get size and period of the post archive: how many posts (tweets), from when to when.",
        NoParameters, "posts.operations:Archive.get_database_stats", text=database_stats_text, **_TOOL,
    ),
    Operation(
        "suggest_users",
        "Suggest the nearest user names for names that are not in the post archive. Use it when "
        "user_filter finds no posts of a user.",
        SuggestUsers, "posts.operations:Archive.suggest_users", text=suggestions_text, **_TOOL,
    ),
    Operation(
        "get_status",
        "Show the state of the post archive: whether it is loaded, its model, its number of posts.",
        Status, "posts.operations:Archive.get_status", text=status_text, **_TOOL,
    ),
    Operation(
        "get_post", "Get one post (tweet) in full, by its post_id.",
        OnePost, "posts.operations:Archive.get_post", text=post_text, **_TOOL,
    ),
    Operation(
        "embed_text",
        "Turn a text into an embedding vector (base64 of safetensors).",
        EmbedText, "posts.operations:Archive.embed_text", text=embedding_text,
        **_TOOL | {"structured": vector_beginning},
    ),
    Operation(
        "get_user_list", "List all users of the post archive.",
        NoParameters, "posts.operations:Archive.get_user_list", text=users_text, **_QUERY,
    ),
    Operation(
        "get_related_posts", "Find posts similar to a post.",
        RelatedPosts, "posts.operations:Archive.get_related_posts", text=related_text, **_QUERY,
    ),
    Operation(
        "get_timeline", "Count posts by year, month or day, of one user or all.",
        Timeline, "posts.operations:Archive.get_timeline", text=counts_text, **_QUERY,
    ),
    Operation(
        "get_post_facets", "Count posts by tag, kind or user.",
        Facet, "posts.operations:Archive.get_post_facets", text=counts_text, **_QUERY,
    ),
    Operation(
        "find_posts",
        "Find posts by meaning and keywords, each with what matched and the parts of its score.",
        FindPosts, "posts.operations:Archive.find_posts", **_QUERY,
    ),
    Operation(
        "list_posts", "List posts, newest first, in pages.",
        ListPosts, "posts.operations:Archive.list_posts", **_QUERY,
    ),
    Operation(
        "list_post_users", "List users by number of posts, in pages.",
        ListCounted, "posts.operations:Archive.list_post_users", **_QUERY,
    ),
    Operation(
        "list_post_tags", "List tags by number of posts, in pages.",
        ListCounted, "posts.operations:Archive.list_post_tags", **_QUERY,
    ),
    Operation(
        "vector_search", "Rank all posts by similarity to a query.",
        VectorSearch, "posts.operations:Archive.vector_search", kind="stream", **_QUERY,
    ),
    Operation(
        "export_posts", "Export posts as CSV or JSON lines.",
        ExportPosts, "posts.operations:Archive.export_posts", kind="stream", **_QUERY,
    ),
)  # fmt: skip


def posts_table(posts: Opener) -> list[Operation]:
    """Return the operations that find, read and count posts."""
    return bound(_OPERATIONS, Archive=posts)


def import_table(
    run: Callable[[Caller, ImportPosts, Progress], Awaitable[dict[str, Any]]],
) -> list[Operation]:
    """Return the operation that imports posts."""
    return [
        Operation(
            "import_posts",
            "Import posts from a twilog.csv, an archive of X, a model's results, or folders of vectors.",
            ImportPosts, run, kind="job", title=import_title,
        )
    ]  # fmt: skip


def import_title(params: ImportPosts) -> Message:
    """Return the title of an import: the names of its first files."""
    named = [*params.files, *filter(None, (params.embeddings, params.reasoning, params.summary))]
    if params.sample:
        named.append("sample")
    return say("Importing {files}", files=", ".join(Path(path).name for path in named[:3]))
