"""The palette: pages, actions, and whatever is found by what is typed, in both languages.

An entry matches by its words in English and in Japanese, whichever is the language of the page. What the hub
finds has the typed words in its name, title or text: nothing is only related to them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

from tabane.errors import TabaneError
from tabane.messages import Lang, Message, say
from tabane.messages.server_states import state_of_row
from tabane.web.page import Json, PageRequest, PageRoute
from tabane.web.pages.search import hit_url
from tabane.web.rendering import url_part

LONGEST = 200
"""Characters of what is typed that are used."""

MOST = {"servers": 5, "tools": 8, "archive": 6, "settings": 4}
"""Entries of each group."""

GROUPS: Mapping[str, Message] = {
    "recent": say("Recent"),
    "actions": say("Actions"),
    "pages": say("Pages"),
    "servers": say("Servers"),
    "tools": say("Tools"),
    "archive": say("Archive"),
    "settings": say("Settings"),
}


class FoundEntry(TypedDict):
    """An entry as the page's script takes it: it opens ``url``, sends ``post``, or does ``does``."""

    label: str
    icon: str
    group: str
    note: NotRequired[str]
    words: NotRequired[str]
    url: NotRequired[str]
    post: NotRequired[str]
    does: NotRequired[str]
    confirm: NotRequired[str]


class PaletteAction(NamedTuple):
    """An action that is always there for those who may use the operation ``needs``; "" is everybody.

    ``words`` are further words that it is found by, in both languages.
    """

    label: Message
    icon: str
    needs: str
    words: str
    target: Mapping[str, str]
    confirm: Message | None = None


_RESTART_HUB = say("Restart the hub? Running calls are finished first. Assistants stay connected.")
ACTIONS = (
    PaletteAction(say("Add a server"), "plus", "add_server", "new mcp 新規 登録", {"url": "/servers/-/add"}),
    PaletteAction(
        say("Connect an assistant"),
        "link",
        "list_assistants",
        "client 接続 連携",
        {"url": "/assistants"},
    ),
    PaletteAction(
        say("New document"), "plus", "put_document", "write note create 作成", {"url": "/documents/-/new"}
    ),
    PaletteAction(say("Read a web page"), "reader", "read_url_content", "url 読む", {"url": "/reader"}),
    PaletteAction(
        say("Import posts"), "upload", "import_posts", "archive upload 取り込み", {"url": "/posts/import"}
    ),
    PaletteAction(say("New API key"), "plus", "keys_create", "create token 作成 発行", {"url": "/keys/new"}),
    PaletteAction(say("Call a tool"), "play", "search_tools", "run use 実行", {"url": "/tools"}),
    PaletteAction(say("Light theme"), "eye", "", "appearance 外観 テーマ", {"does": "theme:light"}),
    PaletteAction(say("Dark theme"), "eye", "", "appearance 外観 テーマ", {"does": "theme:dark"}),
    PaletteAction(say("Theme of the system"), "eye", "", "appearance 外観 テーマ", {"does": "theme:"}),
    PaletteAction(say("Show in English"), "tag", "", "language 言語 英語", {"does": "lang:en"}),
    PaletteAction(say("Show in Japanese"), "tag", "", "language 言語 日本語", {"does": "lang:ja"}),
    PaletteAction(say("Keyboard shortcuts"), "info", "", "keys help ? キー ヘルプ", {"does": "shortcuts"}),
    PaletteAction(
        say("Restart the hub"), "restart", "restart_hub", "reboot", {"post": "/health/restart"}, _RESTART_HUB
    ),
    PaletteAction(say("Sign out"), "person", "", "log out ログアウト", {"does": "sign-out"}),
)


def action_entries(request: PageRequest) -> list[FoundEntry]:
    """Return the actions of a person."""
    return [
        _entry(
            action.label.render(request.lang),
            action.icon,
            "actions",
            words=in_both(action.label, action.words),
            confirm=action.confirm.render(request.lang) if action.confirm else "",
            **action.target,
        )
        for action in ACTIONS
        if not action.needs or request.may(action.needs)
    ]


