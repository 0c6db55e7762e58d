"""Plans of lexical queries, the tokens and spaces of texts that they refer to, and BM25.

A plan refers to the *spaces* of a collection. Each text has one for its tokens (``t``), its likely words
(``u``), its pairs of characters (``s``) and, with the extra ``ja``, its dictionary words (``j``). The
index and memory segments evaluate the same plan.

The dictionary is Sudachi in its finest mode. Each word is in its normalized form: 打込む, 打ち込む and
うちこむ are one. Particles, endings and punctuation are left out. It is loaded on first use: 75 MB, a second.
Without it, hiragana that is no ending, particle or question word may be a word too (おにぎり, ひらがな).

By overlapping pairs of characters, an index finds any substring in any script. Each character of a text
begins one token: the pair with the next character; the last one is a token of its own. So a substring of two
or more characters is a phrase of pairs, and a single character is the beginning of a token. Both are exact,
and the text need not be checked. Texts are compared in one spelling
(:func:`~tabane.search.analysis.substring_spelling`). Hiragana and katakana remain different.

BM25: how much a word tells about a text. Source: S. Robertson, H. Zaragoza, "The Probabilistic Relevance
Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from operator import add
from typing import Any

from tabane.search.analysis import (
    GAP,
    content,
    groups,
    is_cjk,
    is_mixed,
    normalize,
    plain,
    positioned,
    stem,
    substring_spelling,
    units,
    without_readings,
)
from tabane.search.engine import LexicalQuery, Mode
from tabane.search.records import Shape

_EMPTY = ("助詞", "助動詞", "補助記号", "記号", "空白")
_LONGEST = 8_000  # characters at once: Sudachi refuses more than 49,149 bytes


def japanese() -> Japanese | None:
    """Return the installed dictionary, None without the extra ``ja``. Nothing is loaded yet."""
    try:
        fingerprint = f"sudachi {version('sudachipy')} {version('sudachidict-core')}"
    except PackageNotFoundError:
        return None
    return Japanese(fingerprint) if find_spec("sudachipy") else None


class Japanese:
    """Words of Japanese, by SudachiPy and its core dictionary. Any thread may use it.

    ``fingerprint`` names the dictionary. All words of an index are of one dictionary.
    """

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    def words(self, text: str) -> list[str]:
        """Return the words of Japanese text in their normalized form, in order. Latin words are left out."""
        if text.isascii():
            return []
        text, forms = without_readings(plain(text)), list[str]()
        with self._lock:
            if self._tokenizer is None:
                from sudachipy import Dictionary, SplitMode

                self._tokenizer = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
            for at in range(0, len(text), _LONGEST):
                for each in self._tokenizer.tokenize(text[at : at + _LONGEST]):
                    if each.part_of_speech()[0] not in _EMPTY:
                        forms.append(each.normalized_form().lower())
        return [form for form in forms if is_cjk(form) and not any(map(str.isspace, form))]


SHORTEST = 3
"""Least letters of a word in hiragana. Shorter ones are nearly always grammar."""

_RUN = re.compile(r"[ぁ-ゖゝゞー]{3,}")

# Verbs of saying and being, endings, particles and question words.
_GRAMMAR = """
ありますか ありません あります ありました あった ある なければ なりますか なりました なります なった
なって なる なり でしょうか でしたか ですか でした です ましたか ませんか ますか ました ません ましょう
ます されています されていた されている されて されました されます されたのは された される させる
させた しています していました していた している しました しましたか します しますか したのは した して
する すれば せず できますか できました できます できない できる できた おいて おける よって よれば
よると よる より について という として とする となる どのような どのように どういった どういう
どれくらい どれほど どのくらい どこ どちら どの どう どれ どんな いつ いくつ いくら だれ なぜ なに なん
それぞれ そのうち その それ この これ あの である であり だった だけ など ながら ならば なら なの ない
なく なかった のため のこと のもの のうち のほか ために ため から まで ほど くらい ぐらい および または
しかし ともに とともに こと もの とき ところ ください くださ いました います いますか いた いる いない
おり られる られた られて れる れた れて かった かつて ついて って った
"""
_WORDS = re.compile("|".join(sorted(_GRAMMAR.split(), key=len, reverse=True)))
_BEFORE = "はがを"
_BEHIND = "はがをにのでともへやか"


def kana_words(text: str) -> list[str]:
    """Return the likely words in hiragana of a text. No dictionary is used.

    >>> kana_words("おにぎりの握り方")
    ['おにぎり']
    """
    found = []
    for run in _RUN.finditer(normalize(text)):
        for piece in _WORDS.split(run.group()):
            word = piece[1:] if piece and piece[0] in _BEFORE else piece  # without a particle
            while len(word) > SHORTEST and word[-1] in _BEHIND:
                word = word[:-1]
            if len(word) >= SHORTEST:
                found.append(word)
    return list(dict.fromkeys(found))


# A longer needle is hardly rarer than this many of its characters, and a longer phrase costs more.
MOST_PAIRS = 64

# Unicode reserves these for internal use. In a text they are a mistake, and all count as the same one.
_OWN = range(0xFDD0, 0xFDEF)
_BLANK = "\ufdef"
_LAST_BLANK = 0x3000  # the ideographic space: no white space is behind it
_ANY_OWN = 0x1FFFE
_MISTAKEN = chr(_ANY_OWN)
_MISTAKE = re.compile("[\ufdd0-\ufdef\U0001fffe]")
_OTHERS = re.compile("[\\s\ufdd0-\ufdee\U0001fffe]")


def substring_tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, one for each character of the normalized text."""
    spelled = pairs_spelling(text)
    return [*map(add, spelled, spelled[1:]), spelled[-1]] if spelled else []


