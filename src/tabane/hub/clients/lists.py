"""tools/list, prompts/list, resources/list and resources/templates/list: in pages, for either era."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.errors import StoreError
from tabane.gateway import gateway as gateways
from tabane.hub.clients import library
from tabane.wire import cursors, json
from tabane.wire import era as eras
from tabane.wire.era import Era, ProtocolRefusal
from tabane.wire.json import Members

if TYPE_CHECKING:
    from tabane.hub.clients.session import Session

log = logging.getLogger(__name__)

PAGE = 1000
"""Items of a page: more than nearly everybody has, since not every client asks for the next."""

HOLDS = 5.0
"""Seconds for which a client may keep a list that documents are in: who puts one, looks for it there."""


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
    """Those of the servers, then the documents: as many as there are, so they are read page by page."""
    after = _after(params, "resources")
    await session.hub.gateway.fresh("resources", session.caller)
    listed: list[bytes] = []
    following: str | None = None
    key = None if after is None else library.key_of(after)
    if key is None:
        items = dict(session.hub.gateway.resources.items())
        uris, following = cursors.page(list(items), after, PAGE)
        listed = [items[uri] for uri in uris]
    if following is None:
        documents, following = await _documents(session, key, PAGE - len(listed))
        listed += documents
    cursor = None if following is None else cursors.list_cursor("resources", following)
    _answer(session, request_id, "resources", b",".join(listed), cursor)


async def _documents(session: Session, after: str | None, most: int) -> tuple[list[bytes], str | None]:
    """The documents behind that key, as a list shows them, and where the next page begins."""
    if not most:
        return [], library.ROOT if session.hub.library.there else None
    try:
        held, more = await session.hub.library.page(after or None, most)
    except StoreError as error:
        if after is not None:
            raise
        # What servers offer is listed all the same.
        log.warning("documents are not listed: %s", error)
        return [], None
    return [*map(library.definition, held)], library.uri_of(held[-1].key) if more else None


async def list_templates(session: Session, request_id: Raw, params: Members, meta: Members) -> None:
    after = _after(params, "resourceTemplates")
    await session.hub.gateway.fresh("resources", session.caller)
    items = [*session.hub.gateway.resources.template_items()]
    if session.hub.library.there:
        items.append((library.TEMPLATE, library.template()))
    _give(session, request_id, "resourceTemplates", items, after)


def _give(
    session: Session, request_id: Raw, key: str, items: Sequence[tuple[str, bytes]], after: str | None
) -> None:
    _answer(session, request_id, key, *_page(items, key, after))


def _answer(session: Session, request_id: Raw, key: str, inside: bytes, following: str | None) -> None:
    kind = "prompts" if key == "prompts" else "resources"
    holds = session.hub.gateway.holds(kind) if session.era is Era.MODERN else None
    if holds is not None and kind == "resources" and session.hub.library.there:
        holds = min(holds, HOLDS)
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
    return inside, None if following is None else cursors.list_cursor(kind, following)


def _after(params: Members, kind: str) -> str | None:
    cursor = params.get("cursor")
    if cursor is None or bytes(cursor) == b"null":
        return None
    given = json.text(cursor)
    if given is None:
        raise ProtocolRefusal(
            eras.INVALID_PARAMS, "cursor: a string that a list gave as nextCursor is required"
        )
    return cursors.key_of_cursor(given, kind)