def page_entries(pages: Iterable[tuple[Message, str, str]], lang: Lang) -> list[FoundEntry]:
    """Return pages, given by label, icon and path, as entries."""
    return [
        _entry(label.render(lang), icon, "pages", words=in_both(label, path), url=path)
        for label, icon, path in pages
    ]


def in_both(label: Message, more: str) -> str:
    """Return the words of an entry in both languages."""
    return f"{label.render('en')} {label.render('ja')} {more}".casefold()


def _entry(label: str, icon: str, group: str, **more: str) -> FoundEntry:
    given = {name: value for name, value in more.items() if value}
    return cast("FoundEntry", {"label": label, "icon": icon, "group": group, **given})


# -- what is typed -----------------------------------------------------------------------------------

VERBS: Mapping[str, tuple[str, ...]] = {
    "restart": ("restart", "reboot", "再起動"),
    "start": ("start", "起動", "開始"),
    "stop": ("stop", "停止"),
    "login": ("login", "log in", "ログイン"),
    "call": ("call", "呼び出し", "呼び出す", "実行"),
    "open": ("open", "show", "開く", "表示"),
}
"""What may be done with a server or a tool. A word that contains another one stands before it."""

_LINK_WORDS = re.compile(r"^(?:する|して|[をにのへが])+|(?:する|して|[をにのへが])+$")
_SHORTEST_VERB = 3


class Typed(NamedTuple):
    """What somebody typed: what to do, "" if no verb is in it, and the words of the thing."""

    verb: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Typed:
        """Read a text such as "restart git" or "gitを再起動". A verb may be typed in part."""
        given = " ".join(text.casefold().split())
        for verb, forms in VERBS.items():
            for form in forms:
                if not form.isascii() and form in given:
                    parts = (_LINK_WORDS.sub("", part.strip()) for part in given.split(form))
                    return cls(verb, tuple(" ".join(parts).split()))
                if form.isascii() and (given == form or given.startswith(f"{form} ")):
                    return cls(verb, tuple(given[len(form) :].split()))
        first, _, rest = given.partition(" ")
        if rest and len(first) >= _SHORTEST_VERB:
            verbs = (verb for verb, forms in VERBS.items() if any(each.startswith(first) for each in forms))
            if verb := next(verbs, ""):
                return cls(verb, tuple(rest.split()))
        return cls("", tuple(given.split()))


_PARTS = re.compile(r"[\W_]+")


def rank(words: Sequence[str], name: str, text: str = "") -> int | None:
    """Return how well words match a name, 0 is best; None if one of them is neither in it nor in the text."""
    low, whole = name.casefold(), " ".join(words)
    if low == whole:
        return 0
    if low.startswith(whole):
        return 1
    parts = _PARTS.split(low)
    if all(any(part.startswith(word) for part in parts) for word in words):
        return 2
    if all(word in low for word in words):
        return 3
    both = f"{low} {text.casefold()}"
    return 4 if text and all(word in both for word in words) else None


# -- what is found -----------------------------------------------------------------------------------

_ACTS: Mapping[str, tuple[Message, str, str]] = {
    "restart": (say("Restart {name}"), "restart", "restart_upstream"),
    "start": (say("Start {name}"), "play", "start_upstream"),
    "stop": (say("Stop {name}"), "stop", "stop_upstream"),
}
"""Label, icon and operation of what is done with a server at once."""

_STOP = say("Stop {name}? Its running calls end.")
_LOGIN = say("Log in to {name}")


async def found(request: PageRequest) -> Json:
    """Return what matches the typed text, the best of each group first."""
    text = request.query.get("q", "").strip()[:LONGEST]
    if not text:
        return Json([])
    typed = Typed.of(text)
    groups = await asyncio.gather(
        _servers(request, typed),
        _tools(request, typed),
        _archive(request, text),
        _settings(request, typed.words),
    )
    return Json([entry for group in groups for entry in group])


async def _servers(request: PageRequest, typed: Typed) -> list[FoundEntry]:
    rows = await request.rows("list_servers")
    ranked = [(rank(typed.words, row["name"]), row) for row in rows]
    best = sorted((place, row["name"], row) for place, row in ranked if place is not None)
    entries: list[FoundEntry] = []
    for _, name, row in best[: MOST["servers"]]:
        entries += _acts(request, name, state_of_row(row), typed.verb)
        if typed.verb in ("", "open", "login"):
            entries.append(_entry(name, "servers", "servers", url=f"/servers/{url_part(name)}"))
    if len(best) == 1 and not typed.verb:
        _, name, row = best[0]
        entries += _acts(request, name, state_of_row(row), "all")
    return entries