def pairs_spelling(text: str) -> str:
    """Return a text in the characters of its pairs. None of them is white space."""
    return _spell_tokens(substring_spelling(text))


def needle_tokens(needle: str) -> list[str]:
    """Return the tokens that are adjacent in each text that contains the needle, at most 64.

    For a needle of one character: the beginning of a token. See :func:`is_single`, :func:`is_whole`.
    """
    spelled = _spell_tokens(substring_spelling(needle)[: MOST_PAIRS + 1])
    return list(map(add, spelled, spelled[1:])) if len(spelled) > 1 else [spelled]


def is_single(needle: str) -> bool:
    """Return whether the needle is one character, and its token therefore the beginning of others."""
    return len(substring_spelling(needle)) == 1


def is_whole(needle: str) -> bool:
    """Return whether the tokens cover the whole needle. If not, the text must be checked."""
    return len(substring_spelling(needle)) <= MOST_PAIRS + 1 and not _MISTAKE.search(needle)


def _spell_tokens(text: str) -> str:
    """Return the text with white space replaced by reserved characters, since tokens are joined by spaces."""
    # A reserved character in the text is not a space. The only white space of most texts is the space.
    text = text.replace(_BLANK, _MISTAKEN).replace(" ", _BLANK)
    return text.translate(_spellings()) if _OTHERS.search(text) else text


@lru_cache(maxsize=1)
def _spellings() -> dict[int, int]:
    blanks = [code for code in range(_LAST_BLANK + 1) if chr(code).isspace()]
    return dict(zip(blanks, _OWN, strict=False)) | dict.fromkeys(_OWN, _ANY_OWN)


TOKENS, UNITS, PAIRS, WORDS = "t", "u", "s", "j"
MOST_TERMS = 64  # of a query; a longer one is cut
MOST_KANA = 16  # pairs of words in hiragana
MOST_EXPANSIONS = 16  # of a prefix: those that are scored, all are found

# Tuned on halves of JaQuAD (benchmarks/search); they hardly matter within a factor of two.
_MIXED = 0.4  # a bigram that is half hiragana is grammar more than content
_UNIT = 0.6  # a likely word, beside its bigram
_SHORT = 2.0  # what the units of a query count together at least: 京都 alone is no 東京都
_WORD = 2.0  # a word of the dictionary
_KANA = 0.5  # a pair of a word in hiragana: such words have several, each common by itself

_HIRAGANA = re.compile(r"[ぁ-ゖゝゞー]{2,}")
_WORD_END = re.compile(r"[^\W_]+$")


@dataclass(frozen=True, slots=True)
class TermMatch:
    """A token in a space (``t_title``)."""

    space: str
    token: str


