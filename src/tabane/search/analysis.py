"""Tokens of texts, the same for indexed texts and for queries, and the relevance of hits by them; pure.

Latin words are kept whole, without their English inflection. Runs of Chinese, Japanese and Korean become
overlapping bigrams, except those of hiragana only (particles and endings). Names in code are split at
``_ - . /`` and at changes of case, and are kept whole as well, so that ``readFile``, ``read_file`` and
"read file" match.

All comparisons begin with :func:`plain`: hyphens, quotation marks, waves and middle dots have one form each,
and invisible characters do not count.

Tokens consist of letters, digits, ``#`` and ``+``. They contain no space, so an index can join them with
spaces. :data:`GAP` is not a token: it marks the position of a bigram that was left out.

Words of grammar in a query are articles, pronouns, question words. They say nothing about what is searched.
In a small collection such a word may be the rarest of all, so it must not decide. Names are spelled with a
capital (May, the US, The Who), so they are not taken for grammar.

Relevance is in 0..1, and orders hits of different kinds. Scores of several searches are not comparable: each
has its own statistics of words. Comparable are the share of the query's words that a hit covers, weighted by
their rarity among all hits, and the cosine between query and hit, on the scale of its model.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import add

from msgspec import Struct

from tabane.text.lazy_patterns import lazy_pattern

_HIRAGANA = "ぁ-ゖゝゞ"
_KATAKANA = "ァ-ヺヽヾー"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々〆〇\U00020000-\U0003134f"
_CJK = _HIRAGANA + _KATAKANA + _HAN + "\uac00-\ud7a3"

GAP = "_"

# Characters that keyboards, programs and systems use for one another, by the one that all become.
_ALIKE = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u207b\u208b\u2212\u02d7\u058a\u2e3a\u2e3b\u2500\u2501"
    "\ufe31\ufe32\ufe58\ufe63\uff0d",
    "~": "\u301c\uff5e\u223c\u223e\u2053\u3030\u02dc",
    "'": "\u2018\u2019\u201a\u201b\u02b9\u02bb\u02bc\u2032\u00b4\uff07",
    '"': "\u201c\u201d\u201e\u201f\u2033\u02ba\u301d\u301e\u301f\uff02",
    "・": "\u00b7\u0387\u2022\u2027\u2219\u22c5\uff65",
}
_FORM = {mark: form for form, marks in _ALIKE.items() for mark in marks}
_MARKS = re.compile(f"[{''.join(_FORM)}]")
# Also variation selectors and tags. A joiner is part of an emoji, and means nothing to a search elsewhere.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+|\u200d(?![\u2190-\u2bff\U0001f000-\U0001faff])"
)
# A dash inside a kana word is its long-vowel mark (サ−バ−), and such a mark elsewhere is a dash (2020ー2021).
_LONG_VOWEL = lazy_pattern(rf"-(?:(?<=[{_KATAKANA}]-)(?![^\W{_CJK}]|-)|(?<=[{_HIRAGANA}]-)(?=[{_HIRAGANA}]))")
_DASH = lazy_pattern(rf"ー(?<![{_HIRAGANA}{_KATAKANA}]ー)")

# A run of CJK, C++ and C#, or a word with the separators of names in code and hyphenated words.
_RUNS = lazy_pattern(rf"[{_CJK}]+|[Cc]\+\+|\b[CcFf]#|[^\W_{_CJK}]+(?:[-_./'’][^\W_{_CJK}]+)*")
_CJK_START = lazy_pattern(rf"[{_CJK}]")
_HIRAGANA_ONLY = lazy_pattern(rf"[{_HIRAGANA}ー]+")
_PAIRS = lazy_pattern(rf"(?=(?![{_HIRAGANA}ー]{{2}})(..))", re.DOTALL)
_HIRAGANA_PAIRS = lazy_pattern(rf"[{_HIRAGANA}ー]{{2,}}")
_HIRAGANA_IN = lazy_pattern(rf"[{_HIRAGANA}]")
# Likely words inside a run of CJK: pairs of kanji, and whole runs of katakana.
_UNITS = lazy_pattern(rf"[{_HAN}]{{2}}|(?<![{_KATAKANA}])[ァ-ヺ][{_KATAKANA}]+")
# サーバー and サーバ are one word: the final mark of a katakana word of four or more is removed.
_FINAL_PROLONGATION = lazy_pattern(rf"(?<=[ァ-ヺ][{_KATAKANA}]{{2}})ー(?![{_KATAKANA}])")
# The reading in a word: 食(た)べる, 短《たん》槍《そう》. Words are those without it; pairs find the reading.
_READING = lazy_pattern(rf"[(《](?<=[{_HAN}][(《])[{_HIRAGANA}ー・ ]{{1,20}}[)》](?=[{_HAN}{_HIRAGANA}])")
_PART = re.compile(r"[^\W_]+")
# getHTTPResponse → get HTTP Response; digits stay with what they follow.
_HUMP = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CAMEL_NAME = re.compile(r"[a-z][a-z0-9]*[A-Z]")

_VOWEL = re.compile(r"[aeiouy]")
_MEASURE = re.compile(r"[aeiouy]+[^aeiouy]+")
_SHORT = re.compile(r"[^aeiou]*[aeiouy][^aeiouwxy]")

# Frequent words of tools for which the rules are wrong: unchanged words, then word:stem.
_UNCHANGED = "embed news alias canvas bias atlas always lens during"
_STEMS = """
analysis:analyz analyses:analyz apis:api uris:uri emojis:emoji wikis:wiki indices:index matrices:matrix
vertices:vertex criteria:criterion children:child kids:kid people:person persons:person men:man women:woman
written:write wrote:write found:find sent:send built:build bought:buy made:make making:make taken:take
took:take given:give ran:run began:begin done:do went:go gone:go shown:show known:know chosen:choos
spoken:speak sold:sell told:tell held:hold kept:keep left:leav spent:spend lost:lose saw:see seen:see
thought:think understood:understand
"""
_IRREGULAR = {word: word for word in _UNCHANGED.split()} | dict(pair.split(":") for pair in _STEMS.split())

# Brands that are spelled with a capital inside, and count as one word.
_BRANDS = """
github gitlab bitbucket youtube javascript typescript postgresql mysql nosql graphql sqlite mongodb dynamodb
duckdb chromadb bigquery openai linkedin paypal whatsapp wordpress facebook hubspot clickup datadog pagerduty
cloudflare digitalocean openapi devops macos airtable onedrive sharepoint webhook powerpoint deepl
elasticsearch opensearch circleci coingecko firebase supabase huggingface
"""
_ONE_WORD = frozenset(_BRANDS.split())


def normalize(text: str) -> str:
    """Return the text in one form, with case folded. Accents are kept."""
    return text.lower() if text.isascii() else with_long_vowels(plain(text)).casefold()


def substring_spelling(text: str) -> str:
    """Return the text as substrings are compared: in one case and width, with one form of all dashes.

    A part of a text does not show whether ー is a dash or belongs to a word, so it is a dash everywhere.
    """
    return normalize(text).replace("ー", "-")


def plain(text: str) -> str:
    """Return the text in NFKC (one width), with one form of similar marks, without invisible characters.

    >>> plain("９時～17時"), plain("Wi‑Fi’s")
    ('9時~17時', "Wi-Fi's")
    """
    if text.isascii():
        return text
    text = _MARKS.sub(lambda mark: _FORM[mark.group()], visible(text))
    return unicodedata.normalize("NFKC", text)


def visible(text: str) -> str:
    """Return the text without the characters that do not count in a search, because nobody sees them."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def with_long_vowels(text: str) -> str:
    """Return a plain text with ー for dashes in kana words, and a hyphen for ー elsewhere; as long as it."""
    return _DASH.sub("-", _LONG_VOWEL.sub("ー", text))


