"""Extraction against trafilatura and resiliparse: ``python -m benchmarks.reader.extraction DATA [--write]``.

DATA is a folder of ``NAME.jsonl.gz`` as benchmarks.reader.pages describes them, or one such file. Files whose
name begins with ``structure`` judge structure, the others text. What the forest was grown on is judged by
cross-validation, for which scikit-learn is wanted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.reader.pages import Gold, pages
from benchmarks.reader.scoring import Score, kept, plain, scored
from benchmarks.reader.training import digest, lessons, taught, validated
from benchmarks.report import machine, publish, table

from tabane.reader.extraction.article import extract

Extractor = Callable[[str | bytes, str], str]
_OURS = "tabane"
_FOLDS = 5
KINDS = ("code", "table", "head", "li", "link")
_METHOD = """
- Text: F1 over words, counted as often as they occur, mean over pages, with its 95 % interval (1.96 standard
  errors); Japanese characters one by one. Markdown is judged without its marks. Time is CPU time of a thread.
- Structure: the share of listings, tables, headings, items and links within the content that the Markdown
  shows as that.
- "Cross-validated" is a file that the reader's forest was grown on: each page's text is judged by a forest of
  the same kind that has seen no page of its site. All structure there is that of pages seen.
""".strip()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.extraction", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    data: Path = options.data
    files = sorted(data.glob("*.jsonl.gz")) if data.is_dir() else [data]
    beside = sorted((data if data.is_dir() else data.parent).glob("*.jsonl.gz"))
    seen = [path for path in beside if digest(path) in taught()]
    judged = any(path in seen and not _structural(path) for path in files)
    scores = validated(lessons(seen), _FOLDS) if judged else {}
    parts = [_part(path, path in seen, scores) for path in files]
    command = "python -m benchmarks.reader.extraction DATA"
    publish("reader", ["## Reading pages", machine(command), *parts, _METHOD], write=options.write)


def _structural(path: Path) -> bool:
    return path.name.startswith("structure")


def _part(path: Path, seen: bool, scores: dict[str, Score]) -> str:
    gold = list(pages(path))
    results = {which: _run(extractor, gold) for which, extractor in _extractors().items()}
    name = path.name.removesuffix(".jsonl.gz")
    how = ", seen by the forest" if _structural(path) else ", cross-validated"
    judged = _structure(gold, results) if _structural(path) else _text(gold, results, scores if seen else {})
    return f"{name}, {len(gold)} pages{how if seen else ', not seen by the forest'}\n\n{judged}"


def _extractors() -> dict[str, Extractor]:
    try:
        import trafilatura  # type: ignore[import-not-found, unused-ignore]
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import detect_encoding
    except ImportError as error:
        sys.exit(f"{error}: uv pip install trafilatura resiliparse, which this is measured against")

    def resiliparse(html: str | bytes, url: str) -> str:
        if isinstance(html, bytes):
            html = html.decode(detect_encoding(html, html5_compatible=True), "replace")  # type: ignore[arg-type]
        return str(extract_plain_text(html, main_content=True))

    return {
        _OURS: lambda html, url: extract(html, url).markdown,
        "trafilatura": lambda html, url: trafilatura.extract(html, url=url) or "",
        "trafilatura, Markdown": lambda html, url: trafilatura.extract(
            html, url=url, output_format="markdown", include_links=True, include_tables=True
        ) or "",
        "resiliparse": resiliparse,
    }  # fmt: skip


def _run(extractor: Extractor, gold: Sequence[Gold]) -> list[tuple[str, float]]:
    """What each page is read as, and the seconds of CPU that it took; the first page is read once before."""
    extractor(gold[0].html, gold[0].url)
    found = []
    for page in gold:
        begun = time.process_time()
        text = extractor(page.html, page.url)
        found.append((text, time.process_time() - begun))
    return found


def _text(gold: Sequence[Gold], results: dict[str, list[tuple[str, float]]], known: dict[str, Score]) -> str:
    """A row for each extractor; ``known`` are scores of the reader's own, by names of pages."""
    kinds = sorted({page.kind for page in gold})
    head = ["", "F1", "±", "precision", "recall", *(kinds if len(kinds) > 1 else ()), "ms"]
    return table(
        head,
        (
            _text_row(name, gold, found, kinds, known if name == _OURS else {})
            for name, found in results.items()
        ),
    )


def _text_row(
    name: str,
    gold: Sequence[Gold],
    found: Sequence[tuple[str, float]],
    kinds: Sequence[str],
    known: dict[str, Score],
) -> list[str]:
    scores: list[Score] = []
    by_kind: dict[str, list[float]] = defaultdict(list)
    for page, (text, _) in zip(gold, found, strict=True):
        score = known.get(page.name) or scored(plain(text), page.text, characters=page.kind == "ja")
        scores.append(score)
        by_kind[page.kind].append(score.f1)
    means = [statistics.mean(by_kind[kind]) for kind in kinds] if len(kinds) > 1 else []
    figures = [*(statistics.mean(column) for column in zip(*scores, strict=True))]
    interval = 1.96 * statistics.stdev(score.f1 for score in scores) / len(scores) ** 0.5
    ms = 1000 * statistics.mean(seconds for _, seconds in found)
    shown = [figures[2], interval, figures[0], figures[1], *means]
    return [name, *(f"{figure:.3f}" for figure in shown), f"{ms:.1f}"]


def _structure(gold: Sequence[Gold], results: dict[str, list[tuple[str, float]]]) -> str:
    return table(["", *KINDS, "ms"], (_structure_row(name, gold, found) for name, found in results.items()))


def _structure_row(name: str, gold: Sequence[Gold], found: Sequence[tuple[str, float]]) -> list[str]:
    shares = [kept(text, page.structure) for page, (text, _) in zip(gold, found, strict=True)]
    means = list(_means(shares))
    return [name, *means, f"{1000 * statistics.mean(seconds for _, seconds in found):.1f}"]


def _means(shares: Sequence[dict[str, float]]) -> Iterator[str]:
    for kind in KINDS:
        values = [share[kind] for share in shares if kind in share]
        yield f"{statistics.mean(values):.3f}" if values else "–"


if __name__ == "__main__":
    main(sys.argv[1:])