@dataclass(frozen=True, slots=True)
class PhraseMatch:
    """Tokens at these distances from each other."""

    space: str
    tokens: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """Any token that begins so."""

    space: str
    beginning: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of them."""

    of: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of them; none of nothing."""

    of: tuple[Match, ...]


Match = TermMatch | PhraseMatch | PrefixMatch | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class ScoredTerm:
    """A term that is scored, and what its score is multiplied by."""

    term: TermMatch
    weight: float


@dataclass(frozen=True, slots=True)
class LexicalPlan:
    """The conditions that a hit must and must not match, and the terms that score it.

    ``plain``: it must match any of the leaves, nothing more; ``loose``: any of the leaves or prefixes.
    ``prefixes`` are to be scored too, by the tokens they stand for, with these weights. ``spellings``: word →
    spelling → its leaves, if a word has several spellings: a hit needs one of them.
    """

    leaves: tuple[ScoredTerm, ...]
    must: Match
    without: tuple[Match, ...] = ()
    prefixes: tuple[tuple[PrefixMatch, float], ...] = ()
    plain: bool = False
    loose: bool = False
    spellings: tuple[tuple[tuple[ScoredTerm, ...], ...], ...] = ()


NOTHING = LexicalPlan((), AnyOf(()))


class LexicalPlanner:
    """Makes plans for the collections of one shape."""

    def __init__(self, shape: Shape, japanese: Japanese | None) -> None:
        self._shape = shape
        self._japanese = japanese
        self._weights = {text.name: text.weight for text in shape.texts}

    def plan(self, query: LexicalQuery) -> LexicalPlan:
        """Return the plan of a query; :data:`NOTHING` if it has no word. Raises BadArguments."""
        names = self._shape.text_names(query.fields)
        if query.spellings:
            return self._plan_spellings(query, names)
        found = groups(query.text)[:MOST_TERMS]
        text = content(query.text) if query.mode is Mode.ANY else query.text
        tokens = _distinct_tokens(text)
        leaves = tuple(self._leaves(text, tokens, names))
        if leaves and query.mode is Mode.ANY and not self._japanese:
            leaves += tuple(self._kana(text, names))
        prefixes = (*self._prefixes(query, found, names), *self._characters(tokens, names))
        required = [phrase for text in query.phrases for phrase in self._phrase(text, names)]
        required += self._required_matches(query, found, names)
        if not leaves and query.mode is Mode.ANY:
            leaves, kana = self._hiragana(query.text, names)
            required += kana
        if not leaves and not required and not prefixes:
            return NOTHING
        any_of = query.mode is Mode.ANY and not required
        plain, loose = not required and not prefixes, any_of and bool(prefixes)
        if any_of:
            required = [AnyOf((*(leaf.term for leaf in leaves), *(starts for starts, _ in prefixes)))]
        elif query.mode is Mode.ANY and query.phrases and not leaves:
            text = " ".join(query.phrases)
            leaves = tuple(self._leaves(text, _distinct_tokens(text), names))
        without = tuple(phrase for text in query.exclude for phrase in self._phrase(text, names))
        return LexicalPlan(leaves, _all_of(required), without, prefixes, plain, loose)

    def _plan_spellings(self, query: LexicalQuery, names: tuple[str, ...]) -> LexicalPlan:
        """Return the plan of a query whose words have several spellings."""
        words = [[(text, self._spelling_leaves(text, names)) for text in word] for word in query.spellings]
        leaves = {leaf.term: leaf for word in words for _, found in word for leaf in found}
        characters = dict.fromkeys(text for word in query.spellings for text in word if _is_character(text))
        prefixes = tuple(self._characters(list(characters), names))
        must: list[Match] = [
            AnyOf(
                tuple(
                    match for text, found in word for match in self._spelling(text, found, query.mode, names)
                )
            )
            for word in words
        ]
        required = must if query.mode is Mode.ALL else [AnyOf(tuple(must))]
        required += [phrase for text in query.phrases for phrase in self._phrase(text, names)]
        without = tuple(phrase for text in query.exclude for phrase in self._phrase(text, names))
        spellings = tuple(tuple(found for _, found in word) for word in words)
        return LexicalPlan(tuple(leaves.values()), _all_of(required), without, prefixes, spellings=spellings)

    def _spelling_leaves(self, text: str, names: tuple[str, ...]) -> tuple[ScoredTerm, ...]:
        leaves = tuple(self._leaves(text, _distinct_tokens(text), names))
        return leaves or self._hiragana(text, names)[0]

    def _spelling(
        self, text: str, leaves: Sequence[ScoredTerm], mode: Mode, names: tuple[str, ...]
    ) -> Iterator[Match]:
        """Yield the conditions of which a text with a spelling fulfills one."""
        whole = not leaves or leaves[0].term.space.startswith(PAIRS) or _is_character(text)
        if whole or mode is Mode.ALL:
            yield from self._phrase(text, names)
        else:
            yield from (leaf.term for leaf in leaves)

    def _leaves(self, text: str, tokens: Sequence[str], names: tuple[str, ...]) -> Iterator[ScoredTerm]:
        # A dictionary knows words better than a rule of thumb.
        likely = dict.fromkeys(() if self._japanese else units(text))
        words = dict.fromkeys(self._japanese.words(text) if self._japanese else ())
        unit = max(_UNIT, _SHORT / len(likely)) if likely else 0.0
        for name in names:
            weight = self._weights[name]
            for token in tokens:
                yield ScoredTerm(
                    TermMatch(f"{TOKENS}_{name}", token), weight * (_MIXED if is_mixed(token) else 1.0)
                )
            yield from (ScoredTerm(TermMatch(f"{UNITS}_{name}", token), weight * unit) for token in likely)
            yield from (ScoredTerm(TermMatch(f"{WORDS}_{name}", token), weight * _WORD) for token in words)

    def _kana(self, text: str, names: tuple[str, ...]) -> Iterator[ScoredTerm]:
        """Yield the pairs of characters by which words in hiragana add to the score of a query."""
        pairs = dict.fromkeys(pair for word in kana_words(text) for pair in needle_tokens(word))
        for name in names:
            weight = self._weights[name] * _KANA
            yield from (
                ScoredTerm(TermMatch(f"{PAIRS}_{name}", pair), weight) for pair in list(pairs)[:MOST_KANA]
            )

    def _prefixes(
        self, query: LexicalQuery, found: list[list[str]], names: tuple[str, ...]
    ) -> tuple[tuple[PrefixMatch, float], ...]:
        """Return the beginnings of the last word, if it is a prefix."""
        last = _WORD_END.search(normalize(query.text)) if query.prefix and found else None
        if last is None:
            return ()
        ending = found[-1][-1] if not last.group().isascii() else last.group()
        if ending == GAP:
            return ()
        shortest = stem(ending) if ending.startswith(stem(ending)) else ending
        return tuple((PrefixMatch(f"{TOKENS}_{name}", shortest), self._weights[name]) for name in names)

    def _characters(
        self, tokens: Sequence[str], names: tuple[str, ...]
    ) -> Iterator[tuple[PrefixMatch, float]]:
        """Yield words of one character as prefixes of pairs, since longer words contain them too."""
        for token in tokens:
            if _is_character(token):
                yield from ((PrefixMatch(f"{PAIRS}_{name}", token), self._weights[name]) for name in names)

    def _required_matches(
        self, query: LexicalQuery, found: list[list[str]], names: tuple[str, ...]
    ) -> list[Match]:
        if query.mode is Mode.PHRASE:
            return list(self._phrase(query.text, names))
        if query.mode is Mode.ANY:
            return []
        required = [self._group_match(group, names) for group in found]
        # Runs of hiragana that stand alone have no token.
        runs = _HIRAGANA.findall(normalize(query.text))
        required += [self._contains_match(run, names) for run in runs if set(positioned(run)) == {GAP}]
        if query.prefix and found and (starts := self._prefixes(query, found, names)):
            required[len(found) - 1] = AnyOf((required[len(found) - 1], *(each for each, _ in starts)))
        return [each for each in required if each != AllOf(())]

    def _group_match(self, group: Sequence[str], names: tuple[str, ...]) -> Match:
        """Return the condition that texts have all tokens of a run, or a name of several parts as a whole."""
        terms = [AnyOf(tuple(_term(token, name) for name in names)) for token in group if token != GAP]
        if len(group) > 2 and group[-1] == "".join(group[:-1]):
            return AnyOf((AllOf(tuple(terms[:-1])), terms[-1]))
        return _all_of(terms)

    def _phrase(self, text: str, names: tuple[str, ...]) -> Iterator[Match]:
        """Yield the condition that a text has these words side by side; nothing for a text without words."""
        places = tuple((at, token) for at, token in enumerate(positioned(text)[:MOST_TERMS]) if token != GAP)
        stretches = dict.fromkeys(_HIRAGANA.findall(normalize(text)))
        each = [
            _all_of([*_placed(places, name), *(_contains_match(run, name) for run in stretches)])
            for name in names
        ]
        if places or stretches:
            yield AnyOf(tuple(each))

    def _contains_match(self, run: str, names: tuple[str, ...]) -> Match:
        return AnyOf(tuple(_contains_match(run, name) for name in names))

    def _hiragana(self, text: str, names: tuple[str, ...]) -> tuple[tuple[ScoredTerm, ...], list[Match]]:
        """Return a query of hiragana alone, which has no tokens: scored by its pairs of characters."""
        runs = list(dict.fromkeys(_HIRAGANA.findall(normalize(text))))[:MOST_TERMS]
        pairs = dict.fromkeys(token for run in runs for token in needle_tokens(run))
        leaves = (
            ScoredTerm(TermMatch(f"{PAIRS}_{name}", token), self._weights[name])
            for name in names
            for token in pairs
        )
        return tuple(leaves), [AnyOf(tuple(self._contains_match(run, names) for run in runs))] if runs else []


