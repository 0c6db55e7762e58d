"""Parameters of the gateway's operations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class SearchTools(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 5
    server: str | None = None
    tags: Annotated[list[str], Meta(max_length=50)] | None = None
    category: str | None = None
    match: Literal["relevance", "partial", "prefix", "exact", "fuzzy"] = "relevance"


class DescribeTools(Struct, frozen=True, forbid_unknown_fields=True):
    names: Annotated[list[str], Meta(min_length=1, max_length=50)]
    detail: Literal["compact", "full"] = "compact"


class CallTool(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}


class ExecuteParallel(Struct, frozen=True, forbid_unknown_fields=True):
    """``timeout`` is in seconds and for all calls together; each call also has the limit of its server."""

    requests: Annotated[list[CallTool], Meta(min_length=1, max_length=100)]
    max_concurrency: Annotated[int, Meta(ge=1, le=50)] = 10
    timeout: Annotated[float, Meta(gt=0, le=86_400)] | None = None
    continue_on_error: bool = True


class ReadMore(Struct, frozen=True, forbid_unknown_fields=True):
    handle: Annotated[str, Meta(max_length=100)]


class NameParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a tool or of a server."""

    name: Annotated[str, Meta(min_length=1)]


class ListTools(Struct, frozen=True, forbid_unknown_fields=True):
    server: str | None = None


class ServerLogs(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1)]
    lines: Annotated[int, Meta(ge=1, le=10_000)] = 50


class NoServerParams(Struct, frozen=True, forbid_unknown_fields=True):
    pass
