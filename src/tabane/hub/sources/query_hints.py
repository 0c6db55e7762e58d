"""Words of a query that name the kind of thing meant: "the note about …", "create an issue"; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields

from msgspec import Struct

from tabane.search.analysis import tokens
from tabane.search.concepts import ACTIONS
from tabane.settings import Settings

_NAMES: Mapping[str, str] = {
    "posts": "post posts posted tweet tweets tweeted 投稿 ツイート つぶやき つぶやい",
    "documents": "note notes document documents memo メモ ノート 文書 議事録",
    "pages": "page pages article articles website ページ 記事 サイト",
    "tools": "tool tools ツール",
    "docs": "tabane tabane's manual マニュアル",
}
_LATIN = re.compile(r"[a-z][a-z_']*")
_DOING = re.compile(
    r"(?:して|したい|する|[りいきし]たい|てくれる|ください|送る|送って|調べる|変える|作る|消す|開く)$"
)
_SETTINGS = frozenset(field.name for field in fields(Settings) if "_" in field.name)


class QueryHints(Struct, frozen=True):
    """``kinds`` are named by the query, or it asks to do something, which a tool does.

    ``text`` is the query without the names of kinds: what is searched for. ``manual``: it names Tabane or
    one of its settings, or asks for the manual.
    """

    kinds: frozenset[str]
    text: str
    manual: bool

    @classmethod
    def of(cls, query: str) -> QueryHints:
        words = _LATIN.findall(query.lower())
        kinds: set[str] = set()
        text = query
        for kind, names in _NAMES.items():
            for name in names.split():
                if name in words if name.isascii() else name in query:
                    kinds.add(kind)
                    text = _without(text, name)
        manual = "docs" in kinds or any(word in _SETTINGS or word.startswith("tabane_") for word in words)
        if manual:
            kinds.add("docs")
        if _asks_to_do(query, words):
            kinds.add("tools")
        return cls(frozenset(kinds), text if tokens(text) else query, manual)


def _asks_to_do(query: str, words: list[str]) -> bool:
    if query.isascii():
        return bool(words) and words[0] in ACTIONS
    return _DOING.search(query.strip()) is not None


def _without(text: str, name: str) -> str:
    if not name.isascii():
        return text.replace(name, " ")
    return re.sub(rf"(?<![\w']){re.escape(name)}(?![\w'])", " ", text, flags=re.IGNORECASE)
