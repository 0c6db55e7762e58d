"""Folders of vectors: meta.json beside NNNN.safetensors.

Each file contains ``post_ids`` int64[n] and ``vectors`` float32[n, dimension] (or of 16 or 64 bits). After
eight bytes of length comes a JSON header with dtype, shape and offsets of both, then the data
(https://github.com/huggingface/safetensors). A vector is read from its file when its post is imported.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.importing.import_report import LARGEST, PostIdTable, RejectedRow, UnusableRow
from tabane.search.records import LARGEST_DIMENSION

METADATA = ("meta.json", "embeddings_meta.json")
MOST_OPEN = 16  # files of a folder
_LONGEST_HEADER = 1_048_576
_LONGEST_METADATA = 1_048_576
_READ = 8192  # ids at once
_AHEAD = 64  # vectors at once
_BITS = 40  # of the row in a file; above them the file's number
_REFUSED = 2**63  # the place of an invalid vector
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


class VectorMetadata(NamedTuple):
    """Metadata of a folder. ``source``: absolute path of the file that was embedded, if it exists."""

    model: str
    dimension: int | None
    source: str | None
    source_type: str


class _VectorFile(NamedTuple):
    path: str
    rows: int
    ids_at: int
    vectors_at: int
    dtype: str


@dataclass(slots=True)
class _TensorEntry:
    dtype: str
    shape: list[int]
    first: int
    last: int


def metadata_path(folder: str) -> str | None:
    """Return the path of the folder's metadata, None if it has none."""
    paths = (os.path.join(folder, name) for name in METADATA)
    return next((path for path in paths if os.path.isfile(path)), None)


