"""Order of the hits of all kinds by relevance to a query. Imported with the first search.

Words of a query may name the kind of thing meant: "the note about …", "create an issue".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from msgspec import Struct, structs

from tabane.search.analysis import HitWords, closeness, coverages, lowest, name_fit, raised, relevance, tokens
from tabane.search.concepts import ACTIONS
from tabane.search.source import FoundThing, KindAnswer, ThingEntry
from tabane.search.typed_query import LONGEST, sense, typed
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
                    if not name.isascii():
                        text = text.replace(name, " ")
                    else:
                        text = re.sub(
                            rf"(?<![\w']){re.escape(name)}(?![\w'])", " ", text, flags=re.IGNORECASE
                        )
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


_HINTED = 0.5  # what speaks for a kind that the query names, or for tools if it asks to do something
_NAMED = 1.0  # the same for the manual, if the query names Tabane or one of its settings
_BESIDE = 0.7  # other kinds, if the query names Tabane: its own tools have the same words as its manual
_POST = 0.85  # a post mentions many things in passing; notes, pages and tools are about them
_TITLED = 1.0  # what speaks for a hit whose title the query names: it is about that, and not only in passing
_GUESSED = 0.8  # of the coverage: how near a hit without a vector is taken to be, beside others with one
_MANUAL, _ABOVE = 0.5, 0.2  # how relevant, and how far above all else, the manual is where nobody names it


def ordered(
    query: str, answers: Sequence[KindAnswer], *, manual: bool = False, unfinished: bool = False
) -> list[ThingEntry]:
    """Return the hits of all kinds by relevance, best first; equal ones in the order of the kinds.

    A page that is a document too is one entry. The manual is left out unless it was asked for (``manual``),
    the query names it, or it is clearly what is meant. ``unfinished``: the last word of the query is the
    beginning of a word.
    """
    hints = QueryHints.of(sense(typed(query)) or query[:LONGEST])
    things = sorted(_judged(hints, answers, unfinished), key=lambda thing: -thing.hit.score)
    return _joined(things if manual or hints.manual else _without_manual(things))


def _judged(hints: QueryHints, answers: Sequence[KindAnswer], unfinished: bool) -> list[FoundThing]:
    pairs = [(each, hit) for each in answers for hit in each.answer.hits]
    words = [
        HitWords.of(f"{hit.item.card.key}\n{hit.item.card.title}", hit.item.card.text) for _, hit in pairs
    ]
    covered = coverages(hints.text, words, unfinished=unfinished)
    least = lowest(hit.cosine for each in answers for hit in each.answer.hits)
    measured = (each.answer.usual for each in answers if each.answer.usual is not None)
    usual = None if least is None else next(measured, least)
    things = []
    for (each, hit), coverage in zip(pairs, covered, strict=True):
        said = coverage if hit.covered is None else max(coverage, hit.covered)
        near = None if usual is None else _GUESSED * said
        if usual is not None and hit.cosine is not None:
            near = closeness(hit.cosine, usual if each.answer.usual is None else each.answer.usual)
        fit = name_fit(hints.text, hit.item.card.title)
        value = _with_kind(raised(relevance(said, near), _TITLED * fit), each.kind, hints)
        things.append(FoundThing(each.kind, structs.replace(hit, score=value)))
    return things


def _with_kind(value: float, kind: str, hints: QueryHints) -> float:
    if kind == "docs" and hints.manual:
        return raised(value, _NAMED)
    if kind in hints.kinds:
        return raised(value, _HINTED)
    if hints.manual:
        return value * _BESIDE
    return value * _POST if kind == "posts" else value


def _without_manual(things: Sequence[FoundThing]) -> Iterable[FoundThing]:
    manual = [thing.hit.score for thing in things if thing.kind == "docs"]
    others = [thing.hit.score for thing in things if thing.kind != "docs"]
    if manual and manual[0] >= max(_MANUAL, max(others, default=0.0) + _ABOVE):
        return things
    return [thing for thing in things if thing.kind != "docs"]


def _joined(things: Iterable[FoundThing]) -> list[ThingEntry]:
    """Join a page and the document of the same URL: the better passage stays."""
    entries: dict[tuple[str, str], ThingEntry] = {}
    for thing in things:
        key = thing.hit.item.card.key
        place = ("url", key) if thing.kind in ("pages", "documents") else (thing.kind, key)
        entry = entries.get(place)
        entries[place] = ThingEntry(thing) if entry is None else structs.replace(entry, also=(thing,))
    return list(entries.values())
