"""What models made of posts: results (reasoning, summary, tags) and vectors; posts and results are merged.

A file of results has one JSON object a line: ``{"key": id, "reasoning": …, "summary": …, "tags": […]}``.
Gemini's batches have the same object as a text within ``response.candidates``.

Merging never removes a value: an empty value in one source keeps the value of another. If two sources
differ, the larger log_type wins, then the earlier source of the same import. Over values of an earlier
import, this import wins. Importing the same sources again therefore changes nothing.

Folders of vectors have meta.json beside NNNN.safetensors. Each file contains ``post_ids`` int64[n] and
``vectors`` float32[n, dimension] (or of 16 or 64 bits). After eight bytes of length comes a JSON header with
dtype, shape and offsets of both, then the data (https://github.com/huggingface/safetensors). A vector is read
from its file when its post is imported.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import msgspec

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.importing.import_report import LARGEST, PostIdTable, RejectedRow, UnusableRow, post_id
from tabane.posts.post import SPACES, Post, cleaned
from tabane.search.records import LARGEST_DIMENSION, LONGEST_STRING, MOST_STRINGS

LONGEST_LINE = 1_048_576  # bytes
_TRIED = 20
_BITS = 44  # of the place in a file: 17 TB; above them the file's number
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class ModelResult(NamedTuple):
    """Results for one post. Unknown members are empty."""

    reasoning: str
    summary: str
    tags: tuple[str, ...]


class ModelResults:
    """Files of results: :meth:`index` finds the line of each post, :meth:`of` reads it.

    If several lines are about one post, the last one counts. Raises BadArguments if a file has another
    format, OSError if it cannot be read.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.places = PostIdTable()
        self.done = 0
        self._files: list[IO[bytes]] = []
        try:
            for path in paths:
                self._files.append(open(path, "rb"))  # noqa: SIM115  (closed by close)
                self._check_format(path, self._files[-1])
            self.sizes = [file.seek(0, 2) for file in self._files]
        except BaseException:
            self.close()
            raise

    def index(self, number: int) -> Iterator[int | RejectedRow]:
        """Read a file. Yield the id of each valid line, and each unusable line."""
        file, line = self._files[number], 0
        file.seek(0)
        while True:
            start = file.tell()
            read = rest = file.readline(LONGEST_LINE)
            self.done += len(read)
            while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                # Skip the rest of a line that is too long.
                rest = file.readline(LONGEST_LINE)
                self.done += len(rest)
            line += 1
            if not read:
                return
            if not read.strip():
                continue
            try:
                key, _ = parsed(read)
                self.places[key] = number << _BITS | start
                yield key
            except UnusableRow as unfit:
                yield RejectedRow(self.paths[number], line, unfit.reason, unfit.post_id)

    def of(self, post: int) -> ModelResult | None:
        """Return the result for a post, None if there is none."""
        place = self.places.get(post, -1)
        if place < 0:
            return None
        file = self._files[place >> _BITS]
        file.seek(place & (1 << _BITS) - 1)
        try:
            return parsed(file.readline(LONGEST_LINE))[1]
        except UnusableRow:
            return None  # the file was written to since

    def number(self, post: int) -> int:
        """Return the number of the file with the line about a post, 0 if there is none."""
        return self.places.get(post, 0) >> _BITS

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _check_format(self, path: str, file: IO[bytes]) -> None:
        """Raise BadArguments if none of the first lines is a result, with the problem of the first line."""
        reason = say("it is empty")
        first = True
        for _ in range(_TRIED):
            line = file.readline(LONGEST_LINE)
            if not line.strip():
                continue
            try:
                parsed(line)
                return
            except UnusableRow as unfit:
                if unfit.post_id:
                    return  # a result, although an unusable one
                if first:
                    reason, first = unfit.reason, False
        raise BadArguments(
            say(
                "{path} has no results: {why}. It must be a UTF-8 file with lines such as {example}",
                path=path,
                why=reason,
                example='{"key":"1234567890123456789","reasoning":"…","summary":"…","tags":["…"]}',
            ),
            "files",
        )


def parsed(line: bytes) -> tuple[int, ModelResult]:
    """Parse a line of either form into id and result. Raises :class:`UnusableRow`."""
    if len(line) >= LONGEST_LINE:
        raise UnusableRow(say("longer than {most} {most:byte|bytes}", most=LONGEST_LINE))
    entry = _read_object(line.removeprefix(b"\xef\xbb\xbf"))
    key = entry.get("key")
    number = post_id(str(key)) if isinstance(key, str | int) else None
    if "request" in entry and "response" not in entry:
        raise UnusableRow(say("a request to a model, not its answer"))
    if number is None:
        raise UnusableRow(say("“{text}” is not a post_id", text=str(key)[:40]))
    try:
        return number, _result_of(_model_answer(entry))
    except UnusableRow as unfit:
        raise UnusableRow(unfit.reason, number) from None