def tokens(text: str) -> list[str]:
    """Return the tokens of running text, in order and with repetition.

    A word with separators gives its parts, then itself without separators: "e-mail" → e, mail, email.
    """
    cut: list[str] = []
    for run in _RUNS.findall(_token_spelling(text)):
        cut.extend(bigrams(run) if _CJK_START.match(run) else _word_tokens(run))
    return cut


def positioned(text: str) -> list[str]:
    """Return the tokens of running text, with :data:`GAP` for each bigram that was left out.

    Without the gaps they are :func:`tokens`. With them, the words of a phrase have the right distance.
    """
    return [token for group in groups(text) for token in group]


def groups(text: str) -> list[list[str]]:
    """Return :func:`positioned` for each run: a word, a name with its parts, or a run of CJK."""
    return [[*run_tokens(run)] for run in _RUNS.findall(_token_spelling(text))]


def run_tokens(run: str) -> Sequence[str]:
    """Return the tokens of one of :func:`placed_runs`, with gaps. It is in the spelling of tokens."""
    return _bigrams_with_gaps(run) if _CJK_START.match(run) else _word_tokens(run)


def placed_runs(text: str) -> Iterator[tuple[int, str]]:
    """Return the runs that tokens are cut from, words and CJK, each with its start in the text."""
    return ((run.start(), run.group()) for run in _RUNS.finditer(text))


