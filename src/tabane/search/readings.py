"""Spellings of Japanese words that a query has in kana or in Latin letters: はいしゃ, haisha → 歯医者; pure.

A query without kanji is cut into words by a dictionary of readings, as cheaply as possible (Viterbi). Each
word has several spellings, since many words sound alike. Which are meant, a collection says
(:mod:`tabane.search.respelling`).

The dictionary is ``readings.tsv.gz``, made by benchmarks/search/readings.py from IPADIC, which is
Copyright 2000-2003 Nara Institute of Science and Technology; its license is in NOTICE. It is loaded with the
first query that needs it: 4 MB, 0.1 s.
"""

from __future__ import annotations

import gzip
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, groupby, islice, product
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from tabane.search.analysis import FUNCTION_WORDS, normalize
from tabane.text.lazy_patterns import lazy_pattern

DATA = Path(__file__).with_name("readings.tsv.gz")

MOST_LETTERS = 40  # of a query that is read; a longer one is text
MOST_SPELLINGS = 64  # of a word

_TO_KATAKANA = {code: code + 0x60 for code in range(0x3041, 0x3097)}
_TO_HIRAGANA = {code + 0x60: code for code in range(0x3041, 0x3097)}


# Romaji

_ROWS = """
 a i u e o|あいうえお
k ka ki ku ke ko|かきくけこ
s sa si su se so|さしすせそ
t ta ti tu te to|たちつてと
n na ni nu ne no|なにぬねの
h ha hi hu he ho|はひふへほ
m ma mi mu me mo|まみむめも
r ra ri ru re ro|らりるれろ
g ga gi gu ge go|がぎぐげご
z za zi zu ze zo|ざじずぜぞ
d da di du de do|だぢづでど
b ba bi bu be bo|ばびぶべぼ
p pa pi pu pe po|ぱぴぷぺぽ
"""


def _syllables() -> dict[str, str]:
    found = {"ya": "や", "yu": "ゆ", "yo": "よ", "wa": "わ", "wo": "を"}
    for row in _ROWS.strip("\n").split("\n"):
        latin, kana = row.split("|")
        names = latin.split()
        found |= zip(names[-5:], kana, strict=True)
    found |= {"shi": "し", "chi": "ち", "tsu": "つ", "fu": "ふ", "ji": "じ", "dzu": "づ", "tsi": "つぃ"}
    for start, kana in {
        "ky": "き", "gy": "ぎ", "sy": "し", "sh": "し", "zy": "じ", "jy": "じ", "j": "じ", "ty": "ち",
        "ch": "ち", "cy": "ち", "ny": "に", "hy": "ひ", "by": "び", "py": "ぴ", "my": "み", "ry": "り",
    }.items():  # fmt: skip
        found |= {f"{start}a": kana + "ゃ", f"{start}u": kana + "ゅ", f"{start}o": kana + "ょ"}
    return found | {
        "she": "しぇ",
        "che": "ちぇ",
        "je": "じぇ",
        "fa": "ふぁ",
        "fi": "ふぃ",
        "fe": "ふぇ",
        "fo": "ふぉ",
    }


_SYLLABLES = _syllables()
_LONG = str.maketrans(
    {
        "ā": "aa",
        "ī": "ii",
        "ū": "uu",
        "ē": "ee",
        "ō": "ou",
        "â": "aa",
        "î": "ii",
        "û": "uu",
        "ê": "ee",
        "ô": "ou",
        "’": "'",
    }
)


def kana_of_romaji(word: str) -> str:
    """Return a word in Latin letters as hiragana; empty if it is no sequence of Japanese syllables.

    Hepburn and Kunrei spellings, with macrons or doubled vowels.

    >>> kana_of_romaji("hikkoshi"), kana_of_romaji("shimbun"), kana_of_romaji("search")
    ('ひっこし', 'しんぶん', '')
    """
    text, kana, at = word.lower().translate(_LONG).replace("-", ""), list[str](), 0
    while at < len(text):
        for size in (3, 2, 1):
            if (syllable := _SYLLABLES.get(text[at : at + size])) is not None:
                kana.append(syllable)
                at += size
                break
        else:
            letter, following = text[at], text[at + 1 : at + 2]
            if letter == "n" or (letter == "m" and following and following in "bpm"):
                kana.append("ん")
                at += 2 if following == "'" else 1
            elif (
                following and letter in "kstpcgdbzjhf" and (letter == following or text[at : at + 3] == "tch")
            ):
                kana.append("っ")
                at += 1
            else:
                return ""
    return "".join(kana)


# The dictionary

