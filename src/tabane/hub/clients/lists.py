"""tools/list, prompts/list, resources/list and resources/templates/list: in pages, for either era."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.gateway import gateway as gateways
from tabane.wire import cursors, json
from tabane.wire import era as eras
from tabane.wire.era import Era, Refusal
from tabane.wire.json import Members

if TYPE_CHECKING:
    from tabane.hub.clients.session import Session

PAGE = 1000
"""Items of a page: more than nearly everybody has, since not every client asks for the next."""


def list_tools(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    after = _after(params, "tools")
    if session.hub.list_is_ready(session.mode):
        _give_tools(session, request_id, after)
    else:
        session.run(request_id, _tools_when_ready(session, request_id, after))


async def _tools_when_ready(session: Session, request_id: Raw, after: str | None) -> None:
    await session.hub.gateway.wait_listed(session.caller)
    _give_tools(session, request_id, after)


def _give_tools(session: Session, request_id: Raw, after: str | None) -> None:
    session.saw_tools()
    hub, modern = session.hub, session.era is Era.MODERN
    if after is None and hub.tool_count(session.mode) <= PAGE:
        inside, following = hub.tool_list(session.mode), None
    else:
        inside, following = _page(hub.tool_items(session.mode), "tools", after)
    # In mode search the list is fixed by settings, so nothing of a server bounds how long it holds.
    holds = None if not modern else gateways.HOLDS if session.mode == "search" else hub.gateway.holds("tools")
    session.answer(request_id, listed("tools", inside, following, holds))


async def list_prompts(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    after = _after(params, "prompts")
    await session.hub.gateway.fresh("prompts", session.caller)
    _give(session, request_id, "prompts", session.hub.gateway.prompts.items(), after)


async def list_resources(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    after = _after(params, "resources")
    await session.hub.gateway.fresh("resources", session.caller)
    _give(session, request_id, "resources", session.hub.gateway.resources.items(), after)


async def list_templates(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    after = _after(params, "resourceTemplates")
    await session.hub.gateway.fresh("resources", session.caller)
    _give(session, request_id, "resourceTemplates", session.hub.gateway.resources.template_items(), after)


def _give(
    session: Session, request_id: Raw, key: str, items: Sequence[tuple[str, bytes]], after: str | None
) -> None:
    inside, following = _page(items, key, after)
    kind = "prompts" if key == "prompts" else "resources"
    holds = session.hub.gateway.holds(kind) if session.era is Era.MODERN else None
    session.answer(request_id, listed(key, inside, following, holds))


def listed(key: str, inside: bytes, following: str | None, holds: float | None) -> bytes:
    """The result of a list: ``inside`` are the items joined by commas, ``following`` the next cursor.

    ``holds`` are the seconds for which a modern client may keep it, None for a client that is not told.
    What one user's servers have is nobody else's, so it is private whatever they say of it.
    """
    head = b""
    if holds is not None:
        head = b'"resultType":"complete","ttlMs":%d,"cacheScope":"private",' % (holds * 1000)
    tail = b',"nextCursor":' + json.quote(following) if following is not None else b""
    return b'{%b"%b":[%b]%b}' % (head, key.encode(), inside, tail)


def _page(items: Sequence[tuple[str, bytes]], kind: str, after: str | None) -> tuple[bytes, str | None]:
    definitions = dict(items)
    part, following = cursors.page(list(definitions), after, PAGE)
    inside = b",".join(definitions[key] for key in part)
    return inside, None if following is None else cursors.encode(kind, following)


def _after(params: Members, kind: str) -> str | None:
    cursor = params.get("cursor")
    if cursor is None or bytes(cursor) == b"null":
        return None
    given = json.text(cursor)
    if given is None:
        raise Refusal(eras.INVALID_PARAMS, "cursor: a string that a list gave as nextCursor is required")
    return cursors.decode(given, kind)
