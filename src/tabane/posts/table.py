"""Declarations of the operations on posts. What answers them is imported on first use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.messages import Message, say
from tabane.operations import Caller, Face, Operation, Privilege, Progress
from tabane.posts import parameters as given
from tabane.posts import rendered_text as texts

if TYPE_CHECKING:
    from tabane.posts.operations import Archive

EVERYWHERE = frozenset({Face.MCP, Face.RPC, Face.CLI})
PERSON = frozenset({Face.RPC, Face.CLI})


def posts_table(posts: Callable[[], Archive]) -> list[Operation]:
    """Return the operations that find, read and count posts."""
    return [*_for_assistants(posts), *_for_persons(posts), *_for_pages(posts), *_streams(posts)]


def import_table(
    run: Callable[[Caller, given.ImportPosts, Progress], Awaitable[dict[str, Any]]],
) -> list[Operation]:
    """Return the operation that imports posts."""
    return [
        Operation(
            "import_posts",
            "Import posts from a twilog.csv, an archive of X, a model's results, or folders of vectors.",
            given.ImportPosts, run, PERSON, Privilege.ADMIN, kind="job", title=import_title,
        )
    ]  # fmt: skip


def import_title(params: given.ImportPosts) -> Message:
    """Return the title of an import: the names of its first files."""
    named = [*params.files, *filter(None, (params.embeddings, params.reasoning, params.summary))]
    if params.sample:
        named.append("sample")
    return say("Importing {files}", files=", ".join(Path(path).name for path in named[:3]))


def _for_assistants(posts: Callable[[], Archive]) -> list[Operation]:
    return [
        _read(
            "search_similar",
            "Search the user's archive of posts (tweets on X/Twitter, likes, bookmarks) by meaning or topic: "
            "my old tweets about something. Returns posts, best first.",
            given.SearchSimilar, lambda c, p: posts().search_similar(c, p), texts.similar,
        ),
        _read(
            "search_posts_by_text",
            "Find posts (tweets) that contain exact words or a phrase, newest first. To search by meaning, "
            "use search_similar.",
            given.SearchText, lambda c, p: posts().search_posts_by_text(c, p), texts.holding,
        ),
        _read(
            "get_user_stats",
            "Count who posts (tweets) most: the users of the archive by number of posts.",
            given.UserStats, lambda c, p: posts().get_user_stats(c, p), texts.user_stats,
        ),
        _read(
            "get_database_stats",
            "Get size and period of the post archive: how many posts (tweets), from when to when.",
            given.NoPostParameters, lambda c, p: posts().get_database_stats(c, p), texts.database_stats,
        ),
        _read(
            "suggest_users",
            "Suggest the nearest user names for names that are not in the post archive. Use it when "
            "user_filter finds no posts of a user.",
            given.SuggestUsers, lambda c, p: posts().suggest_users(c, p), texts.suggestions,
        ),
        _read(
            "get_status",
            "Show the state of the post archive: whether it is loaded, its model, its number of posts.",
            given.Status, lambda c, p: posts().get_status(c, p), texts.status,
        ),
        _read(
            "get_post", "Get one post (tweet) in full, by its post_id.",
            given.OnePost, lambda c, p: posts().get_post(c, p), texts.post,
        ),
        _read(
            "embed_text",
            "Turn a text into an embedding vector (base64 of safetensors).",
            given.EmbedText, lambda c, p: posts().embed_text(c, p), texts.embedded,
            structured=texts.beginning_of_vector,
        ),
    ]  # fmt: skip


def _for_persons(posts: Callable[[], Archive]) -> list[Operation]:
    return [
        _read(
            "get_user_list", "List all users of the post archive.",
            given.NoPostParameters, lambda c, p: posts().get_user_list(c, p), texts.users, PERSON, None,
        ),
        _read(
            "get_related_posts", "Find posts similar to a post.",
            given.RelatedPosts, lambda c, p: posts().get_related_posts(c, p), texts.related, PERSON, None,
        ),
        _read(
            "get_timeline", "Count posts by year, month or day, of one user or all.",
            given.Timeline, lambda c, p: posts().get_timeline(c, p), texts.counted, PERSON, None,
        ),
        _read(
            "get_post_facets", "Count posts by tag, kind or user.",
            given.Facet, lambda c, p: posts().get_post_facets(c, p), texts.counted, PERSON, None,
        ),
    ]  # fmt: skip


def _for_pages(posts: Callable[[], Archive]) -> list[Operation]:
    return [
        _page(
            "find_posts",
            "Find posts by meaning and keywords, each with what matched and the parts of its score.",
            given.FindPosts, lambda c, p: posts().browsing.find_posts(c, p),
        ),
        _page(
            "list_posts", "List posts, newest first, in pages.",
            given.ListPosts, lambda c, p: posts().browsing.list_posts(c, p),
        ),
        _page(
            "list_post_users", "List users by number of posts, in pages.",
            given.ListCounted, lambda c, p: posts().browsing.list_post_users(c, p),
        ),
        _page(
            "list_post_tags", "List tags by number of posts, in pages.",
            given.ListCounted, lambda c, p: posts().browsing.list_post_tags(c, p),
        ),
    ]  # fmt: skip


def _streams(posts: Callable[[], Archive]) -> list[Operation]:
    return [
        _stream(
            "vector_search", "Rank all posts by similarity to a query.",
            given.VectorSearch, lambda c, p: posts().vector_search(c, p),
        ),
        _stream(
            "export_posts", "Export posts as CSV or JSON lines.",
            given.ExportPosts, lambda c, p: posts().export_posts(c, p),
        ),
    ]  # fmt: skip


def _read(
    name: str,
    description: str,
    params: Any,
    handler: Any,
    text: Any,
    faces: Any = EVERYWHERE,
    structured: Any = texts.structured,
) -> Operation:
    return Operation(
        name, description, params, handler, faces, Privilege.READ, text=text, read_only=True,
        camel_case=True, public=True, structured=structured,
    )  # fmt: skip


def _page(name: str, description: str, params: Any, handler: Any) -> Operation:
    return _read(name, description, params, handler, None, PERSON, None)


def _stream(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(
        name, description, params, handler, PERSON, Privilege.READ, kind="stream", read_only=True,
        camel_case=True, public=True,
    )  # fmt: skip
