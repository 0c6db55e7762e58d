"""Interpretations of a query: what is searched first, and what instead if nothing is found.

A typed query may say what must not be there ("lunch without Tanaka", 田中さん以外), or quote a phrase that no
text has. The first interpretation that finds something is the answer, and a remark says how it differs from
the query.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import structs

from tabane.messages import Message, say
from tabane.search.analysis import FUNCTION_WORDS
from tabane.search.engine import Collection, LexicalQuery, Mode
from tabane.search.records import Filter
from tabane.search.typed_query import is_pasted

_MOST_EXCLUDED = 3  # names of one negation: without Tanaka, Sato and Mori

# Only names are left out: a text about "login without password" has the word "password".
_NAME = r"[A-Z][\w'’-]*(?:[ ][A-Z][\w'’-]*)*"
_ENGLISH = re.compile(
    r"\b(?:without|except(?:[ ]for)?|excluding|other[ ]than|apart[ ]from"
    r"|(?:but[ ])?not[ ](?:with|by|from|about)|but[ ]not)[ ]"
    rf"(?P<names>(?:the[ ])?{_NAME}(?:(?:,?[ ](?:and|or|nor)[ ]|,[ ]){_NAME}){{0,2}})(?![\w'’-])"
)
_BETWEEN = re.compile(r",?[ ](?:and|or|nor)[ ]|,[ ]")
_ARTICLE = re.compile(r"the[ ]")
# "How to edit without Vim" asks for a way, and "works in Chrome but not Firefox" reports: such texts have the
# name. So does code: "try except ValueError".
_ASKS_HOW = re.compile(
    r"(?i)\s*(?:how|can|can['’]?t|cannot|could|is|are|does|do|why|should)\b"
    r"|.*\b(?:try|(?:build|call|connect|convert|create|deploy|edit|fail|get|install|live|load|log|make|open|play"
    r"|run|set|start|test|update|use|watch|work|write)(?:s|e?d|ing)?|running|using|login)\b"
)
_ERROR = re.compile(r"(?:Error|Exception|Warning)$")

_HONORIFIC = "(?:さん|くん|ちゃん|部長|課長|社長|先生|君|氏|様)"
_JAPANESE = re.compile(
    r"(?P<names>[\u3400-\u4dbf\u4e00-\u9fff々ァ-ヺー]{2,}|[A-Za-z][A-Za-z0-9]+)"
    rf"(?:{_HONORIFIC}?(?:以外(?=の|との|[\s、]|$)|(?:を)?(?:抜き|ぬき)(?=[ので\s、]|$))"
    rf"|{_HONORIFIC}(?:を除(?:いた|いて|く|き)|[のが](?:いない|いなかった|来ない|出ない)|(?:では|じゃ)ない))"
)
_TITLE = re.compile(r"(?<=.)(?:部長|課長|社長|先生|君|氏|様)$")


class Interpretation(NamedTuple):
    """A query as it is searched, and what its answer must say about that; None if nothing."""

    words: LexicalQuery
    remark: Message | None = None


async def interpretations(
    collection: Collection, words: LexicalQuery, where: Filter, *, exact: bool = False
) -> list[Interpretation]:
    """Return the interpretations of a query, the first one first.

    A negation is read as one only if no text that matches ``where`` has its words side by side. ``exact``:
    no phrase is given up.
    """
    found: list[Interpretation] = []
    if (negation := _negation_of(words)) is not None:
        literal = LexicalQuery(negation.said, Mode.PHRASE)
        if not (await collection.search(literal, where, 1)).hits:
            found.append(negation.interpretation)
    found.append(Interpretation(words))
    if words.phrases and not exact:
        found.append(_without_phrases(words))
    return found


class _Negation(NamedTuple):
    said: str
    interpretation: Interpretation


def _negation_of(words: LexicalQuery) -> _Negation | None:
    """Return what a query wants to be left out, if it says so and something else is searched for."""
    text = words.text
    match = None if is_pasted(text) or words.mode is not Mode.ANY else _said(text)
    if match is None:
        return None
    rest = " ".join(f"{text[: match.start()]} {text[match.end() :].lstrip('の、')}".split())
    names = [_TITLE.sub("", _ARTICLE.sub("", name)) for name in _BETWEEN.split(match["names"])]
    if not rest or any(name.lower() in FUNCTION_WORDS or _ERROR.search(name) for name in names):
        return None
    excluded = structs.replace(words, text=rest, exclude=(*words.exclude, *names[:_MOST_EXCLUDED]))
    remark = say(
        "Results that contain {words} are left out, because the query says: {negation}",
        words=", ".join(names),
        negation=match.group(),
    )
    return _Negation(match.group(), Interpretation(excluded, remark))


def _said(text: str) -> re.Match[str] | None:
    match = _ENGLISH.search(text)
    if match is not None:
        return None if _ASKS_HOW.match(text[: match.start()]) else match
    return _JAPANESE.search(text)


def _without_phrases(words: LexicalQuery) -> Interpretation:
    """Return the interpretation in which phrases are words."""
    text = " ".join(filter(None, (words.text, *words.phrases)))
    remark = say(
        "Nothing has the exact phrase {phrases}. These are results without the exact phrase.",
        phrases=", ".join(f'"{phrase}"' for phrase in words.phrases),
    )
    return Interpretation(structs.replace(words, text=text, phrases=()), remark)
