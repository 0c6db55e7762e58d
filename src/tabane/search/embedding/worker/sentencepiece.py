"""SentencePiece's unigram tokenizer over numpy: normalization by a character map, then the likeliest pieces.

The model file is a ModelProto of protocol buffers (sentencepiece_model.proto of google/sentencepiece). Its
character map is a double array of Darts-clone over UTF-8, before the texts that replace its keys
(normalizer.cc). Segmentation is the best path of a unigram language model: Kudo 2018, "Subword
Regularization". Vocabulary and character map become arrays, which can be stored and mapped into memory, so
that a process starts at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

UNKNOWN, BEGIN, END = 0, 1, 2
"""The pieces for unknown characters, and around each text."""

_SPACE = "\u2581"
_NORMAL, _USER_DEFINED = 1, 4  # types of pieces that texts contain; the others only stand for something
_PIECE, _NORMALIZER, _CHARSMAP = 1, 3, 2  # numbers of fields: of the model, and of the normalizer
_PENALTY = 10.0  # of an unknown character, below the least likely piece (unigram_model.cc)


# The file


def vocabulary_of(model: bytes) -> dict[str, Array]:
    """Return the arrays of a model file: of its pieces and of its character map.

    Raises ValueError if the file is not such a model.
    """
    texts: list[str] = []
    scores, kinds, charsmap = bytearray(), bytearray(), b""
    for number, content in _fields(model):
        if number == _PIECE:
            # As SentencePiece writes it: the text, the score as float32, and the type unless it is normal.
            end = 2 + content[1]
            if content[:1] != b"\n" or content[1] >= 0x80 or content[end : end + 1] != b"\x15":
                raise ValueError("a piece that is not written as SentencePiece does")
            texts.append(content[2:end].decode())
            scores += content[end + 1 : end + 5]
            kinds.append(content[end + 6] if len(content) > end + 6 else _NORMAL)
        elif number == _NORMALIZER:
            charsmap = dict(_fields(content)).get(_CHARSMAP, b"")
    if not texts or not charsmap:
        raise ValueError("the model has no pieces, or no character map")
    pieces = _piece_arrays(texts, np.frombuffer(scores, "<f4"), np.frombuffer(kinds, np.uint8))
    return pieces | _charsmap_arrays(charsmap)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of a message's fields that have a length; others are left out."""
    place, end = 0, len(data)
    while place < end:
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            _, place = _varint(data, place)
            continue
        if kind == 2:
            size, place = _varint(data, place)
            yield tag >> 3, data[place : place + size]
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of type {kind}")
        place += size
        if place > end:
            raise ValueError("a field that is longer than its message")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        if byte < 0x80:
            return value | byte << shift, place
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ValueError("a number that does not end")


# Pieces: a trie as a hash table of edges


_CHARACTER_BITS = 21
_HASH = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio: multiplicative hashing (Knuth 6.4)
_NO_EDGE = np.uint64(0xFFFFFFFFFFFFFFFF)


def _piece_arrays(pieces: Sequence[str], scores: Array, kinds: Array) -> dict[str, Array]:
    used = np.flatnonzero((kinds == _NORMAL) | (kinds == _USER_DEFINED))
    texts = [pieces[place] for place in used.tolist()]
    lengths = np.array([len(text) for text in texts], np.int64)
    codes = _codes("".join(texts))
    firsts = np.cumsum(lengths) - lengths
    node = np.zeros(len(used), np.uint64)
    edges, targets, ends = [], [], [np.array([-1], np.int32)]
    count = 1
    for depth in range(int(lengths.max(initial=0))):
        going = lengths > depth
        keys = node[going] << np.uint64(_CHARACTER_BITS) | codes[firsts[going] + depth].astype(np.uint64)
        distinct, places = np.unique(keys, return_inverse=True)
        reached = np.arange(count, count + len(distinct), dtype=np.uint64)
        node[going] = reached[places]
        edges.append(distinct)
        targets.append(reached)
        piece = np.full(len(distinct), -1, np.int32)
        last = lengths == depth + 1
        piece[(node[last] - np.uint64(count)).astype(np.int64)] = used[last]
        ends.append(piece)
        count += len(distinct)
    keys, values = _hashed(np.concatenate(edges), np.concatenate(targets).astype(np.int32))
    unknown = float(scores[kinds == _NORMAL].min()) - _PENALTY
    likely = scores.astype(np.float64)
    likely[UNKNOWN] = unknown
    return {
        "edges": keys,
        "targets": values,
        "ends": np.concatenate(ends),
        "scores": likely,
        "longest": np.array(lengths.max(initial=1)),
    }


