"""The page that a browser shows when it returns from a login. It loads nothing, and has no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import ClassVar

from msgspec import Struct

from tabane.messages import Lang, Message, say

_STYLE = (
    "body{font:1rem/1.6 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}"
    "h1{font-size:1.4rem}:root{color-scheme:light dark}"
)


class CallbackPage(Struct, frozen=True):
    """A page with a title and a sentence. ``fine``: the login is done."""

    fine: bool
    title: Message
    text: Message
    lang: Lang

    HEADERS: ClassVar[Mapping[str, str]] = {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cross-origin-opener-policy": "same-origin",
    }

    def html(self) -> bytes:
        title, text = (escape(part.render(self.lang)) for part in (self.title, self.text))
        return (
            f'<!doctype html><html lang="{self.lang}"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1><p>{text}</p></body></html>"
        ).encode()


def done_page(server: str, lang: Lang) -> CallbackPage:
    """Return the page of a login that worked."""
    return CallbackPage(
        True,
        say("You are logged in"),
        say("Tabane can now use {server!n}. You can close this page.", server=server),
        lang,
    )


def failed_page(why: Message, lang: Lang) -> CallbackPage:
    """Return the page of a login that failed."""
    return CallbackPage(False, say("The login failed"), why, lang)


def unknown_page(lang: Lang) -> CallbackPage:
    """Return the page for a browser that returns without a login that waits for it."""
    return CallbackPage(
        False,
        say("This login is not known"),
        say(
            "It was finished already, has expired, or was begun elsewhere. Begin again with: tabane servers "
            "login"
        ),
        lang,
    )


def page_language(accepted: str) -> Lang:
    """Return the language of a page for the header Accept-Language: that of its first known entry."""
    for entry in accepted[:500].split(","):
        word = entry.partition(";")[0].strip().lower()
        if word.startswith("ja"):
            return "ja"
        if word.startswith("en"):
            return "en"
    return "en"
