"""What to say to an assistant first: a request that uses one of its servers."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from tabane.messages import Message, say
from tabane.servers.assistants.importing import is_off
from tabane.servers.foreign_keys import our_definition

_REQUESTS: tuple[tuple[str, Message], ...] = (
    ("filesystem", say("List the files in {place}, newest first.")),
    ("time", say("What time is it in Tokyo and in New York?")),
    ("github", say("Which pull requests on GitHub wait for my review?")),
    ("gitlab", say("Which merge requests on GitLab wait for my review?")),
    ("git", say("Summarize the last five commits of this repository.")),
    ("fetch", say("Read https://example.com and tell me what it says.")),
    ("linear", say("Which issues are assigned to me in Linear?")),
    ("notion", say("Find the newest pages in my Notion.")),
    ("slack", say("What was said in Slack today that needs my answer?")),
    ("jira|atlassian", say("Which issues are assigned to me in Jira?")),
    ("sentry", say("Which errors are new in Sentry this week?")),
    ("postgres|sqlite|mysql|dbhub|supabase", say("Which tables does my database have?")),
    ("playwright|puppeteer|browser", say("Open https://example.com in the browser and describe the page.")),
    ("brave|tavily|exa|search", say("Search the web for what is new in MCP.")),
    ("context7", say("How do I use the newest version of this project's main library?")),
    ("memory", say("Remember that I prefer short answers.")),
)


def request_after(
    written: Mapping[str, Any], moved: Container[str], failed: Container[str]
) -> Message | None:
    """Return what to say first after a setup: about a server that has just moved, if one can be used.

    ``written`` are the definitions of the servers file.
    """
    ours = {
        name: our_definition(each.items()).values
        for name, each in sorted(written.items(), key=lambda pair: pair[0] not in moved)
        if isinstance(each, dict) and name not in failed
    }
    request = first_request({name: each for name, each in ours.items() if not is_off(each)})
    return request[1] if request is not None else None


def first_request(servers: Mapping[str, Mapping[str, Any]]) -> tuple[str, Message] | None:
    """Return a server and a request that uses it; None if there is no server.

    ``servers`` are definitions with our keys, by name. One that needs no account comes first.
    """
    for pattern, request in _REQUESTS:
        for name, definition in servers.items():
            parts = [name, definition.get("command"), definition.get("url"), *(definition.get("args") or ())]
            text = " ".join(part for part in parts if isinstance(part, str)).lower()
            if re.search(rf"(?<![a-z])(?:{pattern})(?![a-z])", text):
                words = definition.get("args") or ()
                folders = [part for part in words if isinstance(part, str) and part.startswith(("/", "~"))]
                return name, Message(request.template, place=folders[-1] if folders else "~")
    for name in servers:
        return name, say("Which tools does {server} have? Try one that only reads.", server=name)
    return None
