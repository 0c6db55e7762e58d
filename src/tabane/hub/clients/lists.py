"""tools/list, prompts/list, resources/list and resources/templates/list: in pages, for either era.

A client that shows MCP Apps also gets the tools that only apps may call.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.catalog import gateway as gateways
from tabane.catalog.gateway import Gateway
from tabane.catalog.lookup import may_find, prompt_target, resource_target
from tabane.catalog.offers.resources import ResourceItem
from tabane.errors import StoreError
from tabane.hub.clients import document_resources
from tabane.hub.clients.disclosure import FIXED, Disclosure
from tabane.hub.clients.session import Session, wait_turn
from tabane.hub.clients.task_calls import BYTES_OF_TOKEN
from tabane.operations import Caller, CallTarget, Door, ended
from tabane.wire import cursors, json
from tabane.wire import era as eras
from tabane.wire.era import META_CAPABILITIES, UI, Era, ProtocolRefusal
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import extensions_in
from tabane.workers.eager_start import own_task

if TYPE_CHECKING:
    from tabane.hub.clients.document_resources import ListedDocuments

log = logging.getLogger(__name__)


def shows_apps(session: Session, meta: Members) -> bool:
    """Return whether the client shows apps. ``meta`` belongs to its request.

    Such a client has to know the tools that only apps may call, and hides them from its model. Any other
    client would show them to the model.
    """
    capabilities = session.caller.capabilities if session.era is Era.LEGACY else meta.get(META_CAPABILITIES)
    if capabilities is None or UI.encode() not in bytes(capabilities):
        return False
    try:
        return UI in extensions_in(json.fields(Raw(bytes(capabilities))))
    except InvalidJson:
        return False


PAGE = 1000
"""Items of a page: more than nearly everybody has, since not every client asks for the next."""

TOOLS_LIST = CallTarget("tools/list", source="hub", kind="list", changes=False)

HOLDS = 5.0
"""Seconds for which a client may cache a list with documents: users look there for a new document."""


class ListRequests:
    """Answers requests for lists of every session."""

    def __init__(
        self, gateway: Gateway, disclosure: Disclosure, documents: ListedDocuments, door: Door
    ) -> None:
        self._gateway, self._disclosure, self._documents = gateway, disclosure, documents
        self._door = door

    async def list_tools(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer tools/list, at once if the list is ready and the caller is within its limits."""
        after, apps = after_of(params, "tools"), shows_apps(session, meta)
        shown, modern, access = self._disclosure, session.era is Era.MODERN, session.caller.access
        opened = self._door.admit(session.caller, TOOLS_LIST, b"", bytes(request_id).decode())
        async with ended(opened):
            if opened.waits is not None or not shown.list_is_ready(session.mode, access):
                if opened.waits is not None:
                    await wait_turn(opened)
                await self._gateway.lookup.wait_listed(session.caller)
            session.saw_tools()
            access = session.caller.access
            if after is None and shown.tool_count(session.mode) <= PAGE:
                inside = shown.tool_list(session.mode, access, apps=apps, legacy=not modern)
                following = None
            else:
                items = shown.tool_items(session.mode, access, apps=apps, legacy=not modern)
                inside, following = page_of(items, "tools", after)
            spared = 0 if after is not None else shown.full_size(access) - len(inside)
            recorded = opened.end("ok", len(inside), saved=max(0, spared) // BYTES_OF_TOKEN)
            if recorded is not None:
                await recorded
        # In some modes the list is fixed by settings, so nothing of a server bounds how long it holds.
        fixed = session.mode in FIXED
        holds = (gateways.HOLDS if fixed else self._gateway.holds("tools")) if modern else None
        session.answer(request_id, listed("tools", inside, following, holds))

    async def list_prompts(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer prompts/list with the prompts that the caller may get."""
        after = after_of(params, "prompts")
        await self._gateway.lookup.refresh("prompts", session.caller)
        items, caller = self._gateway.prompts.items(), session.caller
        if not caller.access.everything:
            items = [each for each in items if self._may_find_prompt(caller, each[0])]
        self._give_page(session, request_id, "prompts", items, after)

    def _may_find_prompt(self, caller: Caller, name: str) -> bool:
        prompt = self._gateway.prompts.find(name)
        return prompt is not None and may_find(caller, prompt_target(prompt))

    def _may_find_documents(self, caller: Caller) -> bool:
        return self._documents.there and may_find(caller, document_resources.READING)

    async def list_resources(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer with the resources of the servers, then the documents.

        They are many, so they are read page by page.
        """
        after = after_of(params, "resources")
        await self._gateway.lookup.refresh("resources", session.caller)
        listed: list[bytes] = []
        following: str | None = None
        key = None if after is None else document_resources.key_of(after)
        if key is None:
            items = dict(_visible_resources(session.caller, self._gateway.resources.items()))
            uris, following = cursors.page(list(items), after, PAGE)
            listed = [items[uri] for uri in uris]
        if following is None:
            most = PAGE - len(listed)
            documents, following = await self._listed_documents(session.caller, key, most)
            listed += documents
        cursor = None if following is None else cursors.list_cursor("resources", following)
        self._answer_page(session, request_id, "resources", b",".join(listed), cursor)

    async def _listed_documents(
        self, caller: Caller, after: str | None, most: int
    ) -> tuple[list[bytes], str | None]:
        """Return the documents after that key as list items, and the cursor of the next page."""
        if not self._may_find_documents(caller):
            return [], None
        if not most:
            return [], document_resources.ROOT
        await own_task()
        try:
            found, more = await self._documents.page(after or None, most)
        except StoreError as error:
            if after is not None:
                raise
            # What servers offer is listed all the same.
            log.warning("documents are not listed: %s", error)
            return [], None
        following = document_resources.uri_of(found[-1].key) if more else None
        return [*map(document_resources.definition, found)], following

    async def list_templates(self, session: Session, request_id: Raw, params: Members, meta: Members) -> None:
        """Answer resources/templates/list, with the template for documents if there are any."""
        after = after_of(params, "resourceTemplates")
        await self._gateway.lookup.refresh("resources", session.caller)
        items = _visible_resources(session.caller, self._gateway.resources.template_items())
        if self._may_find_documents(session.caller):
            items.append((document_resources.TEMPLATE, document_resources.template()))
        self._give_page(session, request_id, "resourceTemplates", items, after)

    def _give_page(
        self,
        session: Session,
        request_id: Raw,
        key: str,
        items: Sequence[tuple[str, bytes]],
        after: str | None,
    ) -> None:
        self._answer_page(session, request_id, key, *page_of(items, key, after))

    def _answer_page(
        self, session: Session, request_id: Raw, key: str, inside: bytes, following: str | None
    ) -> None:
        kind = "prompts" if key == "prompts" else "resources"
        holds = self._gateway.holds(kind) if session.era is Era.MODERN else None
        if holds is not None and kind == "resources" and self._documents.there:
            holds = min(holds, HOLDS)
        session.answer(request_id, listed(key, inside, following, holds))


def _visible_resources(caller: Caller, items: Sequence[ResourceItem]) -> list[tuple[str, bytes]]:
    """Return (URI as shown, definition) of what the caller may read."""
    return [
        (each.shown, each.definition)
        for each in items
        if may_find(caller, resource_target(each.server, each.uri))
    ]


def listed(key: str, inside: bytes, following: str | None, holds: float | None) -> bytes:
    """Return the result of a list: ``inside`` are the items joined by commas, ``following`` the next cursor.

    ``holds`` are the seconds for which a modern client may cache it, None for a legacy client. The tools of
    one user's servers concern nobody else, so the list is always private.
    """
    head = b""
    if holds is not None:
        head = b'"resultType":"complete","ttlMs":%d,"cacheScope":"private",' % (holds * 1000)
    tail = b',"nextCursor":' + json.quote(following) if following is not None else b""
    return b'{%b"%b":[%b]%b}' % (head, key.encode(), inside, tail)


def page_of(items: Sequence[tuple[str, bytes]], kind: str, after: str | None) -> tuple[bytes, str | None]:
    """Return the items after that key that fit a page, joined by commas, and the next cursor."""
    definitions = dict(items)
    part, following = cursors.page(list(definitions), after, PAGE)
    inside = b",".join(definitions[key] for key in part)
    return inside, None if following is None else cursors.list_cursor(kind, following)


def after_of(params: Members, kind: str) -> str | None:
    """Return the key after which a page begins. Raises ProtocolRefusal for a cursor that is not ours."""
    cursor = params.get("cursor")
    if cursor is None or bytes(cursor) == b"null":
        return None
    text = json.text(cursor)
    if text is None:
        raise ProtocolRefusal(
            eras.INVALID_PARAMS, "cursor: a string that a list gave as nextCursor is required"
        )
    return cursors.key_of_cursor(text, kind)