def _distinct_tokens(text: str) -> list[str]:
    """Return the tokens of a text, each once, at most 64."""
    return list(dict.fromkeys(token for token in positioned(text) if token != GAP))[:MOST_TERMS]


def needle(text: str, names: Iterable[str]) -> Match:
    """Return the condition that one of the texts contains a substring. Its first 64 pairs are compared."""
    if is_single(text):
        beginning = needle_tokens(text)[0]
        return AnyOf(tuple(PrefixMatch(f"{PAIRS}_{name}", beginning) for name in names))
    return AnyOf(tuple(_contains_match(text, name) for name in names))


def _placed(places: tuple[tuple[int, str], ...], name: str) -> Iterator[Match]:
    """Yield the condition that tokens are adjacent in a text; a single character may be anywhere."""
    if len(places) == 1 and _is_character(places[0][1]):
        yield _term(places[0][1], name)
    else:
        yield from _phrases(f"{TOKENS}_{name}", places)


def _term(token: str, name: str) -> Match:
    """Return a token in a text, if it is a single character also within words."""
    return (
        PrefixMatch(f"{PAIRS}_{name}", token)
        if _is_character(token)
        else TermMatch(f"{TOKENS}_{name}", token)
    )


def _is_character(token: str) -> bool:
    return len(token) == 1 and is_cjk(token)


