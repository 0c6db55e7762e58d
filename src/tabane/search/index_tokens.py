"""Tokens that an index has beside words: those of a Japanese dictionary, and pairs of characters.

The dictionary is Sudachi in its finest mode. Each word is in its normalized form: 打込む, 打ち込む and
うちこむ are one. Particles, endings and punctuation are left out. It is loaded on first use: 75 MB, a second.

A query in several scripts is searched by its words in kanji and katakana. Its hiragana without endings,
particles and question words may be words too (おにぎり, ひらがな).

Overlapping pairs of characters, by which an index finds any substring in any script. Each character of a
text begins exactly one token: the pair with the next character. The last character is a token of its own.
So a substring of two or more characters is a phrase of pairs, and a single character is the beginning of
a token. Both are exact, and the text need not be checked. Texts are compared in one spelling
(:func:`~tabane.search.analysis.substring_spelling`). Hiragana and katakana remain different.
"""

from __future__ import annotations

import re
import sys
import threading
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from operator import add
from typing import Any, Protocol

from tabane.search.analysis import is_cjk, normalise, plain, substring_spelling, without_readings

_EMPTY = ("助詞", "助動詞", "補助記号", "記号", "空白")
_LONGEST = 8_000  # characters at once: Sudachi refuses more than 49,149 bytes


class Japanese(Protocol):
    """Cuts Japanese into words. ``fingerprint`` names the dictionary; all words of an index are of one."""

    @property
    def fingerprint(self) -> str: ...

    def words(self, text: str) -> list[str]: ...


def japanese() -> Japanese | None:
    """Return the installed dictionary, None without the extra ``ja``. Nothing is loaded yet."""
    try:
        fingerprint = f"sudachi {version('sudachipy')} {version('sudachidict-core')}"
    except PackageNotFoundError:
        return None
    return Sudachi(fingerprint) if find_spec("sudachipy") else None


class Sudachi:
    """SudachiPy with its core dictionary. Any thread may use it."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    def words(self, text: str) -> list[str]:
        """Return the words of Japanese text in their normalized form, in order. Latin words are left out."""
        if text.isascii():
            return []
        with self._lock:
            tokenizer = self._loaded()
            return [
                word
                for part in _parts(without_readings(plain(text)))
                for word in _normalised(tokenizer.tokenize(part))
            ]

    def _loaded(self) -> Any:
        if self._tokenizer is None:
            from sudachipy import Dictionary, SplitMode

            self._tokenizer = Dictionary(dict="core").tokenizer(mode=SplitMode.A)
        return self._tokenizer


def _parts(text: str) -> list[str]:
    return [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)]


def _normalised(morphemes: Any) -> list[str]:
    forms = (each.normalized_form().lower() for each in morphemes if each.part_of_speech()[0] not in _EMPTY)
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
    for run in _RUN.finditer(normalise(text)):
        for piece in _WORDS.split(run.group()):
            word = _bare(piece)
            if len(word) >= SHORTEST:
                found.append(word)
    return list(dict.fromkeys(found))


def _bare(piece: str) -> str:
    """Return a piece without a particle before it and at its end."""
    piece = piece[1:] if piece[:1] and piece[0] in _BEFORE else piece
    while len(piece) > SHORTEST and piece[-1] in _BEHIND:
        piece = piece[:-1]
    return piece


# A longer needle is hardly rarer than this many of its characters, and a longer phrase costs more.
MOST_PAIRS = 64

# Unicode reserves these for internal use. In a text they are a mistake, and all count as the same one.
_OWN = range(0xFDD0, 0xFDEF)
_BLANK = "\ufdef"
_ANY_OWN = 0x1FFFE
_MISTAKEN = chr(_ANY_OWN)
_MISTAKE = re.compile("[\ufdd0-\ufdef\U0001fffe]")
_OTHERS = re.compile("[\\s\ufdd0-\ufdee\U0001fffe]")


def substring_tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, one for each character of the normalized text."""
    spelt = _spelt(substring_spelling(text))
    return [*map(add, spelt, spelt[1:]), spelt[-1]] if spelt else []


def needle_tokens(needle: str) -> list[str]:
    """Return the tokens that are adjacent in each text that contains the needle, at most 64.

    For a needle of one character: the beginning of a token. See :func:`is_single`, :func:`is_whole`.
    """
    spelt = _spelt(substring_spelling(needle)[: MOST_PAIRS + 1])
    return list(map(add, spelt, spelt[1:])) if len(spelt) > 1 else [spelt]


def is_single(needle: str) -> bool:
    """Return whether the needle is one character, and its token therefore the beginning of others."""
    return len(substring_spelling(needle)) == 1


def is_whole(needle: str) -> bool:
    """Return whether the tokens cover the whole needle. If not, the text must be checked."""
    return len(substring_spelling(needle)) <= MOST_PAIRS + 1 and not _MISTAKE.search(needle)


def _spelt(text: str) -> str:
    """Return the text with white space replaced by reserved characters, since tokens are joined by spaces."""
    # A reserved character in the text is not a space. The only white space of most texts is the space.
    text = text.replace(_BLANK, _MISTAKEN).replace(" ", _BLANK)
    return text.translate(_spellings()) if _OTHERS.search(text) else text


@lru_cache(maxsize=1)
def _spellings() -> dict[int, int]:
    blanks = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    return dict(zip(blanks, _OWN, strict=False)) | dict.fromkeys(_OWN, _ANY_OWN)
