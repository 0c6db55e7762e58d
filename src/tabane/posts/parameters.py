"""The parameters of operations on posts. Null is the same as absent, for every one that may be left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from tabane.posts import filtering
from tabane.posts.clock import Unit
from tabane.posts.filtering import DateFilter, LogType, UserFilter
from tabane.posts.modes import Mode, Source

if TYPE_CHECKING:
    from tabane.posts.searching import Limits, Wish

LONGEST_QUERY = 10_000  # characters
LONGEST_TEXT = 100_000
LARGEST_ID = 2**63 - 1

Text = Annotated[str, Meta(max_length=LONGEST_QUERY)]
TopK = Annotated[int, Meta(ge=1, le=100, extra_json_schema={"default": 10})]
Limit = Annotated[int, Meta(ge=1, le=1000, extra_json_schema={"default": 50})]
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
PostId = Annotated[int, Meta(ge=0, le=LARGEST_ID)] | Annotated[str, Meta(pattern="^[0-9]{1,19}$")]


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Status(Struct, frozen=True, forbid_unknown_fields=True):
    """``websocket_url`` is accepted because the original tool had it. The called hub always answers."""

    websocket_url: Annotated[str, Meta(max_length=2048, extra_json_schema={"hidden": True})] | None = None


class Among(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which posts are meant."""

    user_filter: UserFilterObject | None = None
    date_filter: DateFilterObject | None = None
    tags: Tags | None = None
    log_type: LogTypes | None = None

    def limits(self) -> Limits:
        """The same, checked. Raises :class:`~tabane.errors.BadArguments` that names the path."""
        from tabane.posts.searching import Limits

        return Limits(
            filtering.read(UserFilter, self.user_filter, "user_filter"),
            filtering.read(DateFilter, self.date_filter, "date_filter"),
            tuple(self.tags or ()),
            tuple(self.log_type or ()),
        )


class Similar(Among, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How near posts are found, and which."""

    mode: Mode | None = None
    weights: Weights | None = None

    def wish(self) -> Wish:
        from tabane.posts.searching import Wish

        weights = None if self.weights is None else tuple(self.weights)
        return Wish(self.mode or "content", weights, self.limits(), usual=self.mode is None)


class Settings(Similar, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings as one object, as the original's clients send them.

    Older clients send ``remove_duplicates`` and ``mode_settings`` too. Both are accepted and have no effect:
    duplicates are always removed, and the mode is a parameter of its own.
    """

    top_k: TopK | None = None
    diversity: Diversity | None = None
    remove_duplicates: bool | None = None
    mode_settings: dict[str, Any] | None = None


class SearchSimilar(Similar, frozen=True, forbid_unknown_fields=True, kw_only=True):
    query: Annotated[str, Meta(max_length=LONGEST_QUERY, description="meaning|text; either alone will do.")]
    top_k: TopK | None = None
    diversity: Diversity | None = None
    settings: Annotated[dict[str, Any], Meta(extra_json_schema={"hidden": True})] | None = None
    remove_duplicates: Annotated[bool, Meta(extra_json_schema={"hidden": True})] | None = None

    def merged(self) -> Settings:
        """Settings and the parameters beside them as one: these win, key by key."""
        given = filtering.read(Settings, self.settings, "settings")
        own = {name: getattr(self, name, None) for name in Settings.__struct_fields__}
        return Settings(
            **{name: getattr(given, name) if value is None else value for name, value in own.items()}
        )


class VectorSearch(Similar, frozen=True, forbid_unknown_fields=True, kw_only=True):
    query: Text
    top_k: Annotated[int, Meta(ge=1)] | None = None


class SearchText(Among, frozen=True, forbid_unknown_fields=True, kw_only=True):
    search_term: Annotated[str, Meta(max_length=LONGEST_QUERY, description='word "a phrase" -not')]
    limit: Limit | None = None
    source: Source | None = None


class UserStats(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit | None = None


class SuggestUsers(Struct, frozen=True, forbid_unknown_fields=True):
    user_list: Annotated[list[filtering.Name], Meta(min_length=1, max_length=100)]


class EmbedText(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]


class Timeline(Among, frozen=True, forbid_unknown_fields=True, kw_only=True):
    unit: Unit | None = None
    user: filtering.Name | None = None


class Facet(Among, frozen=True, forbid_unknown_fields=True, kw_only=True):
    field: Literal["tags", "log_type", "user"]
    limit: Limit | None = None


class OnePost(Struct, frozen=True, forbid_unknown_fields=True):
    post_id: PostId


class RelatedPosts(Similar, frozen=True, forbid_unknown_fields=True, kw_only=True):
    post_id: PostId
    top_k: TopK | None = None


class ExportPosts(Among, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Literal["csv", "jsonl"] | None = None