_LONGEST_READING = 12
_ENTRY = re.compile(rb"[\t ][a-z][A-z][^\t\n ]+[ \n]")  # a spelling as a whole
_STEP = 400  # of costs, a letter in the file
# Vowels that are often left out in Latin letters: Tokyo is とうきょう, ramen is らーめん.
_LONG_VOWELS = {
    **dict.fromkeys("おこそとのほもよろをごぞどぼぽょ", "うおー"),
    **dict.fromkeys("うくすつぬふむゆるぐずづぶぷゅ", "うー"),
    **dict.fromkeys("あかさたなはまやらわがざだばぱゃ", "ー"),
    **dict.fromkeys("いきしちにひみりぎじびぴえけせてねへめれげぜでべぺ", "ー"),
}
_SMALL = ("ゃ", "ゅ", "ょ")


class Spelling(NamedTuple):
    """A way to write a reading. ``kind``: n noun, s suffix, p prefix, v verb, x particle, g other grammar."""

    kind: str
    cost: int
    text: str


class _Dictionary:
    """The lines of the dictionary, sorted by reading, in one piece of memory."""

    def __init__(self, data: bytes) -> None:
        first, _, self._data = data.partition(b"\n")
        self.english = frozenset(first.decode().split())
        self._starts = array("I", (match.end() for match in re.finditer(rb"\A|\n(?!\Z)", self._data)))

    def prefixed(self, text: str, loose: bool) -> Iterator[tuple[str, int, int, tuple[Spelling, ...]]]:
        """Yield the words that a text begins with: reading, letters of the text, added vowels, spellings.

        ``loose``: the text may lack long vowels.
        """
        waiting = [("", 0, 0)]
        while waiting:
            before, size, added = waiting.pop()
            if size == len(text) or len(before) == _LONGEST_READING:
                continue
            found = before + text[size]
            ways = [(found, 0)]
            if loose and text[size + 1 : size + 2] not in _SMALL:
                ways += (
                    (found + vowel, 1)
                    for vowel in _LONG_VOWELS.get(text[size], "")
                    if vowel != text[size + 1 : size + 2]
                )
            for reading, more in ways:
                known, spellings = self._look_up(reading)
                if spellings:
                    yield reading, size + 1, added + more, spellings
                if known:
                    waiting.append((reading, size + 1, added + more))

    def sounds(self, word: str) -> list[str]:
        """Return the readings of a word with kanji. Reads the whole dictionary: a millisecond."""
        wanted, found, at = word.encode(), list[str](), 0
        while (at := self._data.find(wanted, at)) >= 0:
            end = at + len(wanted)
            if _ENTRY.fullmatch(self._data, at - 3, end + 1):
                found.append(self._reading(self._data.rfind(b"\n", 0, at) + 1).decode())
            at = end
        return found

    def _look_up(self, reading: str) -> tuple[bool, tuple[Spelling, ...]]:
        """Return whether words begin so, and the spellings of the word itself."""
        wanted = reading.encode()
        at = bisect_left(self._starts, wanted, key=self._reading)
        if at == len(self._starts):
            return False, ()
        found = self._reading(self._starts[at])
        return found.startswith(wanted), self._spellings(at, reading) if found == wanted else ()

    def _reading(self, start: int) -> bytes:
        return self._data[start : self._data.index(b"\t", start)]

    def _spellings(self, at: int, reading: str) -> tuple[Spelling, ...]:
        start = self._starts[at]
        _, _, words = self._data[start : self._data.index(b"\n", start)].decode().partition("\t")
        return tuple(
            Spelling(
                word[0],
                (ord(word[1]) - ord("A")) * _STEP,
                reading.translate(_TO_KATAKANA) if word[2:] == "*" else word[2:] or reading,
            )
            for word in words.split(" ")
        )


@lru_cache(maxsize=1)
def _dictionary() -> _Dictionary:
    return _Dictionary(gzip.decompress(DATA.read_bytes()))


# Words of a run of hiragana

