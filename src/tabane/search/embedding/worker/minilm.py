"""all-MiniLM-L6-v2 over numpy: its weights in 8 bits, its word pieces, and its six layers.

Wang et al. 2020, "MiniLM: Deep Self-Attention Distillation"; layers as in Devlin et al. 2019. The states of
all tokens of a text are averaged (Reimers and Gurevych 2019). It was trained on English.

Texts of a part are computed one after the other in one matrix, without padding: only attention is by text.
"""

from __future__ import annotations

import gzip
import hashlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tabane.search.embedding.minilm_encoder import CHECKSUM, DIMENSION
from tabane.search.embedding.worker.model import CHARACTERS, Floats, Whole

MOST_TOKENS = 128
"""Tokens of a text that are read, with the two around it.

For 470 questions about answers of 160 tokens, nDCG@10 by vectors of the joined model is .802 with 64 tokens,
.838 with 128, and .831 with 256 (−.019 to +.005), which take 1.4 times as long. Measured in 2026-11.
"""
_TOKENS = 256  # of a part
_HEADS = 12
_EPSILON = 1e-12
_BLOCK = 24_576  # weights of a block: OpenBLAS calls products of 40 rows with it small
_UNKNOWN, _BEGIN, _END = 100, 101, 102
_LONGEST_WORD = 100  # characters; a longer one is unknown
_WORDS = 20_000  # whose pieces are remembered

Tensors = Mapping[str, npt.NDArray[Any]]