def _contains_match(text: str, name: str) -> Match:
    tokens = tuple(enumerate(needle_tokens(text)))
    return _all_of(list(_phrases(f"{PAIRS}_{name}", tokens)))


def _phrases(space: str, places: tuple[tuple[int, str], ...]) -> Iterator[Match]:
    if len(places) == 1:
        yield TermMatch(space, places[0][1])
    elif places:
        first = places[0][0]
        yield PhraseMatch(space, tuple((at - first, token) for at, token in places))


def _all_of(of: Sequence[Match]) -> Match:
    return of[0] if len(of) == 1 else AllOf(tuple(of))


K1 = 1.2
B = 0.75

_EXACT = 40
_STEPS = 8
_OCTAVES = 27


def _lengths() -> list[int]:
    found = list(range(_EXACT + 1))
    for octave in range(1, _OCTAVES):
        last = found[-1]
        found.extend(last + (1 << octave) * step for step in range(1, _STEPS + 1))
    return found


LENGTHS = tuple(_lengths())
"""Lengths of fields that fit into one byte of tantivy: exact up to 40, then in eight steps an octave."""


def kept_length(length: int) -> int:
    """Return the length that is scored for a field with so many tokens."""
    return LENGTHS[bisect_right(LENGTHS, length) - 1]