_WORD_KINDS = "nspv"
_EACH = 1_500  # what each word costs: few long words are likelier than many short ones
_UNKNOWN = 12_000  # what a letter of no word costs
_LENGTHENED = 1_500  # what a vowel costs that is not written
_WORSE = 6_000  # a spelling that costs so much more is not meant
# What a word of a kind costs after one of another; ^ and $ are the ends, a comma is a space. From IPADIC's
# matrix, means.
_AFTER = {
    "ns": -3_800, "nc": -4_600, "nx": -600, "np": 1_200, "ng": 1_000, "nv": 0, "nn": 200,
    "sn": 600, "ss": -2_800, "sc": -4_000, "sx": -600, "sp": 2_600, "sg": 1_000, "sv": 0,
    "pn": -3_000, "ps": 0, "pc": 2_500, "px": 1_500, "pg": 500, "pv": 500, "p$": 2_500,
    "gs": 0, "gc": -2_100, "gx": -400,
    "cn": -1_000, "cs": 1_000, "cc": 500, "cx": 700, "cp": -500, "cg": -300, "cv": -3_500,
    "xn": 1_000, "xs": 2_300, "xc": 0, "xx": -1_000, "xv": 500, "xp": 500,
    "vn": 1_000, "vs": -1_200, "vc": -1_500, "vx": -3_500, "vv": 500, "vp": 3_000,
    "^s": 3_000, "^c": 3_000, "^x": 3_000, ",s": 3_000,
}  # fmt: skip


class Segment(NamedTuple):
    """A word of a run, with its spellings; none for grammar and for what no dictionary knows.

    ``kana`` is its part of the run. ``reading`` also has the long vowels that romaji leaves out.
    """

    kana: str
    kind: str
    reading: str
    spellings: tuple[Spelling, ...] = ()

    @property
    def is_word(self) -> bool:
        """Return whether it is no grammar."""
        return self.kind in _WORD_KINDS or self.kind == "?"


class Cut(NamedTuple):
    """A way to cut a run into words, and its cost."""

    cost: int
    segments: tuple[Segment, ...]


_MOST_CUTS = 6
_MOST_LOOSE = 12  # of romaji, in which words sound alike that do not otherwise


def cuts(run: str, *, after: str = "^", loose: bool = False) -> list[Cut]:
    """Return the likeliest ways to cut a run of hiragana into words, best first.

    ``after`` is the kind of the word before it: ^ for none, a comma for a space. ``loose``: the run is of
    romaji, and may lack long vowels.
    """
    most = _MOST_LOOSE if loose else _MOST_CUTS
    best: list[dict[str, list[Cut]]] = [{} for _ in range(len(run) + 1)]
    best[0] = {after: [Cut(0, ())]}
    for at in range(len(run)):
        if not best[at]:
            continue
        steps = [*_steps(run[at:], loose), (_UNKNOWN, Segment(run[at], "?", run[at]))]
        for before, ways in best[at].items():
            for cost, segment in steps:
                price = cost + _EACH + _AFTER.get(before + segment.kind, 0)
                known = best[at + len(segment.kana)].setdefault(segment.kind, [])
                known += (Cut(way.cost + price, (*way.segments, segment)) for way in ways)
                if len(known) > most:
                    known.sort(key=lambda way: way.cost)
                    del known[most:]
    ends = (
        Cut(way.cost + _AFTER.get(kind + "$", 0), way.segments)
        for kind, ways in best[-1].items()
        for way in ways
    )
    return sorted(ends, key=lambda way: way.cost)[:most]


def _steps(rest: str, loose: bool) -> Iterator[tuple[int, Segment]]:
    """Yield the words that the rest of a run may begin with, each in every kind that it is, with its cost."""
    for reading, size, added, spellings in _dictionary().prefixed(rest, loose):
        words = tuple(each for each in spellings if each.kind in _WORD_KINDS)
        costs: dict[str, int] = {}
        for kind, cost, _ in spellings:
            costs[kind] = min(cost, costs.get(kind, cost))
        for kind, cost in costs.items():
            known = words if kind in _WORD_KINDS else ()
            yield cost + added * _LENGTHENED, Segment(rest[:size], kind, reading, known)


# Queries

_HAN = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々\uac00-\ud7a3\U00020000-\U0003134f]")
_PIECE = lazy_pattern(r"[ぁ-ゖゝゞー]+|[ァ-ヺー]+|[a-zāīūēōâîûêô'’-]+|[^\W_]+")
_HIRAGANA = lazy_pattern(r"[ぁ-ゖゝゞー]+")
_KANJI = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff々]{2,6}")
_SHORT_KANA = 2  # letters of a word in kana that is found within too many others
_KANA = lazy_pattern(r"[ぁ-ゖァ-ヺゝゞー]+")
_LATIN = lazy_pattern(r"[a-zāīūēōâîûêô'’-]+")
_PARTICLES = frozenset("はがをにでとのもへや")
_LATIN_PARTICLES = frozenset(
    ("no", "wo", "o", "ni", "de", "ga", "wa", "ha", "to", "mo", "e", "he", "kara", "made", "san", "sama")
)
_PLAIN_PARTICLES = frozenset(("no", "wo", "ga", "wa", "san", "sama"))  # also beside English words
_MOST_READINGS = 4
_MOST_SPOKEN = 3  # ways to say a word that are searched in hiragana, which costs more than kanji
_SHORT = 3  # letters of words that are Japanese only among others
_HONORIFIC = ("お", "ご")