def left_out(text: str) -> set[int]:
    """Return the positions that words are cut without: readings in words, and the last mark of サーバー."""
    spans = (match.span() for pattern in (_READING, _FINAL_PROLONGATION) for match in pattern.finditer(text))
    return {at for span in spans for at in range(*span)}


def without_readings(text: str) -> str:
    """Return a plain text without the readings in its words."""
    return _READING.sub("", text)


def units(text: str) -> list[str]:
    """Return the likely words of Chinese and Japanese text: pairs of kanji, and whole runs of katakana.

    Most compounds consist of words of two kanji, so 東京都 gives 東京 and not 京都. A bigram that is no unit
    likely spans two words.
    """
    return [] if text.isascii() else _UNITS.findall(_token_spelling(text))


def is_mixed(token: str) -> bool:
    """Return whether a bigram is half hiragana: an ending or particle with the character before it."""
    return _HIRAGANA_IN.search(token) is not None


def identifier_tokens(name: str) -> list[str]:
    """Return the tokens of a name in code: its parts, then the whole name without separators.

    A name of one part gives only that part. Parts in Japanese are cut like running text.
    """
    names: list[str] = []
    parts = _name_parts(with_long_vowels(plain(name)))
    for part in parts:
        names.extend(tokens(part) if _CJK_START.search(part) else [stem(part)])
    if len(parts) > 1:
        names.append("".join(parts))
    return names


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return the word without its English inflection: plural, -ed, -ing, final e; -ise becomes -ize.

    The first and the last step of Porter (1980), corrected for words that are frequent in tools (adding,
    embed, news). Derivations (search, searcher) remain different. The word is in lower case. A word with
    other characters than ASCII letters is returned unchanged.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    return _IRREGULAR.get(word) or _unify_ending(_infinitive(word))


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-2] if len(word) > 4 else word[:-1]
    return word[:-1] if word[-1] == "s" and word[-2] not in "sui" else word