def idf(records: float, having: float) -> float:
    """Return the inverse document frequency of a term that ``having`` of ``records`` contain."""
    return math.log(1 + (records - having + 0.5) / (having + 0.5))


def saturation(frequency: float, length: float, average: float) -> float:
    """Return the weight of a term's frequency in a field with that kept length: below k1 + 1."""
    return (K1 + 1) * frequency / (frequency + K1 * (1 - B + B * length / average))


def rounded(score: float) -> float:
    """Round to six significant digits, which do not depend on the order of additions or on 32-bit floats."""
    return float(f"{score:.6g}")


def ceiling(plan: LexicalPlan, rarity: Callable[[TermMatch], float]) -> float:
    """Return the worth of the query's words, each in the field where it is most usual.

    Of several spellings of a word, that with the highest worth counts.
    """
    if not plan.spellings:
        return rounded(_worth(plan.leaves, rarity))
    return rounded(sum(max(_worth(leaves, rarity) for leaves in word) for word in plan.spellings))


def _worth(leaves: Iterable[ScoredTerm], rarity: Callable[[TermMatch], float]) -> float:
    usual: dict[tuple[str, str], tuple[float, float]] = {}
    for leaf in leaves:
        rare = rarity(leaf.term)
        word, found = (leaf.term.space[0], leaf.term.token), (rare, leaf.weight * rare)
        usual[word] = min(usual.get(word, found), found)
    return sum(worth for _, worth in usual.values())


Analysis = Mapping[str, list[str]]
"""Space → its tokens in order, with gaps. Without pairs, which the memory segment rarely needs."""

JoinedAnalysis = Mapping[str, str]
"""Space → its tokens in order, with gaps and joined by spaces. With pairs: the whole text of an index."""

VERSION = 2  # of the analysis: an index with another version is rebuilt


class RecordAnalyzer:
    """Analyzes texts for the spaces of a shape. Pure; any thread may use it."""

    def __init__(self, shape: Shape, japanese: Japanese | None) -> None:
        self.shape = shape
        self._texts = tuple(text.name for text in shape.texts)
        self._cutters: dict[str, Callable[[str], list[str]]] = {TOKENS: positioned, UNITS: units}
        if japanese is not None:
            self._cutters[WORDS] = japanese.words
        self.fingerprint = f"{VERSION} {japanese.fingerprint if japanese else '-'}"

    def spaces(self) -> list[str]:
        """Return the names of all spaces, including pairs."""
        return [f"{kind}_{name}" for name in self._texts for kind in (*self._cutters, PAIRS)]

    def analysis(self, texts: Mapping[str, str]) -> Analysis:
        """Return the tokens of the texts in each space but those of pairs, in order and with gaps."""
        return {
            f"{kind}_{name}": cut(texts[name])
            for name in self._texts
            if name in texts
            for kind, cut in self._cutters.items()
        }

    def joined(self, texts: Mapping[str, str], known: Analysis | None = None) -> JoinedAnalysis:
        """Return the tokens of every space. ``known``: the analysis of the texts, if it was made already."""
        found = {space: " ".join(tokens) for space, tokens in (known or self.analysis(texts)).items()}
        for name in self._texts:
            if name in texts:
                found[f"{PAIRS}_{name}"] = " ".join(self.pairs(texts[name]))
        return found

    def whole(self, texts: Mapping[str, str]) -> Iterator[tuple[str, list[str], int]]:
        """Yield the tokens of each space, in order and with gaps, and the length of the text there.

        Pairs are searched for only if they begin with a character of CJK, so ASCII has none. It has a length
        all the same: the average is that of all texts, as :meth:`joined` has it.
        """
        for space, tokens in self.analysis(texts).items():
            yield space, tokens, len(tokens) - tokens.count(GAP)
        for name in self._texts:
            if (text := texts.get(name)) is not None:
                pairs = [] if text.isascii() else self.pairs(text)
                yield f"{PAIRS}_{name}", pairs, len(pairs) or len(text)

    def pairs(self, text: str) -> list[str]:
        """Return the pairs of characters of a text, in order."""
        return substring_tokens(text)