class Reading(NamedTuple):
    """A way to read a query that is in kana or in Latin letters.

    ``words`` are its words without grammar; each is a list of spellings: first as it was typed, then the
    likeliest ones. ``pieces`` are the words, by number, and what is between them.
    """

    words: tuple[tuple[str, ...], ...]
    pieces: tuple[str | int, ...]

    def written(self, words: Sequence[str]) -> str:
        """Return the query with these spellings of its words."""
        return "".join(words[piece] if isinstance(piece, int) else piece for piece in self.pieces)


Spelled = list[str | tuple[str, ...]]
"""A run: its words, each with its spellings, and the grammar between them."""


def may_read(text: str) -> bool:
    """Return whether a query has no kanji, and may be in kana or romaji. Takes microseconds."""
    if len(text) > MOST_LETTERS or _HAN.search(text := normalize(text)):
        return False
    pieces = _PIECE.findall(text)
    latin = [piece for piece in pieces if _LATIN.fullmatch(piece)]
    spoken = sum(len(word) > _SHORT and bool(kana_of_romaji(word)) for word in latin)
    return any(map(_KANA.fullmatch, pieces)) or 0 < len(_content(latin)) <= 2 * spoken


@lru_cache(maxsize=256)
def readings(text: str) -> tuple[Reading, ...]:
    """Return how a query can be spelled otherwise, likeliest first; none if it has kanji, or is not Japanese.

    The readings are cut into other words. In Latin letters, a query is Japanese if at least half of its words
    are Japanese and not English. The first call loads the dictionary, 0.1 s; others take milliseconds.
    """
    if not may_read(text):
        return ()
    text = normalize(text)
    pieces = _PIECE.findall(text)
    kana = any(map(_KANA.fullmatch, pieces))
    romaji = {} if kana else _romaji([piece for piece in pieces if _LATIN.fullmatch(piece)])
    if not kana and not romaji:
        return ()
    between, spelled, at = list[str](), list[list[Spelled]](), 0
    for piece in pieces:
        start = text.index(piece, at)
        between.append(text[at:start])
        after = "^" if start == 0 else "," if text[start - 1].isspace() else "n"
        spelled.append(list(islice(_spellings(piece, romaji, after), _MOST_READINGS)))
        at = start + len(piece)
    ways = islice(product(*spelled), _MOST_READINGS)
    found = [_reading_of(between, way, text[at:]) for way in ways]
    spells = [any(len(word) > 1 for word in each.words) for each in found]
    return tuple(compress(found, spells)) if spells[:1] == [True] else ()


def may_sound(text: str) -> bool:
    """Return whether a query may be a single word of kanji. Takes microseconds."""
    return _KANJI.fullmatch(normalize(text).strip()) is not None


def sounds_of(text: str) -> tuple[str, ...]:
    """Return how a word of kanji is written in kana; nothing if it is no single word, or is short."""
    if not may_sound(text):
        return ()
    text = normalize(text).strip()
    found = [each for each in _dictionary().sounds(text) if len(each) > _SHORT_KANA]
    return tuple(dict.fromkeys(kana for each in found for kana in (each, each.translate(_TO_KATAKANA))))


def _reading_of(between: Sequence[str], spelled: Sequence[Spelled], end: str) -> Reading:
    pieces, words = list[str | int](), list[tuple[str, ...]]()
    for before, run in zip(between, spelled, strict=True):
        pieces.append(before)
        for each in run:
            pieces.append(each if isinstance(each, str) else len(words))
            words += [] if isinstance(each, str) else [tuple(dict.fromkeys(each))]
    return Reading(tuple(words), (*pieces, end))


def _spellings(piece: str, romaji: dict[str, list[Cut]], after: str) -> Iterator[Spelled]:
    """Yield a piece of a query, cut into words in several ways. ``after``: see :func:`cuts`."""
    if piece in _PARTICLES or (piece in FUNCTION_WORDS and piece not in romaji):
        yield [piece]
    elif piece in romaji:
        yield from _spell_run(romaji[piece], piece)
    elif _HIRAGANA.fullmatch(piece):
        yield from _spell_run(cuts(piece, after=after))
    else:
        yield [(piece, *_spell_katakana(piece))]


