"""The Universal Sentence Encoder and MiniLM as one model: each language by the one that knows it.

A vector has the components of both. Those of MiniLM are zero for a text that is not English. So the cosine of
two English texts is the weighted mean of the cosines of both models, and that of two other texts is that of
the Universal Sentence Encoder alone. Between an English and another text it is the latter too, times a
constant: that changes no order among texts of one language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import cast

import numpy as np

from tabane.search.analysis import FUNCTION_WORDS
from tabane.search.embedding.minilm_encoder import DIMENSION
from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.universal_encoder import DIMENSION as UNIVERSAL
from tabane.search.embedding.worker.minilm import MOST_TOKENS, WordPieces, encoder_in
from tabane.search.embedding.worker.model import Floats
from tabane.search.embedding.worker.universal_model import UniversalModel

SHARE = 0.6
"""The weight of MiniLM's cosine between two English texts; the other model has the rest."""

_WORD = re.compile(r"[^\W\d_]+")
_READ = 2000  # characters of a text that are looked at to know its language
# Words of grammar of French, Spanish, German, Italian, Dutch, Portuguese and Polish that are not English.
_OTHER_WORDS = """
de la le les des du un une et est pour dans que qui sur avec pas vous je el los las y una por con se su der
das und ist nicht mit ein eine den dem von zu auf ich sie es il di che per non sono della het een van dat voor
niet zijn os um uma não na em nie jest się w z
"""
_OTHER = frozenset(_OTHER_WORDS.split())


@dataclass(frozen=True, slots=True)
class _JoinedTokens:
    """The tokens of a text in both models; ``english`` is empty if the text is not English."""

    universal: Sized
    english: Sequence[int]

    def __len__(self) -> int:
        return max(len(self.universal), len(self.english))


def is_english(text: str) -> bool:
    """Return whether a text is English: in Latin script, and not with more grammar of another language.

    A short text with hardly a word of grammar counts as English, unless it has letters with accents. If that
    is wrong, its cosines with texts of its language are all smaller by the same factor.
    """
    words = [word.lower() for word in _WORD.findall(text[:_READ])]
    letters = sum(map(len, words))
    if not letters or 3 * sum(len(word) for word in words if word.isascii()) < 2 * letters:
        return False
    other = sum(word in _OTHER for word in words)
    if other == 1 and all(word.isascii() for word in words):
        return True  # a name, such as Rio de Janeiro
    return other <= sum(word in FUNCTION_WORDS for word in words)


class JoinedModel:
    """Implements :class:`~tabane.search.embedding.worker.model.LoadedModel`."""

    pads = False

    def __init__(self, spec: ModelSpec) -> None:
        """Load the files of both. ``spec.graph`` is the path of MiniLM's.

        Raises ValueError if a checksum is wrong; OSError.
        """
        self._universal = UniversalModel(spec)
        self._pieces = WordPieces()
        self._english = encoder_in(spec.graph, spec.threads)
        self._most = min(spec.max_tokens, MOST_TOKENS)
        self.dimension = UNIVERSAL + DIMENSION

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text, cut to what each model accepts."""
        english = [self._pieces.encode(text, self._most) if is_english(text) else () for text in texts]
        both = zip(self._universal.tokens(texts), english, strict=True)
        return [_JoinedTokens(universal, pieces) for universal, pieces in both]

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one vector for each text: texts × dimension, float32, of length 1."""
        texts = cast(Sequence[_JoinedTokens], batch)
        joined: Floats = np.zeros((len(texts), self.dimension), "<f4")
        joined[:, :UNIVERSAL] = self._universal.vectors([text.universal for text in texts])
        english = [place for place, text in enumerate(texts) if text.english]
        if english:
            vectors = self._english.vectors([texts[place].english for place in english])
            joined[english, :UNIVERSAL] *= np.float32((1 - SHARE) ** 0.5)
            joined[english, UNIVERSAL:] = vectors * np.float32(SHARE**0.5)
        return joined
