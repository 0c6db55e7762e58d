"""Sentences for those who do not load the catalogues before something goes wrong."""

from __future__ import annotations

from collections.abc import Mapping


def say(template: str, **fields: object) -> dict[str, str]:
    """The sentence in each language: what a hub or a bridge sends to who speaks the other one.

    Named like :func:`tabane.messages.say`, so that its templates are found for translation.
    """
    from tabane.messages import Message  # gettext and pathlib: only a failure pays for them

    message = Message(template, **fields)
    return {"en": message.render("en"), "ja": message.render("ja")}


def spoken(environ: Mapping[str, str]) -> str:
    """The locale of this process: TABANE_LANG where it names a language, else the system's; may be empty."""
    chosen = environ.get("TABANE_LANG", "").lower()
    if chosen in ("ja", "en"):
        return chosen
    return environ.get("LC_ALL") or environ.get("LC_MESSAGES") or environ.get("LANG") or ""


def lang_of(locale: str) -> str:
    """``ja`` for a Japanese locale, else ``en``."""
    return "ja" if locale.lower().startswith("ja") else "en"