def _romaji(words: Sequence[str]) -> dict[str, list[Cut]]:
    """Return how each Japanese word in Latin letters is cut; nothing if fewer than half are Japanese.

    A word that is also English (note, sake) is Japanese if all others are.
    """
    found = {word: ways for word in words if (ways := _romaji_cuts(word))}
    english = _dictionary().english
    certain = {word: ways for word, ways in found.items() if len(word) > _SHORT and word not in english}
    if not certain or 2 * len(certain) < len(_content(words)):
        return {}
    if all(word in found for word in words):
        return found
    return certain | {word: found[word] for word in words if word in _PLAIN_PARTICLES}


def _romaji_cuts(word: str) -> list[Cut]:
    """Return how a word in Latin letters is cut; nothing if it is not Japanese."""
    if word in _LATIN_PARTICLES:
        return [Cut(0, (_particle(word),))]
    ways = [way for way in cuts(kana_of_romaji(word), loose=True) if _is_likely(way.segments)]
    near = (way for way in ways if way.cost <= ways[0].cost + _WORSE)
    return [way for way in near if all(segment.is_word for segment in way.segments)] or ways


def _particle(word: str) -> Segment:
    kana = kana_of_romaji(word)
    return Segment(kana, "c", kana)


def _content(words: Sequence[str]) -> list[str]:
    """Return words in Latin letters without grammar, English or Japanese."""
    return [word for word in words if word not in FUNCTION_WORDS and word not in _LATIN_PARTICLES]


def _is_likely(run: Sequence[Segment]) -> bool:
    """Return whether words of the dictionary make a run, and are not mostly of one syllable."""
    kana = sum(len(segment.kana) for segment in run)
    words = sum(segment.kana not in _HONORIFIC for segment in run)
    return bool(run) and all(segment.kind != "?" for segment in run) and (len(run) == 1 or kana >= 2 * words)


def _spell_katakana(word: str) -> Iterator[str]:
    """Yield the spellings of a native word in katakana: リンゴ is 林檎. A loanword has none."""
    hiragana = word.translate(_TO_HIRAGANA)
    for way in cuts(hiragana) if hiragana != word else ():
        if len(way.segments) == 1 and (native := [each.text for each in way.segments[0].spellings]) != [word]:
            yield from (*native, *[hiragana] * bool(native))


def _spell_run(ways: Sequence[Cut], typed: str = "") -> Iterator[Spelled]:
    """Yield a run, cut into words in several ways. Neighbors are one word. ``typed``: it in Latin letters."""
    cut = [list(_parts(way.segments)) for way in ways]
    same: dict[tuple[int, str], list[list[Segment]]] = {}
    for parts in cut:
        for start, kana, part in parts:
            if part[0].is_word:
                same.setdefault((start, kana), []).append(part)
    seen = set[tuple[tuple[int, str], ...]]()
    for parts in cut:
        outline = tuple((start, kana) for start, kana, _ in parts)
        if outline not in seen:
            seen.add(outline)
            yield [
                (typed if typed and len(parts) == 1 else kana, *_spell_word(same[start, kana]))
                if part[0].is_word
                else kana
                for start, kana, part in parts
            ]


def _spell_word(ways: Sequence[Sequence[Segment]]) -> Iterator[str]:
    """Yield the spellings of a word, the likeliest first, and its kana. ``ways``: how it can be cut."""
    ranked = sorted((way for each in ways for way in _spell_part(each)), key=itemgetter(0))
    yield from list(dict.fromkeys(text for _, text in ranked))[:MOST_SPELLINGS]
    spoken = dict.fromkeys("".join(segment.reading for segment in each) for each in ways)
    for kana in islice(spoken, _MOST_SPOKEN):
        yield from (kana, kana.translate(_TO_KATAKANA))


def _parts(run: Sequence[Segment]) -> Iterator[tuple[int, str, list[Segment]]]:
    """Yield the words of a run that touch each other, and the grammar between them, with start and kana."""
    start = 0
    for _, group in groupby(run, lambda segment: segment.is_word):
        part = list(group)
        kana = "".join(segment.kana for segment in part)
        yield start, kana, part
        start += len(kana)


def _spell_part(part: Sequence[Segment]) -> Iterator[tuple[int, str]]:
    """Yield the likely spellings of words that touch each other, with their costs."""
    ways = [(0, "", "^")]
    for segment in part:
        spellings = segment.spellings or (Spelling("?", 0, segment.kana),)
        ways = sorted(
            (
                cost + each.cost + _EACH + (_AFTER.get(kind + each.kind, 0) if text else 0),
                text + each.text,
                each.kind,
            )
            for cost, text, kind in ways
            for each in spellings
        )[:MOST_SPELLINGS]
    yield from ((cost, text) for cost, text, _ in ways if cost <= ways[0][0] + _WORSE)
