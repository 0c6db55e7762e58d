"""Tables of PDFs against pdfplumber and others: ``python -m benchmarks.reader.pdf_tables [--seeds 1 2]``.

Documents are made by the producers that are installed (benchmarks.reader.pdf_documents). The score is F1 over
cells with text: a cell is right if its text is, and if its row and its column match those of the known table
in order. Tables in documents without tables count as wrong cells. Pieces of a table on several pages count as
one table, and the repeated head as one row, for every reader.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import re
import sys
import tempfile
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reader.pdf_documents import KnownDocument, documents, producers
from benchmarks.report import machine, publish, table

Grid = list[list[str]]
Reader = Callable[[bytes], list[Grid]]

_BAR = re.compile(r"(?<!\\)\|")
_METHOD = (__doc__ or "").split("\n", 2)[2].strip()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.pdf_tables", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(1, 3), metavar=("FIRST", "END"))
    parser.add_argument("--only", default="", help="producers and kinds whose name contains this")
    parser.add_argument("--readers", default="", help="names of readers, with commas")
    parser.add_argument("--keep", type=Path, help="folder for the documents, made once")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    chosen = {name: one for name, one in readers().items() if not options.readers or name in options.readers}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for seed in range(*options.seeds):
        for document in documents(seed):
            for producer, make in producers().items():
                name = f"{producer}-{document.name}-{seed}"
                if options.only not in name:
                    continue
                body = _made(name, document, make, options.keep)
                if body is None:
                    continue
                kind = document.name.partition("-")
                for reader, read in chosen.items():
                    found = _counted(document, body, read)
                    if reader == "tabane" and found["right"] * 2 < (found["known"] + found["said"]) * 0.97:
                        print(f"{name}: {dict(found)}", file=sys.stderr)
                    groups = (producer, kind[0], kind[2], "all")
                    looks = {one.look for one in document.tables}
                    for group in (*groups, *(looks if len(looks) == 1 else ())):
                        counts[group, reader].update(found)
    groups = list(dict.fromkeys(group for group, _ in counts))
    rows = [[group, *(_figure(counts[group, reader]) for reader in chosen)] for group in groups]
    seconds = [
        f"{counts['all', reader]['ms'] / max(1, counts['all', reader]['files']):.0f}" for reader in chosen
    ]
    rows.append(["CPU ms a document", *seconds])
    command = "python -m benchmarks.reader.pdf_tables"
    part = table(["cell F1", *chosen], rows)
    publish("pdf", ["## Tables of PDFs", machine(command), part, _METHOD], write=options.write)


def _made(
    name: str, document: KnownDocument, make: Callable[[KnownDocument], bytes], folder: Path | None
) -> bytes | None:
    path = folder / f"{name}.pdf" if folder else None
    if path and path.exists():
        return path.read_bytes()
    try:
        body = make(document)
    except (LookupError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return body


def _counted(document: KnownDocument, body: bytes, read: Reader) -> Counter[str]:
    start = time.process_time()
    try:
        grids = read(body)
    except Exception as error:  # a peer fails on a file: it found nothing
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        grids = []
    spent = round((time.process_time() - start) * 1000)
    found = scored([one.texts for one in document.tables], grids)
    return Counter(found | {"ms": spent, "files": 1})


def _figure(count: Counter[str]) -> str:
    if not count["known"]:
        return f"{count['said']} wrong"
    return f"{2 * count['right'] / max(1, count['known'] + count['said']):.3f}"


def readers() -> dict[str, Reader]:
    """Return the readers that are installed, by name."""
    found: dict[str, Reader] = {"tabane": _tabane}
    peers: dict[str, Reader] = {
        "pdfplumber": _pdfplumber, "markitdown": _markitdown, "pymupdf4llm": _pymupdf4llm, "docling": _docling
    }  # fmt: skip
    return found | {name: read for name, read in peers.items() if importlib.util.find_spec(name)}


def _tabane(body: bytes) -> list[Grid]:
    from tabane.reader.formats import page_of

    return of_markdown(page_of(body, "https://a.test/a.pdf").markdown)


def _pdfplumber(body: bytes) -> list[Grid]:
    import pdfplumber

    with pdfplumber.open(io.BytesIO(body)) as document:
        return [
            [[cell or "" for cell in row] for row in grid]
            for page in document.pages
            for grid in page.extract_tables()
        ]


def _markitdown(body: bytes) -> list[Grid]:
    from markitdown import MarkItDown

    return of_markdown(MarkItDown().convert_stream(io.BytesIO(body), file_extension=".pdf").text_content)


def _pymupdf4llm(body: bytes) -> list[Grid]:
    import pymupdf
    import pymupdf4llm

    return of_markdown(
        pymupdf4llm.to_markdown(pymupdf.open(stream=body, filetype="pdf"), show_progress=False)
    )


def _docling(body: bytes) -> list[Grid]:
    from docling.document_converter import DocumentConverter

    with tempfile.NamedTemporaryFile(suffix=".pdf") as file:
        file.write(body)
        file.flush()
        result: Any = DocumentConverter().convert(file.name)
        return of_markdown(result.document.export_to_markdown())


def of_markdown(text: str) -> list[Grid]:
    """Return the tables of Markdown."""
    grids: list[Grid] = []
    inside = False
    for line in text.split("\n"):
        if not line.lstrip().startswith("|"):
            inside = False
            continue
        if not inside:
            grids.append([])
            inside = True
        cells = [cell.strip() for cell in _BAR.split(line.strip())[1:-1]]
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            grids[-1].append(cells)
    return grids


# Scoring


def scored(known: Sequence[Grid], said: Sequence[Grid]) -> dict[str, int]:
    """Return the numbers of cells: ``right``, ``known`` and ``said``."""
    truth = [_normal(grid) for grid in known]
    pieces: list[list[Grid]] = [[] for _ in truth]
    stray = 0
    for grid in map(_normal, said):
        words = Counter(cell for row in grid for cell in row if cell)
        shared = [sum((words & Counter(c for row in one for c in row if c)).values()) for one in truth]
        best = max(range(len(truth)), key=shared.__getitem__, default=None)
        if best is None or not shared[best]:
            stray += sum(words.values())
        else:
            pieces[best].append(grid)
    right = told = 0
    for one, found in zip(truth, pieces, strict=True):
        whole = _joined(found)
        right += _matched(one, whole)
        told += _cells(whole)
    return {"right": right, "known": sum(map(_cells, truth)), "said": told + stray}


def _normal(grid: Grid) -> Grid:
    return [
        [re.sub(r"\s+", "", unicodedata.normalize("NFKC", c.replace("\\", ""))) for c in row] for row in grid
    ]


def _cells(grid: Grid) -> int:
    return sum(1 for row in grid for cell in row if cell)


def _joined(pieces: Sequence[Grid]) -> Grid:
    if not pieces:
        return []
    whole = list(pieces[0])
    for piece in pieces[1:]:
        whole += piece[1:] if piece and pieces[0] and piece[0] == pieces[0][0] else piece
    return whole


def _matched(known: Grid, said: Grid) -> int:
    """Return the number of equal cells in the best alignment of columns, then of rows."""
    if not known or not said:
        return 0
    columns = _aligned(_columns(known), _columns(said), _shared)
    placed = [[row[there] if there < len(row) else "" for _, there in columns] for row in said]
    truth = [[row[here] for here, _ in columns] for row in known]
    return sum(_same(truth[one], placed[other]) for one, other in _aligned(truth, placed, _same))


def _columns(grid: Grid) -> Grid:
    wide = max(map(len, grid))
    return [[row[column] if column < len(row) else "" for row in grid] for column in range(wide)]


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return sum((Counter(filter(None, one)) & Counter(filter(None, other))).values())


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for a, b in zip(one, other, strict=True) if a and a == b)


def _aligned(
    one: Sequence[Sequence[str]], other: Sequence[Sequence[str]], weight: Callable[..., int]
) -> list[tuple[int, int]]:
    """Return pairs of indices in order whose weights have the largest sum."""
    best = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + weight(one[i], other[j]))
    pairs, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


if __name__ == "__main__":
    main(sys.argv[1:])