class WordPieces:
    """The tokenizer of BERT, uncased: words of lower case without accents, in pieces of its vocabulary.

    Greedy from the left (Wu et al. 2016). Several threads may use it.
    """

    def __init__(self) -> None:
        packed = resources.files(__package__).joinpath("wordpieces.txt.gz").read_bytes()
        content = gzip.decompress(packed).decode()
        self._pieces = {piece: place for place, piece in enumerate(content.split("\n")[:-1])}
        self._of_word = lru_cache(_WORDS)(self._split)

    def encode(self, text: str, most: int) -> list[int]:
        """Return at most ``most`` tokens of a text: its pieces, and one before and after them."""
        tokens = [_BEGIN]
        for word in _words(text[: most * CHARACTERS]):
            tokens += self._of_word(word)
            if len(tokens) >= most:
                break
        return [*tokens[: max(most - 1, 1)], _END]

    def _split(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return (_UNKNOWN,)
        tokens, first = [], 0
        while first < len(word):
            for last in range(len(word), first, -1):
                piece = self._pieces.get(word[first:last] if not first else f"##{word[first:last]}")
                if piece is not None:
                    break
            else:
                return (_UNKNOWN,)
            tokens.append(piece)
            first = last
        return tuple(tokens)


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case; each sign and each Chinese character is one."""
    plain = unicodedata.normalize("NFD", text).lower()
    spaced = "".join(_spaced(character) for character in plain)
    yield from spaced.split()


@lru_cache(4096)
def _spaced(character: str) -> str:
    """Return a character as it is read: a space around those that are words of their own."""
    kind = unicodedata.category(character)
    if (
        kind == "Mn"
        or (kind in ("Cc", "Cf", "Co", "Cn") and character not in "\t\n\r")
        or character == "\ufffd"
    ):
        return ""
    code = ord(character)
    sign = (
        kind.startswith("P") or 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    )
    chinese = (
        0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF or code >= 0x20000
    )
    if character.isspace():
        return " "
    return f" {character} " if sign or chinese else character


class _Layer(NamedTuple):
    """The weights of a layer, in :func:`_blocks`, with those of queries, keys and values side by side."""

    attention: Floats
    attention_bias: Floats
    joined: Floats
    joined_bias: Floats
    first_norm: tuple[Floats, Floats]
    wide: Floats
    wide_bias: Floats
    narrow: Floats
    narrow_bias: Floats
    second_norm: tuple[Floats, Floats]


class MiniLMEncoder:
    """The layers. Several threads may use it."""

    def __init__(self, tensors: Tensors, threads: int = 1) -> None:
        embeddings = "inner.embeddings."
        self._table = tensors[f"{embeddings}word_embeddings.weight_q"]
        self._scale = tensors[f"{embeddings}word_embeddings.weight_scale"]
        places = _weights(tensors, f"{embeddings}position_embeddings.weight")
        self._places: Floats = places + tensors[f"{embeddings}token_type_embeddings.weight"][0]
        self._norm = _norm_of(tensors, embeddings)
        # The products of matrices have no names in the graph; they are numbered in the order of use.
        products = sorted(
            (name.removesuffix("_q") for name in tensors if name.startswith("val_") and name.endswith("_q")),
            key=lambda name: int(name.removeprefix("val_")),
        )
        self._layers = [
            _layer(tensors, f"inner.encoder.layer.{number}.", products[6 * number : 6 * number + 6])
            for number in range(len(products) // 6)
        ]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def vectors(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return texts × 384 of the tokens of each, of length one; none may be empty."""
        # Texts of one length in a row share their attention.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        parts: list[list[int]] = []
        total = 0
        for place in order:
            if not parts or total + len(texts[place]) > _TOKENS:
                parts.append([])
                total = 0
            parts[-1].append(place)
            total += len(texts[place])
        vectors: Floats = np.empty((len(texts), DIMENSION), np.float32)

        def fill(part: list[int]) -> None:
            vectors[part] = self._means([texts[place] for place in part])

        if self._pool is None or len(parts) == 1:
            for part in parts:
                fill(part)
        else:
            list(self._pool.map(fill, parts))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _means(self, texts: Sequence[Sequence[int]]) -> Floats:
        lengths = [len(text) for text in texts]
        tokens: Whole = np.fromiter(chain.from_iterable(texts), np.int64, sum(lengths))
        state: Floats = self._table[tokens].astype(np.float32)
        state *= self._scale[tokens]
        state += self._places[np.concatenate([np.arange(length) for length in lengths])]
        _normalize(state, self._norm)
        for layer in self._layers:
            projected = _product(state, layer.attention)
            projected += layer.attention_bias
            state += _product(_attended(projected, lengths), layer.joined)
            state += layer.joined_bias
            _normalize(state, layer.first_norm)
            wide = _product(state, layer.wide)
            wide += layer.wide_bias
            state += _product(_gelu(wide), layer.narrow)
            state += layer.narrow_bias
            _normalize(state, layer.second_norm)
        ends = np.cumsum([0, *lengths[:-1]])
        means: Floats = np.add.reduceat(state, ends, axis=0)
        means /= np.array(lengths, np.float32)[:, None]
        return means


def _blocks(weights: Floats) -> Floats:
    """Return weights, input × output, as blocks of some outputs: blocks × input × outputs.

    Products of few rows with them take half the time where OpenBLAS knows small matrices (AVX-512), since
    it does not copy the weights for each. Elsewhere, and for many rows, they take up to a tenth more.
    """
    width = _BLOCK // len(weights)
    return np.ascontiguousarray(weights.reshape(len(weights), -1, width).transpose(1, 0, 2))


def _product(rows: Floats, blocks: Floats) -> Floats:
    """Return rows × output, from rows × input and the blocks of weights."""
    count, _, width = blocks.shape
    product: Floats = np.empty((len(rows), count * width), np.float32)
    np.matmul(rows, blocks, out=product.reshape(len(rows), count, width).transpose(1, 0, 2))
    return product


def _attended(projected: Floats, lengths: Sequence[int]) -> Floats:
    """Return the mixed values of each token, tokens × 384, from queries, keys and values side by side."""
    width = DIMENSION // _HEADS
    mixed: Floats = np.empty((len(projected), DIMENSION), np.float32)
    first = place = 0
    while place < len(lengths):
        length = lengths[place]
        same = 1
        while place + same < len(lengths) and lengths[place + same] == length:
            same += 1
        last = first + same * length
        query, key, value = (
            projected[first:last].reshape(same, length, 3, _HEADS, width).transpose(2, 0, 3, 1, 4)
        )
        scores = query @ key.swapaxes(2, 3)
        scores *= np.float32(width**-0.5)
        scores -= scores.max(axis=3, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=3, keepdims=True)
        mixed[first:last] = (scores @ value).transpose(0, 2, 1, 3).reshape(-1, DIMENSION)
        first, place = last, place + same
    return mixed


def _gelu(wide: Floats) -> Floats:
    """Return x · Φ(x), with Φ by the hyperbolic tangent (Hendrycks and Gimpel 2016), in place."""
    inner = wide * wide
    inner *= np.float32(0.044715 * 0.7978845608)
    inner += np.float32(0.7978845608)
    inner *= wide
    np.tanh(inner, out=inner)
    inner += 1
    inner *= 0.5
    wide *= inner
    return wide


def _normalize(rows: Floats, norm: tuple[Floats, Floats]) -> None:
    """Give each row the mean 0 and the variance 1, then gain and shift, in place (Ba et al. 2016)."""
    rows -= rows.mean(axis=1, keepdims=True)
    rows *= (1 / np.sqrt(np.einsum("ij,ij->i", rows, rows) / rows.shape[1] + _EPSILON))[:, None]
    rows *= norm[0]
    rows += norm[1]


def _layer(tensors: Tensors, at: str, products: Sequence[str]) -> _Layer:
    query, key, value, joined, wide, narrow = (_weights(tensors, name) for name in products)
    biases = [tensors[f"{at}attention.self.{name}.bias"] for name in ("query", "key", "value")]
    return _Layer(
        _blocks(np.concatenate([query, key, value], axis=1)),
        np.concatenate(biases),
        _blocks(joined),
        tensors[f"{at}attention.output.dense.bias"],
        _norm_of(tensors, f"{at}attention.output."),
        _blocks(wide),
        tensors[f"{at}intermediate.dense.bias"],
        _blocks(narrow),
        tensors[f"{at}output.dense.bias"],
        _norm_of(tensors, f"{at}output."),
    )


def _weights(tensors: Tensors, name: str) -> Floats:
    weights: Floats = tensors[f"{name}_q"].astype(np.float32)
    weights *= tensors[f"{name}_scale"]
    return weights


def _norm_of(tensors: Tensors, at: str) -> tuple[Floats, Floats]:
    return tensors[f"{at}LayerNorm.weight"], tensors[f"{at}LayerNorm.bias"]


def encoder_in(path: str, threads: int = 1) -> MiniLMEncoder:
    """Return the encoder of the weights at ``path``. Raises OSError, ValueError if the checksum is wrong."""
    with open(path, "rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if checksum != CHECKSUM:
        raise ValueError(f"{path} is not the file that Tabane was released with: its checksum is wrong")
    # Mapped, so that of the table, half of the file, only the rows that are used are in memory.
    return MiniLMEncoder(tensors_of(np.memmap(path, np.uint8, "r")), threads)


_GRAPH, _INITIALIZER = 7, 5  # fields of ONNX's ModelProto and GraphProto
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9  # of its TensorProto
_TYPES = {1: "<f4", 3: "i1"}  # the others are shapes and constants of the graph


def tensors_of(content: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
    """Return the weights in an ONNX file by their names. They are views: nothing is copied.

    Raises ValueError or IndexError if it is no such file. Source: onnx.proto, in the encoding of protobuf.
    """
    tensors: dict[str, npt.NDArray[Any]] = {}
    for field, graph in _fields(content):
        if field != _GRAPH or isinstance(graph, int):
            continue
        for inner, initializer in _fields(graph):
            if inner == _INITIALIZER and not isinstance(initializer, int):
                _add_tensor(tensors, initializer)
    return tensors


def _add_tensor(tensors: dict[str, npt.NDArray[Any]], content: npt.NDArray[np.uint8]) -> None:
    shape: list[int] = []
    kind, name, raw = 0, "", content[:0]
    for field, value in _fields(content):
        if field == _DIMS:
            shape += [value] if isinstance(value, int) else _varints(value)
        elif isinstance(value, int):
            kind = value if field == _TYPE else kind
        elif field == _NAME:
            name = bytes(value).decode()
        elif field == _RAW:
            raw = value
    if kind in _TYPES and len(raw):
        tensors[name] = np.frombuffer(raw, _TYPES[kind]).reshape(shape)


def _fields(content: npt.NDArray[np.uint8]) -> Iterator[tuple[int, int | npt.NDArray[np.uint8]]]:
    """Yield the number and the value of each field of a message."""
    place = 0
    while place < len(content):
        tag, place = _varint(content, place)
        if tag & 7 == 0:
            value, place = _varint(content, place)
            yield tag >> 3, value
        elif tag & 7 == 2:
            length, place = _varint(content, place)
            yield tag >> 3, content[place : place + length]
            place += length
        elif tag & 7 in (1, 5):
            place += 8 if tag & 7 == 1 else 4
        else:
            raise ValueError("not a message of protobuf")


def _varint(content: npt.NDArray[np.uint8], place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = int(content[place])
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _varints(content: npt.NDArray[np.uint8]) -> list[int]:
    values, place = [], 0
    while place < len(content):
        value, place = _varint(content, place)
        values.append(value)
    return values