def _hashed(keys: Array, values: Array) -> tuple[Array, Array]:
    """Return a hash table with open addressing: its keys, and its values. Half of it is free."""
    bits = max(len(keys) * 2 - 1, 1).bit_length()
    table = np.full(1 << bits, _NO_EDGE, np.uint64)
    held = np.zeros(1 << bits, np.int32)
    slots = _slots(keys, bits)
    waiting = np.arange(len(keys))
    while len(waiting):
        free = table[slots[waiting]] == _NO_EDGE
        table[slots[waiting[free]]] = keys[waiting[free]]  # of several, one stays
        placed = table[slots[waiting]] == keys[waiting]
        held[slots[waiting[placed]]] = values[waiting[placed]]
        waiting = waiting[~placed]
        slots[waiting] = (slots[waiting] + 1) & (len(table) - 1)
    return table, held


def _slots(keys: Array, bits: int) -> npt.NDArray[np.int64]:
    return ((keys * _HASH) >> np.uint64(64 - bits)).astype(np.int64)


def _codes(text: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(text.encode("utf-32-le", "replace"), "<u4").astype(np.int64)


class UnigramTokenizer:
    """A tokenizer over the arrays of :func:`vocabulary_of`. Several threads may use it."""

    def __init__(self, arrays: Arrays) -> None:
        self._edges, self._targets, self._ends = arrays["edges"], arrays["targets"], arrays["ends"]
        self._scores = arrays["scores"]
        self._longest = int(arrays["longest"])
        self._bits = len(self._edges).bit_length() - 1
        self._charsmap = CharacterMap(arrays)

    def encode(self, texts: Sequence[str], most: int) -> list[list[int]]:
        """Return the pieces of each text, at most ``most``; a text without any is one unknown piece.

        Work is linear in the characters that ``most`` pieces can have; what follows them is not read.
        """
        width = most * self._longest
        normal = [self._charsmap.normalized(text[: width * 2])[:width] for text in texts]
        gap = "\0" * self._longest  # no piece contains it: matches end with their text
        starts, place = [], 0
        for text in normal:
            starts.append(place)
            place += len(text) + len(gap)
        codes = _codes(gap.join([*normal, ""]))
        if not len(codes):
            return []
        edges = self._edges_of(codes)
        return [
            _likeliest(start, start + len(text), *edges)[:most] or [UNKNOWN]
            for start, text in zip(starts, normal, strict=True)
        ]

    def _edges_of(self, codes: npt.NDArray[np.int64]) -> tuple[list[int], list[int], list[int], list[float]]:
        """Return the pieces of a text, sorted: firsts, ends, ids and scores as in :func:`_likeliest`."""
        starts, sizes, pieces = self._matches(codes)
        unknown = np.ones(len(codes), bool)
        unknown[starts[sizes == 1]] = False
        places = np.flatnonzero(unknown)
        starts = np.concatenate([starts, places])
        sizes = np.concatenate([sizes, np.ones(len(places), np.int64)])
        pieces = np.concatenate([pieces, np.full(len(places), UNKNOWN, np.int32)])
        order = np.argsort(starts << 8 | sizes)
        pieces = pieces[order]
        firsts = np.concatenate([[0], np.cumsum(np.bincount(starts, minlength=len(codes)))])
        ends = (starts + sizes)[order]
        return firsts.tolist(), ends.tolist(), pieces.tolist(), self._scores[pieces].tolist()

    def _matches(self, codes: npt.NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Return all pieces in the text: their starts, their lengths and their ids."""
        starts, sizes, pieces = [], [], []
        active = np.arange(len(codes))
        node = np.zeros(len(codes), np.uint64)
        for depth in range(self._longest):
            inside = active + depth < len(codes)
            active, node = active[inside], node[inside]
            keys = node << np.uint64(_CHARACTER_BITS) | codes[active + depth].astype(np.uint64)
            slots, hit = self._find(keys)
            active, node = active[hit], self._targets[slots[hit]].astype(np.uint64)
            if not len(active):
                break
            piece = self._ends[node.astype(np.int64)]
            whole = piece >= 0
            starts.append(active[whole])
            sizes.append(np.full(int(whole.sum()), depth + 1, np.int64))
            pieces.append(piece[whole])
        if not starts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32)
        return np.concatenate(starts), np.concatenate(sizes), np.concatenate(pieces)

    def _find(self, keys: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        slots = _slots(keys, self._bits)
        found = self._edges[slots]
        hit = found == keys
        waiting = np.flatnonzero(~hit & (found != _NO_EDGE))
        while len(waiting):
            slots[waiting] = (slots[waiting] + 1) & (len(self._edges) - 1)
            found = self._edges[slots[waiting]]
            same = found == keys[waiting]
            hit[waiting[same]] = True
            waiting = waiting[~same & (found != _NO_EDGE)]
        return slots, hit


def _likeliest(
    start: int, end: int, firsts: list[int], ends: list[int], pieces: list[int], scores: list[float]
) -> list[int]:
    """Return the likeliest sequence of pieces between two positions.

    Pieces that start at ``p`` are ``firsts[p]`` to ``firsts[p + 1]``, shortest first. Of equally likely
    sequences, the one whose last piece is the longest wins, as in SentencePiece's lattice.
    """
    best = [-1e38] * (end - start + 1)
    chosen = [0] * (end - start + 1)
    before = [0] * (end - start + 1)
    best[0] = 0.0
    for place in range(end - start):
        base = best[place]
        for match in range(firsts[start + place], firsts[start + place + 1]):
            score = base + scores[match]
            to = ends[match] - start
            if score > best[to]:
                best[to] = score
                chosen[to] = match
                before[to] = place
    path = []
    place = end - start
    while place:
        path.append(pieces[chosen[place]])
        place = before[place]
    path.reverse()
    return path


# The character map


_LEADING = np.array([*range(0x01, 0x80), *range(0xC2, 0xF5)], np.uint32)
_FOLLOWING = np.arange(0x80, 0xC0, dtype=np.uint32)
_KNOWN_REGIONS = 4096


def _charsmap_arrays(charsmap: bytes) -> dict[str, Array]:
    size = int.from_bytes(charsmap[:4], "little")
    if size % 4 or 4 + size > len(charsmap):
        raise ValueError("the character map is cut")
    units = np.frombuffer(charsmap[4 : 4 + size], "<u4")
    replacements = charsmap[4 + size :]
    alone: list[str] = []
    later: set[int] = set()
    nodes = np.array([_offset(int(units[0]))], np.uint32)
    while len(nodes):
        found, codes, leaves = _characters(units, nodes)
        if alone:
            later |= set(codes.tolist())
        else:
            for node, code, leaf in zip(found.tolist(), codes.tolist(), leaves.tolist(), strict=True):
                if leaf:
                    at = int(units[node]) & 0x7FFFFFFF
                    alone += chr(code), replacements[at : replacements.index(0, at)].decode()
        nodes = np.unique(found)  # keys share their ends
    return {
        "units": units.copy(),
        "replacements": np.frombuffer(replacements, np.uint8).copy(),
        "alone": np.frombuffer("\0".join(alone).encode(), np.uint8).copy(),
        "later": np.frombuffer("".join(map(chr, sorted(later))).encode(), np.uint8).copy(),
    }


def _characters(units: Array, nodes: Array) -> tuple[Array, Array, Array]:
    """Return the nodes one character below others, their code points, and whether a key ends there."""
    found = []
    codes = np.zeros(len(nodes), np.int64)
    below, parents, labels, leaves = _children(units, nodes, _LEADING)
    codes = labels.astype(np.int64)
    missing = (labels >= 0xC0).astype(np.int64) + (labels >= 0xE0) + (labels >= 0xF0)
    codes = np.where(missing > 0, codes & (0x3F >> missing), codes)
    while len(below):
        whole = missing == 0
        found.append((below[whole], codes[whole], leaves[whole]))
        rest, codes, missing = below[~whole], codes[~whole], missing[~whole]
        below, parents, labels, leaves = _children(units, rest, _FOLLOWING)
        codes, missing = codes[parents] << 6 | (labels & 0x3F), missing[parents] - 1
    if not found:
        return nodes[:0], codes[:0], np.zeros(0, bool)
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))  # type: ignore[return-value]


def _children(units: Array, nodes: Array, labels: Array) -> tuple[Array, Array, Array, Array]:
    """Return the nodes below others by one byte, the positions of their parents, the bytes, and leaves."""
    places = nodes[:, None] ^ labels
    places = np.where(places < len(units), places, 0)
    parents, chosen = np.nonzero((units[places] & np.uint32(0x800000FF)) == labels)
    places = places[parents, chosen]
    values = units[places]
    below = places ^ ((values >> 10) << ((values & np.uint32(0x200)) >> np.uint32(6)))
    return below, parents, labels[chosen], (values & np.uint32(0x100)) != 0


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


class CharacterMap:
    """Normalization: the longest keys of the map are replaced, and spaces become U+2581.

    Most keys are single characters, which :meth:`str.translate` replaces. Only where a character follows that
    can be the second of a key, the double array is asked.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._units: Array = arrays["units"]
        self._replacements = arrays["replacements"]
        alone = arrays["alone"].tobytes().decode().split("\0")
        self._alone = {ord(key): value for key, value in zip(alone[::2], alone[1::2], strict=True)}
        later = arrays["later"].tobytes().decode()
        self._joined = re.compile(f"(?s)(.[{re.escape(later)}]+)") if later else None
        self._region = functools.lru_cache(_KNOWN_REGIONS)(self._replaced)

    def normalized(self, text: str) -> str:
        """Return the text in normal form: it starts with U+2581, which stands for a space; empty if blank."""
        text = text.encode("utf-8", "replace").decode()
        if self._joined is None or text.isascii():
            mapped = text.translate(self._alone)
        else:
            parts = self._joined.split(text)
            parts[::2] = [part.translate(self._alone) for part in parts[::2]]
            parts[1::2] = (
                self._region(part) if len(part) <= 64 else self._replaced(part) for part in parts[1::2]
            )
            mapped = "".join(parts)
        words = [word for word in mapped.split(" ") if word]
        return _SPACE + _SPACE.join(words) if words else ""

    def _replaced(self, region: str) -> str:
        data = region.encode()
        found, place = bytearray(), 0
        while place < len(data):
            size, value = self._longest(data, place)
            if size:
                end = value
                while self._replacements[end]:
                    end += 1
                found += self._replacements[value:end].tobytes()
            else:
                size = 1
                while place + size < len(data) and data[place + size] & 0xC0 == 0x80:
                    size += 1
                found += data[place : place + size]
            place += size
        return found.decode()

    def _longest(self, data: bytes, place: int) -> tuple[int, int]:
        """Return the bytes of the longest key at a position, and where its replacement starts; 0 if none."""
        size = value = 0
        node = _offset(int(self._units[0]))
        for position in range(place, len(data)):
            node ^= data[position]
            unit = int(self._units[node])
            if unit & 0x800000FF != data[position]:
                break
            node ^= _offset(unit)
            if unit & 0x100:
                size, value = position + 1 - place, int(self._units[node]) & 0x7FFFFFFF
        return size, value