def _read_object(text: bytes | str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableRow(say("not JSON: {error}", error=str(error))) from None
    if not isinstance(value, dict):
        raise UnusableRow(say("not a JSON object"))
    return value


def _model_answer(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the result: the entry itself, or the text in a model's response."""
    if "response" not in entry:
        if "error" in entry:
            raise UnusableRow(
                say("the model answered with an error: {error}", error=str(entry["error"])[:200])
            )
        return entry
    response = entry["response"]
    blocked = _member_at(response, "promptFeedback", "blockReason")
    if blocked:
        raise UnusableRow(say("the model refused it: {reason}", reason=str(blocked)[:200]))
    parts = _member_at(response, "candidates", 0, "content", "parts")
    texts = [part.get("text") for part in parts or () if isinstance(part, dict) and not part.get("thought")]
    text = "".join(each for each in texts if isinstance(each, str))
    if not text:
        raise UnusableRow(say("the model's response is empty"))
    fenced = _FENCE.fullmatch(text)
    return _read_object(fenced[1] if fenced else text)


def _member_at(value: Any, *path: str | int) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def _result_of(answer: dict[str, Any]) -> ModelResult:
    reasoning, summary, tags = (answer.get(name) for name in ("reasoning", "summary", "tags"))
    for name, value in (("reasoning", reasoning), ("summary", summary)):
        if value is not None and not isinstance(value, str):
            raise UnusableRow(say("{field} is not text", field=name))
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise UnusableRow(say("{field} is not a list of texts", field="tags"))
    kept = tuple(tag.strip() for tag in tags or () if tag.strip())
    if len(kept) > MOST_STRINGS or any(len(tag.encode()) > LONGEST_STRING for tag in kept):
        raise UnusableRow(say("there are too many tags, or they are too long"))
    if not (reasoning or summary or kept):
        raise UnusableRow(say("neither reasoning nor summary nor tags"))
    return ModelResult(reasoning or "", summary or "", kept)


def merged(stored: Post | None, row: Post, level: int) -> Post:
    """Merge the stored post and the post of a row.

    ``level`` is the largest log_type of the post in this import so far, 0 before the first row.
    """
    if stored is None:
        return row
    wins = row.log_type > level and row.log_type >= stored.log_type
    return _fill_from(row, stored) if wins else _fill_from(stored, row)


def _fill_from(first: Post, second: Post) -> Post:
    """Return the first post, with empty members filled from the second."""
    dated = first if first.timestamp or not second.timestamp else second
    signed = first if first.user or not second.user else second  # the URL belongs to the user it names
    return msgspec.structs.replace(
        first,
        content=first.content or second.content,
        timestamp=dated.timestamp,
        at=dated.at,
        url=signed.url or first.url or second.url,
        user=signed.user,
        log_type=max(first.log_type, second.log_type),
        reasoning=first.reasoning or second.reasoning,
        summary=first.summary or second.summary,
        tags=first.tags or second.tags,
    )


def enriched(post: Post, result: ModelResult | None) -> Post:
    """Return the post with the results of a model."""
    if result is None:
        return post
    return msgspec.structs.replace(
        post,
        reasoning=result.reasoning or post.reasoning,
        summary=result.summary or post.summary,
        tags=result.tags or post.tags,
    )


def unchanged_vectors(before: Post, after: Post, vectors: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the vectors whose embedded text has not changed."""
    same = {
        space
        for space in SPACES
        if (old := getattr(before, space)) == (new := getattr(after, space)) or cleaned(old) == cleaned(new)
    }
    return {space: vector for space, vector in vectors.items() if space in same}


METADATA = ("meta.json", "embeddings_meta.json")
MOST_OPEN = 16  # files of a folder
_LONGEST_HEADER = 1_048_576
_LONGEST_METADATA = 1_048_576
_READ = 8192  # ids at once
_AHEAD = 64  # vectors at once
_ROW_BITS = 40  # of the row in a file; above them the file's number
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
        members = json.loads(text.decode("utf-8-sig"))
        if not isinstance(members, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise BadArguments(
            say("{path} is not a JSON object: {error}", path=path, error=str(error)), "files"
        ) from None
    return _read_metadata(members, path, folder)


def _read_metadata(members: dict[str, Any], path: str, folder: str) -> VectorMetadata:
    model, dimension = members.get("model"), members.get("embedding_dim")
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
    named = members.get("source_path") or members.get("csv_path")
    source = _resolve_source(folder, named) if isinstance(named, str) and "\0" not in named else None
    return VectorMetadata(model.strip(), dimension, source, str(members.get("source_type") or ""))


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
                            self.places[post] = number << _ROW_BITS | row
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
        each, width = self._files[place >> _ROW_BITS], self._width(self._files[place >> _ROW_BITS])
        # If it follows the last one, read some of the next vectors too. Each read gives up the
        # interpreter, and the vectors are mostly in the order of the rows.
        if not 0 <= place - self._ahead_at < len(self._ahead) // width:
            row = place & (1 << _ROW_BITS) - 1
            rows = min(_AHEAD, each.rows - row) if place == self._last + 1 else 1
            number = place >> _ROW_BITS
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
        data = self._ahead[start : start + width]
        return _as_float32(data, each.dtype) if len(data) == width else None

    def refuse(self, post: int) -> tuple[str, int] | None:
        """Mark the post's vector as invalid. Return its file and row, None if it has no valid vector."""
        place = self.places.get(post, _REFUSED)
        if place == _REFUSED:
            return None
        self.places[post] = _REFUSED
        return self._files[place >> _ROW_BITS].path, place & (1 << _ROW_BITS) - 1

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
                    file, dimension = _read_header(path)
                    if dimension != (wanted or dimension):
                        raise UnusableRow(
                            say(
                                "{found} {found:dimension|dimensions} instead of {wanted}",
                                found=dimension,
                                wanted=wanted,
                            )
                        )
                    self._files.append(file)
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


def _read_entry(entry: dict[str, Any]) -> _TensorEntry:
    first, last = entry["data_offsets"]
    shape = list(entry["shape"])
    if not all(isinstance(each, int) and each >= 0 for each in (first, last, *shape)):
        raise ValueError("numbers")
    return _TensorEntry(str(entry["dtype"]), shape, first, last)


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
