"""Words that are written in hiragana alone (おにぎり, ひらがな), told from grammar in the same letters; pure.

A query of several scripts is searched by its other words; what is left of its hiragana once endings,
particles and question words are taken out may be one of these.
"""

from __future__ import annotations

import re

from tabane.search.analysis import normalise

SHORTEST = 3
"""Letters of a word that is worth looking for: shorter ones are nearly always grammar."""

_RUN = re.compile(r"[ぁ-ゖゝゞー]{3,}")

# Longest first where one begins another; verbs of saying and being, endings, particles, questions.
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
    """The words of a text that are written in hiragana, as far as that can be told without a dictionary.

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
    """A piece without the particle at its end, and before it."""
    piece = piece[1:] if piece[:1] and piece[0] in _BEFORE else piece
    while len(piece) > SHORTEST and piece[-1] in _BEHIND:
        piece = piece[:-1]
    return piece
