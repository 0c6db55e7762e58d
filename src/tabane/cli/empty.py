"""Messages for empty lists: nothing is there yet, and the command that adds something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tabane.hub.local.client import read_result
from tabane.messages import Message, say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient

NO_SERVERS = say(
    "There are no servers yet. Copy those of your assistants: tabane setup. Or add one: tabane servers add "
    "NAME -- COMMAND"
)
NO_POSTS = say("There are no posts yet. Import an archive: tabane posts import FILE")
NO_DOCUMENTS = say("There are no documents yet. Add files or a folder: tabane docs add PATH")
NO_TOOLS = say("There are no tools. See how the servers are: tabane health --start")
_NOTHING = say(
    "There is nothing to search yet. Add documents: tabane docs add PATH, or posts: tabane posts import FILE"
)


class _ListedServer(Struct):
    name: str
    tools: int | None = None


class _ListedServers(Struct):
    results: list[_ListedServer]


def tools_by_server(hub: HubClient) -> dict[str, int | None]:
    """Return the number of tools of each server that a hub knows; None if it has not listed them yet."""
    return {each.name: each.tools for each in read_result(hub.call("list_servers"), _ListedServers).results}


def no_tools(hub: HubClient) -> Message:
    """Return why no tool is listed."""
    return NO_TOOLS if tools_by_server(hub) else NO_SERVERS


def no_posts(hub: HubClient) -> Message | None:
    """Return that the archive has no posts, or None if it has some."""
    return None if hub.call("get_database_stats").get("total_posts") else NO_POSTS


def no_documents(hub: HubClient) -> Message | None:
    """Return that there are no documents, or None if there are some."""
    return None if hub.call("get_document_stats").get("documents") else NO_DOCUMENTS


def nothing_to_search(hub: HubClient, wanted: Mapping[str, Any]) -> Message | None:
    """Return that what a search of everything is to search is empty, or None if it is not."""
    places = wanted.get("in") or ("posts", "documents")
    missing = [
        empty
        for place, empty in (("documents", no_documents(hub)), ("posts", no_posts(hub)))
        if place in places
    ]
    if not missing or None in missing:
        return None
    return _NOTHING if len(missing) > 1 else missing[0]
