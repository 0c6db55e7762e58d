"""PDF files made here from drawing operators, for tests of what is seen and of layout."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

FONT = "<</Type/Font/Subtype/Type1/BaseFont/{}>>"


def drawn(
    *contents: str,
    resources: str = "",
    page: str = "",
    objects: Mapping[int, str | tuple[str, bytes]] | None = None,
    catalog: str = "",
    info: str = "",
    box: str = "0 0 612 792",
) -> bytes:
    """A PDF whose pages are drawn by these operators. Fonts: F Helvetica, B bold, C Courier.

    ``objects`` have numbers from 20: a dictionary, or one with the bytes of a stream.
    """
    kids = " ".join(f"{1000 + nth * 2} 0 R" for nth in range(len(contents)))
    all_objects: dict[int, bytes] = {
        1: f"<</Type/Catalog/Pages 2 0 R{catalog}>>".encode(),
        2: f"<</Type/Pages/Count {len(contents)}/Kids[{kids}]>>".encode(),
        3: FONT.format("Helvetica").encode(),
        4: FONT.format("Helvetica-Bold").encode(),
        5: FONT.format("Courier").encode(),
        6: f"<<{info}>>".encode(),
    }
    for number, body in (objects or {}).items():
        all_objects[number] = body.encode() if isinstance(body, str) else _stream(*body)
    fonts = "" if "/Font" in resources else "/Font<</F 3 0 R/B 4 0 R/C 5 0 R>>"
    for nth, content in enumerate(contents):
        all_objects[1000 + nth * 2] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Resources<<{fonts}{resources}>>{page}"
            f"/Contents {1001 + nth * 2} 0 R>>"
        ).encode()
        all_objects[1001 + nth * 2] = _stream("", content.encode("latin-1"))
    return _file(all_objects)


def _stream(about: str, body: bytes) -> bytes:
    packed = zlib.compress(body)
    return b"<<%b/Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (about.encode(), len(packed), packed)


def _file(objects: Mapping[int, bytes]) -> bytes:
    file = bytearray(b"%PDF-1.7\n")
    places = {}
    for number, body in objects.items():
        places[number] = len(file)
        file += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(file)
    file += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        file += b"%d 1\n%010d 00000 n \n" % (number, place)
    file += b"trailer\n<</Size %d/Root 1 0 R/Info 6 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (
        max(objects) + 1,
        start,
    )
    return bytes(file)


def text(x: float, y: float, said: str, size: float = 11, font: str = "F", before: str = "") -> str:
    """Operators that write a line; ``before`` are operators within the text object."""
    said = said.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT {before} /{font} {size} Tf {x} {y} Td ({said}) Tj ET\n"


def rows(cells: Sequence[Sequence[str]], left: float, top: float, wide: float, high: float = 18) -> str:
    """Operators that write cells at equal distances, without rules."""
    return "".join(
        text(left + 4 + column * wide, top - 13 - row * high, cell)
        for row, line in enumerate(cells)
        for column, cell in enumerate(line)
        if cell
    )


def grid(columns: Sequence[float], heights: Sequence[float]) -> str:
    """Operators that draw rules at these places."""
    across = "".join(f"{columns[0]} {y} m {columns[-1]} {y} l S\n" for y in heights)
    down = "".join(f"{x} {heights[0]} m {x} {heights[-1]} l S\n" for x in columns)
    return across + down
