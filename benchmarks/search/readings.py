"""Makes ``src/tabane/search/readings.tsv.gz`` from IPADIC, the dictionary of MeCab (Debian: mecab-ipadic).

Run as ``python -m benchmarks.search.readings FOLDER ENGLISH``. FOLDER has the ``*.csv`` files of the
dictionary (``apt-get download mecab-ipadic``; ``dpkg -x``), version 2.7.0-20070801. ENGLISH is a list of
English words, one a line (Debian: wamerican, ``/usr/share/dict/words``).

A line is a reading in hiragana, a tab, and its spellings, separated by spaces, the most usual first. Each
begins with its class and a letter for its cost. The first line has the English words that read as Japanese
ones (note, sake).
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tabane.search.readings import DATA, kana_of_romaji

_KATAKANA = {code: code - 0x60 for code in range(0x30A1, 0x30F7)}
_READING = re.compile(r"[ぁ-ゖー]{1,12}")
_SURFACE = re.compile(r"[ぁ-ゖー々〆ヶ\u3400-\u4dbf\u4e00-\u9fff]+")
_KANA = re.compile(r"[ぁ-ゖー]+")
_KATAKANA_WORD = re.compile(r"[ァ-ヶー]+")
# File → class, and the highest cost of a word that is kept: the rest are names that hardly anybody writes.
_FILES = {
    "Noun": ("n", 11_000),
    "Noun.verbal": ("n", 11_000),
    "Noun.adjv": ("n", 11_000),
    "Noun.adverbal": ("n", 11_000),
    "Noun.nai": ("n", 11_000),
    "Noun.place": ("n", 10_200),
    "Noun.name": ("n", 8_500),
    "Noun.proper": ("n", 8_500),
    "Noun.org": ("n", 6_500),
    "Suffix": ("s", 14_000),
    "Prefix": ("p", 9_000),
    "Adverb": ("n", 11_000),
    "Verb": ("v", 11_250),
    "Adj": ("v", 11_250),
    "Noun.number": ("g", 9_000),
    "Noun.demonst": ("g", 9_000),
    "Noun.others": ("g", 12_000),
    "Adnominal": ("g", 9_000),
    "Conjunction": ("g", 9_000),
    "Interjection": ("g", 9_000),
    "Auxil": ("x", 9_000),
    "Postp": ("x", 9_000),
    "Postp-col": ("x", 9_000),
}
_FORMS = ("基本形", "未然形", "連用形", "連用タ接続", "連用テ接続", "ガル接続")
_NAMES = ("Noun.place", "Noun.name", "Noun.proper", "Noun.org")
_NAME = 1_500  # what a name costs beside other words
# Newspapers write 誕生 as 誕じょう: the end of a word of kanji is no such kana.
_HALF = re.compile(r"(?!.*(?:さん|ちゃん)$)(?=.*[\u3400-\u9fff]).*[ゃゅょんうぱぴぷぺぽ]")
_LOANS = ("Noun", "Noun.verbal", "Noun.adjv", "Noun.place")
_LONGEST_PLACE = 3  # letters: the others are mostly parts of towns
_LOAN = 400  # what katakana costs, where kanji is as usual
_VOICED = dict(
    zip("かきくけこさしすせそたちつてとはひふへほ", "がぎぐげござじずぜぞだぢづでどばびぶべぼ", strict=True)
)
_VOICED_SOUND = re.compile(f"[{''.join(_VOICED.values())}]")
_COMMON, _MOST_COMMON = 6_400, 2_000  # costs of words of one kanji, and of several, that are used as suffixes
_AS_SUFFIX = 4_000
_SHORT = 1_500  # what a word of one syllable costs
_RARE = 2_000  # what a kanji of the second level of JIS X 0208 costs
_ENDINGS = """
した したい したく して してい する しない します しました しません しています している
していた しよう させる される された できる できない できた できます です でした ます
ました ません ない なかった だった なった なる なり たい たく たかった ている ていた
てる ください ほしい ですか ますか か ために とき さん さま くん ちゃん ときの には
では とは での への からの までの について
はいつ はどこ はだれ はなに はなん はいくら はどう かな だっけ どこで いつから
"""
_PARTICLES = "はがをにでへともの"
_PARTICLE = 4_400
_ENDING = 2_000  # what an ending costs: they are parts of other words in the dictionary
_STEP = 400  # of costs, a letter


def main(folder: str, english: str) -> None:
    """Write the file. Raises OSError."""
    found: dict[str, dict[str, tuple[int, str]]] = {}
    for reading, surface, word_class, cost in _words(Path(folder)):
        known = found.setdefault(reading, {})
        if surface not in known or cost < known[surface][0]:
            known[surface] = (cost, word_class)
    _add_voiced(found)
    for ending in _ENDINGS.split():
        found.setdefault(ending, {})[""] = (_ENDING, "x")
    for particle in _PARTICLES:
        found[particle][""] = (_PARTICLE, "c")
    lines = [" ".join(_english(Path(english)))]
    for reading, spellings in sorted(found.items()):
        ranked = sorted(spellings.items(), key=lambda item: (item[1], item[0]))
        words = (
            f"{word_class}{_letter(cost)}{'' if surface == reading else surface}"
            for surface, (cost, word_class) in ranked
        )
        lines.append(f"{reading}\t{' '.join(words)}")
    DATA.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n", 9, mtime=0))


def _add_voiced(found: dict[str, dict[str, tuple[int, str]]]) -> None:
    """Add words as they sound after others: 薬 is ぐすり in 風邪薬. Those with a voiced sound stay."""
    for reading, spellings in list(found.items()):
        if reading[0] not in _VOICED or len(reading) < 2 or _VOICED_SOUND.search(reading):
            continue
        voiced = _VOICED[reading[0]] + reading[1:]
        for surface, (cost, word_class) in spellings.items():
            common = cost <= (_COMMON if len(surface) == 1 else _MOST_COMMON)
            if word_class == "n" and common and surface > "\u3400":
                found.setdefault(voiced, {}).setdefault(surface, (cost + _AS_SUFFIX, "s"))


def _words(folder: Path) -> Iterator[tuple[str, str, str, int]]:
    """Yield reading, spelling, class and cost of each word that is kept."""
    for name, (word_class, most) in _FILES.items():
        with (folder / f"{name}.csv").open(encoding="euc-jp", errors="replace", newline="") as file:
            for row in csv.reader(file):
                surface, cost, form = row[0], int(row[3]), row[9]
                reading = row[11].translate(_KATAKANA)
                grammar = word_class in "gx"
                cost += _NAME * (name in _NAMES) + _RARE * any(map(_is_rare, surface))
                cost += _SHORT * (len(reading) == 1 and word_class in "nv")
                if cost > most or (form != "*" and not grammar and form not in _FORMS):
                    continue
                if (
                    _KATAKANA_WORD.fullmatch(surface)
                    and name in _LOANS
                    and surface.translate(_KATAKANA) == reading
                ):
                    surface, cost = "*", cost + _LOAN
                if not _READING.fullmatch(reading) or not (surface == "*" or _SURFACE.fullmatch(surface)):
                    continue
                if name == "Noun.place" and len(surface) > _LONGEST_PLACE:
                    continue
                if word_class in "ns" and _HALF.match(surface):
                    continue
                if _KANA.fullmatch(surface) and surface != reading:
                    continue
                if grammar and surface != reading:
                    continue
                yield reading, surface, word_class, cost


def _is_rare(letter: str) -> bool:
    """Return whether a kanji is in the second level of JIS X 0208, from row 48 on."""
    return letter >= "\u3400" and letter.encode("euc-jp", "replace")[0] >= 0xA0 + 48


def _letter(cost: int) -> str:
    return chr(ord("A") + min(max(cost // _STEP, 0), 57))


def _english(path: Path) -> Iterator[str]:
    """Yield English words in lower case that read as Japanese syllables."""
    for word in sorted(set(path.read_text(encoding="utf-8").split())):
        if word.isascii() and word.isalpha() and word.islower() and kana_of_romaji(word):
            yield word


if __name__ == "__main__":
    main(*sys.argv[1:])
