"""Metadata of MCP Apps (SEP-1865) in tools and results: the page of a tool, and who may call it; pure.

A tool names its page in ``_meta.ui.resourceUri`` (before the stable specification in
``_meta["ui/resourceUri"]``). ``_meta.ui.visibility`` says whether a model or an app may call it. The scheme
``ui://`` has a meaning for hosts, so a client gets every address of a page as an address of its server that
keeps the scheme, in tools and in what tools return.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote_to_bytes

from msgspec import Raw, Struct

from tabane.wire.json import InvalidJson, Members, elements, fields, join, member, quote
from tabane.wire.json import text as json_text
from tabane.workers.time_slices import Pause, no_pause

KEPT_SCHEMES = ("ui://", "skill://")
"""Beginnings of URIs that keep their scheme: pages of MCP Apps, and skills."""

HOST = "tabane/"
"""Text behind the scheme of an address. A server's own URI with it is shown as an address as well."""


def kept_scheme(uri: str) -> str:
    """Return the beginning of a URI whose scheme is kept, as it is spelled; empty for other URIs."""
    for start in KEPT_SCHEMES:
        if uri[: len(start)].lower() == start:
            return uri[: len(start)]
    return ""


def kept_address(server: str, uri: str) -> str | None:
    """Return the address of a server's resource or template; None if its scheme is not kept."""
    start = kept_scheme(uri)
    return f"{start}{HOST}{escaped(server)}/{uri[len(start) :]}" if start else None


def kept_addressed(uri: str) -> tuple[str, str] | None:
    """Return (server, its own URI) of such an address; None for any other URI."""
    start = kept_scheme(uri)
    rest = uri[len(start) :]
    server, slash, own = rest[len(HOST) :].partition("/")
    if not start or rest[: len(HOST)].lower() != HOST or not (server and slash):
        return None
    return unescaped(server), start + own


def shown_uri(server: str, uri: str) -> str:
    """Return the URI under which a client gets a resource that a server mentions, listed or not."""
    return kept_address(server, uri) or uri


def own_uri(uri: str) -> str:
    """Return the own URI of a server for a resource at such an address; any other URI unchanged."""
    found = kept_addressed(uri)
    return uri if found is None else found[1]


def escaped(text: str) -> str:
    """Return a text as one segment of a path. Any characters are accepted."""
    return percent_encoded(text, safe="", errors="surrogatepass")


def unescaped(text: str) -> str:
    """Return what :func:`escaped` was given. Any text is accepted."""
    data = unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


PAGE = "text/html;profile=mcp-app"
"""The media type of a page."""

_FLAT = ("ui/resourceUri", "openai/outputTemplate")
"""Members of ``_meta`` with the address of a page, besides ``ui.resourceUri``: of drafts, and of a host."""

_PAGE_MARK, _SKILL_MARK = (start.removesuffix("//").encode() for start in KEPT_SCHEMES)


class AppMetadata(Struct, frozen=True):
    """``page`` is its server's own address of the page, empty for none. Who may call the tool."""

    page: str = ""
    for_model: bool = True
    for_app: bool = True


NO_APP = AppMetadata()


def app_metadata(definition: Members) -> AppMetadata:
    """Return what a tool's definition says of apps. What has a wrong type counts as absent."""
    meta = _object(definition, "_meta")
    ui = _object(meta, "ui")
    if not ui and "ui/resourceUri" not in meta:
        return NO_APP
    page = json_text(ui.get("resourceUri")) or json_text(meta.get("ui/resourceUri")) or ""
    visible = member(ui, "visibility")
    if not isinstance(visible, list):
        visible = ["model", "app"]
    is_page = kept_scheme(page).lower() == "ui://"
    return AppMetadata(page if is_page else "", "model" in visible, "app" in visible)


def app_members(definition: bytes) -> Members:
    """Return what the ``_meta`` of a tool's definition says of apps, as it is there."""
    meta = _object(fields(definition), "_meta")
    return {key: meta[key] for key in ("ui", *_FLAT) if key in meta}


def with_shown_page(server: str, definition: Members) -> Members:
    """Return a definition or a result with the addresses of pages in its ``_meta`` as they are shown."""
    return _with_page(definition, lambda uri: shown_uri(server, uri))


def with_own_page(definition: Members) -> Members:
    """Return a definition that is shown with the addresses that its server itself gave to pages."""
    return _with_page(definition, own_uri)


def _with_page(definition: Members, renamed: Callable[[str], str]) -> Members:
    meta = _object(definition, "_meta")
    if not meta:
        return definition
    changed = {**meta, **_renamed(meta, _FLAT, renamed)}
    ui = _object(meta, "ui")
    if page := _renamed(ui, ("resourceUri",), renamed):
        changed["ui"] = Raw(join({**ui, **page}))
    return definition if changed == meta else {**definition, "_meta": Raw(join(changed))}


def shown_result(server: str, result: Raw, pause: Pause = no_pause) -> Raw:
    """Return the result of a tool or prompt with the addresses of its server's pages as they are shown.

    These are in ``_meta``, in embedded resources and in links. Any other result is returned as it is.
    """
    text = bytes(result)
    if _PAGE_MARK not in text and _SKILL_MARK not in text:
        return result
    try:
        members = with_shown_page(server, fields(text))
        for key, inside in (("content", _shown_block), ("messages", _shown_message)):
            if key in members:
                parts = []
                for part in elements(members[key]):
                    pause()
                    parts.append(inside(server, part))
                members = {**members, key: Raw(b"[" + b",".join(map(bytes, parts)) + b"]")}
    except InvalidJson:
        return result
    return Raw(join(members))


def _shown_message(server: str, message: Raw) -> Raw:
    members = fields(message)
    if "content" not in members:
        return message
    return Raw(join({**members, "content": _shown_block(server, members["content"])}))


def _shown_block(server: str, block: Raw) -> Raw:
    """Return a block of content, with the address of a resource in it as it is shown."""
    text = bytes(block)
    if _PAGE_MARK not in text and _SKILL_MARK not in text:
        return block
    members = fields(text)
    changed = _shown_members(server, members, ("uri",))
    resource = _object(members, "resource")
    if inner := _shown_members(server, resource, ("uri",)):
        changed["resource"] = Raw(join({**resource, **inner}))
    return Raw(join({**members, **changed})) if changed else block


def _shown_members(server: str, members: Members, keys: tuple[str, ...]) -> Members:
    """Return those of the members that are shown otherwise than the server says them."""
    return _renamed(members, keys, lambda uri: shown_uri(server, uri))


def _renamed(members: Members, keys: tuple[str, ...], renamed: Callable[[str], str]) -> Members:
    found = {key: json_text(members.get(key)) for key in keys}
    return {key: Raw(quote(renamed(uri))) for key, uri in found.items() if uri and kept_scheme(uri)}


def _object(members: Members, key: str) -> Members:
    try:
        return fields(members[key])
    except (KeyError, InvalidJson):
        return {}