def metadata(folder: str) -> VectorMetadata:
    """Read the folder's metadata.

    Raises :class:`~tabane.errors.BadArguments`, for example without a model.
    """
    path = metadata_path(folder)
    if path is None:
        raise BadArguments(
            say("{path} is not a folder of vectors: it has no meta.json.", path=folder), "files"
        )
    with open(path, "rb") as file:
        text = file.read(_LONGEST_METADATA)
    try:
        found = json.loads(text.decode("utf-8-sig"))
        if not isinstance(found, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise BadArguments(
            say("{path} is not a JSON object: {error}", path=path, error=str(error)), "files"
        ) from None
    return _read_metadata(found, path, folder)


def _read_metadata(found: dict[str, Any], path: str, folder: str) -> VectorMetadata:
    model, dimension = found.get("model"), found.get("embedding_dim")
    if not isinstance(model, str) or not model.strip():
        raise BadArguments(
            say(
                '{path} does not say which model made the vectors. Add "model": "…", the name of '
                "the model to download.",
                path=path,
            ),
            "files",
        )
    if dimension is not None and (
        not isinstance(dimension, int)
        or isinstance(dimension, bool)
        or not 0 < dimension <= LARGEST_DIMENSION
    ):
        raise BadArguments(
            say("{path}: embedding_dim must be 1 to {most}", path=path, most=LARGEST_DIMENSION), "files"
        )
    named = found.get("source_path") or found.get("csv_path")
    source = _resolve_source(folder, named) if isinstance(named, str) and "\0" not in named else None
    return VectorMetadata(model.strip(), dimension, source, str(found.get("source_type") or ""))


def _resolve_source(folder: str, named: str) -> str | None:
    """Resolve a path relative to the folder's parent, or to the parent of that (for batch/*)."""
    parent = os.path.dirname(os.path.abspath(folder))
    named = named.replace("\\", os.sep)
    for base in (parent, os.path.dirname(parent)):
        path = os.path.normpath(os.path.join(base, named))
        if os.path.isfile(path):
            return path
    return None


class VectorFolder:
    """An open folder: :meth:`index` finds the posts that have vectors, :meth:`of` reads one.

    ``size`` is the size of the data in bytes. ``bad_files`` are files that cannot be read. Raises
    :class:`~tabane.errors.BadArguments` if no file can be read, OSError if the folder cannot.
    """

    def __init__(self, path: str, space: str) -> None:
        self.path = path
        self.space = space
        described = metadata(path)
        self.model = described.model
        self.places = PostIdTable()
        self.bad_files: list[RejectedRow] = []
        self._files: list[_VectorFile] = []
        self._open: OrderedDict[int, IO[bytes]] = OrderedDict()
        self._ahead = b""  # bytes of vectors from this place on
        self._ahead_at = self._last = -1
        self.dimension = self._read_headers(described.dimension)
        self.size = sum(each.rows * (8 + self._width(each)) for each in self._files)

    def index(self) -> Iterator[int | RejectedRow]:
        """Read the ids of all files.

        Yield valid ids and invalid rows. For a repeated id, the last file counts.
        """
        for number, each in enumerate(self._files):
            with open(each.path, "rb") as file:
                file.seek(each.ids_at)
                for first in range(0, each.rows, _READ):
                    read = array("q")
                    read.frombytes(file.read(8 * min(_READ, each.rows - first)))
                    if sys.byteorder == "big":
                        read.byteswap()
                    for row, post in enumerate(read, first):
                        if 0 < post <= LARGEST:
                            self.places[post] = number << _BITS | row
                            yield post
                        else:
                            yield RejectedRow(
                                each.path, row, say("“{text}” is not a post_id", text=str(post))
                            )

    def of(self, post: int) -> bytes | None:
        """Return the vector of a post as float32, little-endian. None if it has none. Raises OSError."""
        place = self.places.get(post, _REFUSED)
        if place == _REFUSED:
            return None
        each, width = self._files[place >> _BITS], self._width(self._files[place >> _BITS])
        data = self._bytes_at(place, each, width)
        return _as_float32(data, each.dtype) if len(data) == width else None

    def _bytes_at(self, place: int, each: _VectorFile, width: int) -> bytes:
        """Return the bytes of a vector. If it follows the last one, read some of the next vectors too.

        Each read gives up the interpreter, and the vectors are mostly in the order of the rows.
        """
        if not 0 <= place - self._ahead_at < len(self._ahead) // width:
            row = place & (1 << _BITS) - 1
            rows = min(_AHEAD, each.rows - row) if place == self._last + 1 else 1
            number = place >> _BITS
            file = self._open.get(number)
            if file is None:
                if len(self._open) >= MOST_OPEN:
                    self._open.popitem(last=False)[1].close()
                file = self._open[number] = open(each.path, "rb", buffering=0)  # noqa: SIM115
            self._open.move_to_end(number)
            self._ahead = os.pread(file.fileno(), width * rows, each.vectors_at + row * width)
            self._ahead_at = place
        self._last = place
        start = (place - self._ahead_at) * width
        return self._ahead[start : start + width]

    def refuse(self, post: int) -> tuple[str, int] | None:
        """Mark the post's vector as invalid. Return its file and row, None if it has no valid vector."""
        place = self.places.get(post, _REFUSED)
        if place == _REFUSED:
            return None
        self.places[post] = _REFUSED
        return self._files[place >> _BITS].path, place & (1 << _BITS) - 1

    def close(self) -> None:
        """Close all open files."""
        while self._open:
            self._open.popitem()[1].close()

    def _width(self, each: _VectorFile) -> int:
        return self.dimension * _WIDTHS[each.dtype]

    def _read_headers(self, wanted: int | None) -> int:
        """Read the header of each file. Return the dimension: of the metadata, or else of the first file.

        Raises BadArguments if no file can be read.
        """
        for name in sorted(os.listdir(self.path)):
            if name.endswith(".safetensors"):
                path = os.path.join(self.path, name)
                try:
                    found, dimension = _read_header(path)
                    if dimension != (wanted or dimension):
                        raise UnusableRow(
                            say(
                                "{found} {found:dimension|dimensions} instead of {wanted}",
                                found=dimension,
                                wanted=wanted,
                            )
                        )
                    self._files.append(found)
                    wanted = dimension
                except UnusableRow as unfit:
                    self.bad_files.append(RejectedRow(path, 0, unfit.reason))
        if not self._files or wanted is None:
            reason = self.bad_files[0].reason if self.bad_files else say("it has no file NNNN.safetensors")
            raise BadArguments(
                say("{path} has no vectors that can be read: {reason}", path=self.path, reason=reason),
                "files",
            )
        return wanted


def _read_header(path: str) -> tuple[_VectorFile, int]:
    """Read the header of a file: its layout, and the dimension of its vectors.

    Raises :class:`UnusableRow`.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
            raise UnusableRow(say("not a safetensors file"))
        try:
            header = json.loads(file.read(length))
            ids, vectors = _read_entry(header["post_ids"]), _read_entry(header["vectors"])
        except (ValueError, LookupError, TypeError, RecursionError):
            raise UnusableRow(say("not a safetensors file with post_ids and vectors")) from None
    _check_tensors(ids, vectors, size - 8 - length)
    start = 8 + length
    return _VectorFile(
        path, ids.shape[0], start + ids.first, start + vectors.first, vectors.dtype
    ), vectors.shape[1]


def _read_entry(found: dict[str, Any]) -> _TensorEntry:
    first, last = found["data_offsets"]
    shape = list(found["shape"])
    if not all(isinstance(each, int) and each >= 0 for each in (first, last, *shape)):
        raise ValueError("numbers")
    return _TensorEntry(str(found["dtype"]), shape, first, last)


def _check_tensors(ids: _TensorEntry, vectors: _TensorEntry, size: int) -> None:
    """Check that dtypes, shapes and offsets fit each other and the file. Raises :class:`UnusableRow`."""
    if ids.dtype not in ("I64", "U64") or len(ids.shape) != 1:
        raise UnusableRow(
            say("post_ids are {dtype} {shape}, not int64 [n]", dtype=ids.dtype, shape=ids.shape)
        )
    if vectors.dtype not in _WIDTHS or len(vectors.shape) != 2 or vectors.shape[0] != ids.shape[0]:
        raise UnusableRow(
            say(
                "vectors are {dtype} {shape}, not float32 [{rows}, dimension]",
                dtype=vectors.dtype,
                shape=vectors.shape,
                rows=ids.shape[0],
            )
        )
    rows, dimension = vectors.shape
    if not 0 < dimension <= LARGEST_DIMENSION:
        raise UnusableRow(
            say(
                "{found} {found:dimension|dimensions}; it must be 1 to {most}",
                found=dimension,
                most=LARGEST_DIMENSION,
            )
        )
    sizes = (8 * rows, rows * dimension * _WIDTHS[vectors.dtype])
    if (ids.last - ids.first, vectors.last - vectors.first) != sizes or max(ids.last, vectors.last) > size:
        raise UnusableRow(say("the file is truncated, or its header is wrong"))


def _as_float32(data: bytes, dtype: str) -> bytes:
    """Convert a vector to float32, little-endian. A bfloat16 is the upper half of a float32."""
    if dtype == "F32":
        return data
    if dtype == "BF16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return bytes(wide)
    code, width = ("e", 2) if dtype == "F16" else ("d", 8)
    # A float64 that is too large becomes infinite. The check of vectors rejects it.
    numbers = array("f", struct.unpack(f"<{len(data) // width}{code}", data))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
