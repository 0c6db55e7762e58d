"""Concepts of a query: its words, with synonyms and translations.

Each concept is one word of the query, one Japanese headword, or a known phrase. Its variants are the word
itself with weight 1, and synonyms and translations of the glossary with lower weights. A text has
the score of the best variant of each concept, so that synonyms never outweigh the word itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from tabane.search.analysis import bigrams, cjk_runs, is_cjk, stem, tokens
from tabane.search.function_words import FUNCTION_WORDS
from tabane.search.simplified import simplified

if TYPE_CHECKING:
    from tabane.search.glossary import Glossary

MOST_CONCEPTS = 40
MOST_VARIANTS = 12  # of a language
MOST_CHINESE = 8  # each is read from the index, also if no tool has it

_HEADWORD = 0.8  # a Japanese headword for an English word
_WRITTEN = 0.9  # the same headword in Chinese characters
_KINDRED = 0.5  # a Japanese headword for another of the same concept
_LOOSE = 0.5  # a bigram that belongs to no headword
_ASKING = 0.6  # a word of asking, in a whole sentence
_INSIDE = 0.5  # a word of a known phrase, beside the phrase
_SENTENCE = 6  # so many words of content make a question a sentence

# Words of requests without content, beside those of grammar.
_EMPTY_REQUESTS = """
want wanted need like help tell give own m s t re ve d ll able hello hi hey thanks thank know got possible
looking interested anyone something someone anything
"""
# Words of requests. They name tools too ("show", "find"), so they count less only in a whole sentence.
_ASKING_WORDS = """
show display see view find search look get provide list use make create set specific particular certain
different various information detail offer include available suggest recommend best good great easy easily
new currently current way thing time assistance access kindly many several comprehensive
"""
# Words for actions on anything: in "create a pull request", they say nothing about pull requests.
_ACTIONS = """
create make add insert new update change edit modify delete remove open close run execute send write read save
start stop call put take turn do post submit set get fetch list show find search view display check manage use
perform apply return give generate build show display look provide offer suggest include specific particular
certain different various several everything anything
"""
_MORE_ACTIONS = """
play pause schedule book merge rename move translate convert draw remind email message order switch lock
unlock download upload
"""
_JAPANESE_ACTIONS = """
作る 作成 作り 追加 更新 変更 編集 削除 開く 開き 閉じ 実行 送る 送信 送り
書く 書き 読む 読み 保存 開始 停止 一覧 取得 検索
確認 登録 投稿 する
"""
_JAPANESE_ASKING = "教え 表示 見る 見せ 見たい 知り 調べ 使っ 使い 使う お願い 欲しい 方法 探し 探す"

ACTIONS = frozenset([*_ACTIONS.split(), *_MORE_ACTIONS.split()])
"""English words with which a request to do something begins."""

_EMPTY = frozenset(map(stem, [*FUNCTION_WORDS, *_EMPTY_REQUESTS.split()]))
_GENERAL = frozenset([*map(stem, _ACTIONS.split()), *_JAPANESE_ACTIONS.split(), *_JAPANESE_ASKING.split()])
_SOFT = frozenset([*map(stem, _ASKING_WORDS.split()), *_JAPANESE_ASKING.split()])


class Variant(Struct, frozen=True):
    """Tokens that express the concept, and their weight. ``strict``: a text must have all of them."""

    tokens: tuple[str, ...]
    weight: float
    strict: bool = True

    @property
    def general(self) -> bool:
        """Return whether most tools match it: a word of requests, or for an action on anything."""
        return len(self.tokens) == 1 and self.tokens[0] in _GENERAL


class Concept(Struct, frozen=True):
    """One concept of a query. The first variant is the word of the query itself."""

    weight: float
    variants: tuple[Variant, ...]

    @property
    def general(self) -> bool:
        """Return whether most tools match it: a word of requests, or for an action on anything."""
        return self.weight < _LOOSE or self.variants[0].general


def concepts(question: str, glossary: Glossary, *, japanese: bool = True) -> list[Concept]:
    """Return the concepts of a query, at most 40, each word once.

    If ``japanese`` is False, Japanese variants of English words are left out, for a collection without
    Japanese.
    """
    found = list(_japanese(question, glossary, japanese))
    words = [token for token in tokens(question) if not is_cjk(token)]
    content = [word for word in dict.fromkeys(words) if word not in _EMPTY]
    if not content and not found:
        content = list(dict.fromkeys(words))
    phrases = [phrase for phrase in _phrases(words) if phrase in glossary]
    inside = {word for phrase in phrases for word in phrase.split("_")}
    sentence = len(content) >= _SENTENCE
    for word in content:
        weight = _ASKING if sentence and word in _SOFT else 1.0
        weight *= _INSIDE if word in inside else 1.0
        found.append(_concept(word, glossary, weight, japanese))
    found.extend(_concept(phrase, glossary, 1.0, japanese) for phrase in phrases)
    return found[:MOST_CONCEPTS]


def _concept(word: str, glossary: Glossary, weight: float, japanese: bool) -> Concept:
    variants = [Variant(tuple(word.split("_")), 1.0)]
    variants.extend(_english(glossary.synonyms(word)))
    if japanese:
        variants.extend(_headwords(glossary.headwords(word), _HEADWORD))
    return Concept(weight, tuple(variants))


def _headwords(headwords: list[str], weight: float) -> list[Variant]:
    # A single kanji is a stem. With the next character it is another headword.
    words = [headword for headword in headwords if len(headword) > 1]
    pairs = (tuple(bigrams(headword)) for headword in words)
    found = [Variant(pair, weight) for pair in pairs if pair][:MOST_VARIANTS]
    return found + _chinese(words, weight)


def _chinese(headwords: Iterable[str], weight: float) -> list[Variant]:
    """Return Japanese headwords as a text in simplified Chinese writes them, where that differs."""
    written = [(headword, simplified(headword)) for headword in headwords]
    pairs = (tuple(bigrams(other)) for headword, other in written if other != headword)
    return [Variant(pair, weight) for pair in pairs if pair][:MOST_CHINESE]


def _japanese(question: str, glossary: Glossary, japanese: bool) -> Iterator[Concept]:
    seen: set[str] = set()
    for run in cjk_runs(question):
        last = 0
        for start, end in glossary.segments(run):
            yield from _unknown(run[last:start], seen)
            headword, last = run[start:end], end
            if headword not in seen:
                seen.add(headword)
                yield _translated(headword, glossary, japanese)
        yield from _unknown(run[last:], seen)


def _translated(headword: str, glossary: Glossary, japanese: bool) -> Concept:
    variants = [Variant(tuple(bigrams(headword)) or (headword,), 1.0, strict=False)]
    variants.extend(_english(glossary.translations(headword)))
    if japanese:
        others = [other for other in glossary.headwords(headword) if other != headword]
        variants.extend(_chinese([headword], _WRITTEN))
        variants.extend(_headwords(others, _KINDRED))
    weight = _ASKING / 2 if headword in _SOFT else 1.0
    return Concept(weight, tuple(variants))


def _unknown(piece: str, seen: set[str]) -> Iterator[Concept]:
    for pair in bigrams(piece) if piece else ():
        if pair not in seen:
            seen.add(pair)
            yield Concept(_LOOSE, (Variant((pair,), 1.0),))


def _english(weights: dict[str, float]) -> list[Variant]:
    ranked = sorted(weights.items(), key=lambda item: -item[1])[:MOST_VARIANTS]
    return [Variant(tuple(word.split("_")), weight) for word, weight in ranked]


def _phrases(words: list[str]) -> list[str]:
    pairs = ["_".join(words[at : at + 2]) for at in range(len(words) - 1)]
    triples = ["_".join(words[at : at + 3]) for at in range(len(words) - 2)]
    return list(dict.fromkeys(pairs + triples))
