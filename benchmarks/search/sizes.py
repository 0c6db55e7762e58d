"""What an engine's files take on disk, and what each part of a tantivy index does."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path

_COMPOSITE = (".term", ".idx", ".pos", ".fieldnorm", ".fast")


def sizes(folder: Path) -> dict[str, int]:
    """Bytes by kind of file, and of tantivy's by field: ``index/text`` and so on."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        if path.suffix in _COMPOSITE[:4] and (path.parent / "meta.json").exists():
            found.update(_fields(path))
        else:
            database = path.suffix in (".db", ".sqlite3") or path.name.endswith(("-wal", "-shm"))
            found["database" if database else "other files"] += path.stat().st_size
    return dict(found)


def _fields(path: Path) -> Counter[str]:
    """The parts of a file that tantivy keeps for all fields together (its CompositeFile)."""
    names = [field["name"] for field in json.loads((path.parent / "meta.json").read_text())["schema"]]
    data = path.read_bytes()
    # Behind the body: a footer as JSON, its length and a magic number.
    body = data[: -8 - struct.unpack("<I", data[-8:-4])[0]]
    length = struct.unpack("<I", body[-4:])[0]
    table = body[-4 - length : -4]
    count, at = _varint(table, 0)
    starts: list[tuple[int, int]] = []
    start = 0
    for _ in range(count):
        more, at = _varint(table, at)
        start += more
        field = struct.unpack("<I", table[at : at + 4])[0]
        _, at = _varint(table, at + 4)
        starts.append((start, field))
    ends = [start for start, _ in starts[1:]] + [len(body) - 4 - length]
    found: Counter[str] = Counter()
    for (start, field), end in zip(starts, ends, strict=True):
        found[f"index/{names[field]}"] += end - start
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """tantivy's variable-length integer, whose last byte has the high bit, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte & 128:
            return value, at