def _infinitive(word: str) -> str:
    ending = 3 if word.endswith("ing") else 2 if word.endswith("ed") else 0
    rest = word[: len(word) - ending]
    if not ending or len(rest) < 2 or word.endswith("eed") or not _VOWEL.search(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if rest[-1] == rest[-2] and len(rest) > 3:
        doubled = rest[-1] not in "aeiolsz" or (rest[-1] == "l" and _syllables(rest) > 1)
        return rest[:-1] if doubled else rest
    return rest + "e" if _SHORT.fullmatch(rest) else rest


def _unify_ending(word: str) -> str:
    """Return the word with one ending for several spellings: final e and y, -ise, -yse, -our."""
    if word[-1] == "e" and len(word) > 3:
        rest = word[:-1]
        if _syllables(rest) > 1 or (_syllables(rest) == 1 and not _SHORT.fullmatch(rest)):
            word = rest
    elif word[-1] == "y" and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    if len(word) > 5 and word.endswith(("is", "ys")):
        return word[:-1] + "z"
    if word.endswith("isation"):
        return word[:-7] + "ization"
    return word[:-2] + "r" if len(word) > 5 and word.endswith("our") else word


def _syllables(word: str) -> int:
    """Return Porter's measure: how often vowels are followed by consonants."""
    return len(_MEASURE.findall(word))


def bigrams(run: str) -> list[str]:
    """Return the overlapping pairs of a CJK run, without those of hiragana only.

    A run of one character is its own token, unless it is hiragana.
    """
    if len(run) == 1:
        return [] if _HIRAGANA_ONLY.fullmatch(run) else [run]
    return _PAIRS.findall(run)


def _bigrams_with_gaps(run: str) -> list[str]:
    """Return the bigrams of a run, with a gap for each that :func:`bigrams` leaves out."""
    if len(run) == 1:
        return bigrams(run) or [GAP]
    pairs = [*map(add, run, run[1:])]
    for left_out in _HIRAGANA_PAIRS.finditer(run):
        first, last = left_out.start(), left_out.end() - 1
        pairs[first:last] = [GAP] * (last - first)
    return pairs


@lru_cache(maxsize=16384)
def _word_tokens(run: str) -> tuple[str, ...]:
    """Return the tokens of a word, a possessive, a hyphenated word, or a name in code."""
    if run.isascii() and run.isalnum() and not _CAMEL_NAME.match(run):
        return (stem(run.lower()),)
    if run[-1] in "+#":
        return (run.lower(),)
    word, _, ending = run.rpartition("'")
    return tuple(identifier_tokens(word if word and len(ending) <= 2 else run))


def _token_spelling(text: str) -> str:
    """Return the text in the form that tokens are cut from."""
    if text.isascii():
        return text
    return _FINAL_PROLONGATION.sub("", without_readings(with_long_vowels(plain(text))))


def is_cjk(token: str) -> bool:
    """Return whether a token begins with a Chinese, Japanese or Korean character."""
    return _CJK_START.match(token) is not None


def cjk_runs(text: str) -> list[str]:
    """Return the runs of Chinese, Japanese and Korean, in the spelling that tokens are cut from."""
    return [run for run in _RUNS.findall(_token_spelling(text)) if _CJK_START.match(run)]


def _name_parts(name: str) -> list[str]:
    parts: list[str] = []
    for piece in _PART.findall(name):
        humps = [hump.casefold() for hump in _HUMP.split(piece)]
        merged = [humps[0]]
        for hump in humps[1:]:
            if merged[-1] + hump in _ONE_WORD:
                merged[-1] += hump
            else:
                merged.append(hump)
        parts.extend(merged)
    return parts


_WORDS = """
a an the of to in on at by for with from as is are was were be been being am it its this that these those
there here and or but if then else so than too very can could would should will shall may might must do does
did doing done have has had having i me my mine we us our ours you your yours he him she her hers they them
their theirs his what which who whom whose when where why how please let just also any some more most other
others such only same no not nor out up down over under again further into through during before after above
below between about against all each few both because while until don won isn doesn didn aren wasn weren
hasn haven hadn couldn shouldn wouldn
"""

FUNCTION_WORDS = frozenset(_WORDS.split())
"""English words of grammar, as they are written."""


def content(text: str) -> str:
    """Return a query without its words of grammar; the whole query if it has no others.

    Words keep their spelling and order. Japanese needs no list here: pairs of hiragana are no tokens.

    >>> content("when is the dentist appointment?")
    'dentist appointment?'
    >>> content("to be or not to be")
    'to be or not to be'
    """
    runs = list(placed_runs(text))
    empty = _grammar_places(runs)
    if not empty or len(empty) == len(runs):
        return text
    kept = [(start, run) for place, (start, run) in enumerate(runs) if place not in empty]
    if not any(not is_cjk(run) or any(not "ぁ" <= letter <= "ゟ" for letter in run) for _, run in kept):
        return text
    gone = [runs[place] for place in sorted(empty)]
    edges = [0, *(edge for start, run in gone for edge in (start, start + len(run))), len(text)]
    pieces = [text[start:end] for start, end in list(pairwise(edges))[::2]]
    return " ".join(" ".join(pieces).split())


def _grammar_places(runs: Sequence[tuple[int, str]]) -> set[int]:
    """Return the places of words of grammar among the runs of a text."""
    words = [run for _, run in runs]
    some_lower = any(word.islower() for word in words)
    grammar = set[int]()
    for place, word in enumerate(words):
        name = some_lower and (place > 0 or (len(word) > 1 and word.isupper())) and word[0].isupper()
        bare = normalize(word.replace("’", "'").partition("'")[0])
        if bare in FUNCTION_WORDS and (bare == "i" or not name):
            grammar.add(place)
    return grammar


LONGEST_TEXT = 8_000
"""Characters of a text whose words are read."""

_MOST_WORDS = 64  # of a query
_MIXED = 0.4  # a bigram that is half hiragana is grammar more than content
_BODY = 0.8  # what a word counts below the title
_FULL = 0.58  # cosines of good answers are so far on the way from unrelated texts to the same text
_MEANING = 0.5  # the weight of the cosine beside the words
_USUAL = 0.05  # the cosine between unrelated texts, if nothing is known


class HitWords(Struct, frozen=True):
    """The words of a hit: those of its title and name, and those of its passage."""

    title: frozenset[str]
    body: frozenset[str]

    @classmethod
    def of(cls, title: str, body: str) -> HitWords:
        return cls(frozenset(tokens(title[:LONGEST_TEXT])), frozenset(tokens(body[:LONGEST_TEXT])))


def coverages(query: str, hits: Sequence[HitWords], *, unfinished: bool = False) -> list[float]:
    """Return for each hit the share in 0..1 of the query's words that it has.

    Words count by the root of their rarity among these hits; words of grammar do not count. A word counts
    most in a title. ``unfinished``: the last word is the beginning of a word.
    """
    words = list(dict.fromkeys(tokens(content(query))))[:_MOST_WORDS]
    open_end = words[-1] if unfinished and words and not is_cjk(words[-1]) else None
    fits = [[_place_worth(word, hit, word == open_end) for word in words] for hit in hits]
    weights = [
        (_MIXED if is_mixed(word) else 1.0) * _rarity(len(hits), sum(row[at] > 0 for row in fits))
        for at, word in enumerate(words)
    ]
    whole = sum(weights)
    if not whole:
        return [0.0] * len(hits)
    return [
        min(sum(weight * place for weight, place in zip(weights, row, strict=True)) / whole, 1.0)
        for row in fits
    ]


def _place_worth(word: str, hit: HitWords, begins: bool) -> float:
    """Return what a word counts at its best place in a hit; 0 if it is not there."""
    for words, worth in ((hit.title, 1.0), (hit.body, _BODY)):
        if word in words or (begins and any(other.startswith(word) for other in words)):
            return worth
    return 0.0


def _rarity(hits: int, having: int) -> float:
    return math.sqrt(math.log(1 + (hits - having + 0.5) / (having + 0.5)))


def name_fit(query: str, name: str) -> float:
    """Return the share in 0..1 of the words of a name that the query has."""
    words = set(tokens(content(name[:LONGEST_TEXT])))
    return len(words & set(tokens(query))) / len(words) if words else 0.0


def closeness(cosine: float, usual: float | None) -> float:
    """Return what a cosine says, in 0..1: nothing at ``usual``, the cosine between unrelated texts.

    A cosine as of good answers, or above, says 1.
    """
    nothing = _USUAL if usual is None else usual
    return min(max((cosine - nothing) / max((1 - nothing) * _FULL, 1e-9), 0.0), 1.0)


def lowest(cosines: Iterable[float | None]) -> float | None:
    """Return the lowest cosine: the best guess for unrelated texts of a model that nobody measured."""
    return min((cosine for cosine in cosines if cosine is not None), default=None)


def relevance(coverage: float, near: float | None) -> float:
    """Return the relevance in 0..1 of a hit by its words and its closeness; by words if that is None."""
    return coverage if near is None else (1 - _MEANING) * coverage + _MEANING * near


def raised(value: float, times: float) -> float:
    """Return a relevance that something else speaks for, still in 0..1. 0 stays 0. ``times``: at least 0."""
    return 1.0 - math.pow(1 - value, 1 + times)
