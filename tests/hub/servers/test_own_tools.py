"""A search leaves out the hub's own tools that have nothing to work on."""

from __future__ import annotations

import pytest

from tabane.hub.servers.own_tools import LIMITS, idle

NAMES = (
    "search_similar",
    "get_document",
    "put_document",
    "read_url_content",
    "search_everything",
    "get_rate_limit_stats",
    "hello",
)


@pytest.mark.parametrize(
    ("held", "left_out"),
    [
        ((), {"search_similar", "get_document", "search_everything", "get_rate_limit_stats", "hello"}),
        (("posts",), {"get_document", "get_rate_limit_stats", "hello"}),
        (("documents",), {"search_similar", "get_rate_limit_stats", "hello"}),
        (("cache", LIMITS), {"search_similar", "get_document", "hello"}),
        (("posts", "documents", LIMITS), {"hello"}),
    ],
)
def test_what_works_on_something_is_of_use_once_that_is_there(
    held: tuple[str, ...], left_out: set[str]
) -> None:
    assert idle(frozenset(NAMES), lambda domain: domain in held) == left_out