def _acts(request: PageRequest, name: str, state: str, verb: str) -> list[FoundEntry]:
    """Return what can be done with a server in its state, if the verb asks for it."""
    entries: list[FoundEntry] = []
    possible = {"start"} if state in ("idle", "stopped", "unable") else {"restart", "stop"}
    for each, (label, icon, operation) in _ACTS.items():
        if verb not in (each, "all") or state == "disabled" or not request.may(operation):
            continue
        if verb == "all" and each not in possible:
            continue
        confirm = _say(_STOP, name).render(request.lang) if each == "stop" else ""
        post = f"/servers/{url_part(name)}/-/{each}"
        entries.append(
            _entry(_say(label, name).render(request.lang), icon, "actions", post=post, confirm=confirm)
        )
    if verb == "login" and request.may("get_login"):
        text = _say(_LOGIN, name).render(request.lang)
        entries.append(_entry(text, "keys", "actions", url=f"/servers/{url_part(name)}"))
    return entries


def _say(message: Message, name: str) -> Message:
    return Message(message.template, name=name)


async def _tools(request: PageRequest, typed: Typed) -> list[FoundEntry]:
    if not typed.words or typed.verb not in ("", "call", "open"):
        return []
    try:
        rows = await request.rows("search_tools", query=" ".join(typed.words), limit=2 * MOST["tools"])
    except TabaneError:
        return []
    ranked = [(rank(typed.words, row["name"], row.get("purpose") or ""), row["name"]) for row in rows]
    best = sorted((place, name) for place, name in ranked if place is not None)
    call = say("Call {name}")
    return [
        _entry(
            _say(call, name).render(request.lang) if typed.verb == "call" else name,
            "play" if typed.verb == "call" else "tools",
            "actions" if typed.verb == "call" else "tools",
            url=f"/tools/{url_part(name)}",
        )
        for _, name in best[: MOST["tools"]]
    ]


_ICONS = {"documents": "documents", "posts": "posts", "pages": "reader"}
_SHORTEST_SEARCH = 2
_LONGEST_LABEL = 80


async def _archive(request: PageRequest, text: str) -> list[FoundEntry]:
    """Return documents, posts and pages that have the words; those with them in the title first."""
    words = text.casefold().split()
    if len(text) < _SHORTEST_SEARCH or not request.may("search_everything"):
        return []
    kinds: dict[str, Any] = {"in": list(_ICONS)}
    try:
        found = await request.call(
            "search_everything", query=text, top_k=2 * MOST["archive"], keywords="typing", **kinds
        )
    except TabaneError:  # such as for a key that may not search one of them
        return []
    ranked = []
    for at, row in enumerate(found["results"]):
        title = row["title"] or row["key"]
        place = rank(words, title, f"{row['key']} {row['text']}")
        if place is not None and row["kind"] in _ICONS:
            label = title if row["kind"] != "posts" else row["text"] or title
            ranked.append((place, at, row, " ".join(label.split())[:_LONGEST_LABEL]))
    return [
        _entry(label, _ICONS[row["kind"]], "archive", url=hit_url(row["kind"], row["key"]))
        for _, _, row, label in sorted(ranked, key=lambda each: each[:2])[: MOST["archive"]]
    ]


async def _settings(request: PageRequest, words: Sequence[str]) -> list[FoundEntry]:
    if not words or len(words[0]) < _SHORTEST_VERB or not request.may("list_settings"):
        return []
    rows = await request.rows("list_settings")
    ranked = [(rank(words, row["name"].replace("_", " ")), row["name"]) for row in rows]
    best = sorted((place, name) for place, name in ranked if place is not None)
    return [
        _entry(name, "settings", "settings", url=f"/settings?q={url_part(name)}")
        for _, name in best[: MOST["settings"]]
    ]


ROUTES = (PageRoute("/palette", found),)
