"""Training of the forest of trees in :mod:`tabane.reader.extraction.content`.

    python -m benchmarks.reader.training FILE … [--folds 5] [--write]

Pages without a text, in files named ``structure…``, have labels only for items, headings and code blocks.
Their other blocks are not used for training, and such pages are never judged.

Prints figures by cross-validation: no page is judged by trees that have seen a page of its site. ``--write``
trains on all pages and writes ``src/tabane/reader/extraction/forest.json.gz``. It requires scikit-learn,
which the product does not need: uv pip install scikit-learn.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import statistics
import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reader.labels import labels, structured
from benchmarks.reader.pages import Gold, pages
from benchmarks.reader.scoring import Score, scored, words

from tabane.reader.extraction.blocks import ContentBlock
from tabane.reader.extraction.content import cut, rows, selected
from tabane.reader.extraction.html_tree import parsed
from tabane.text.encodings import decode_leniently

FILE = Path(__file__).parents[2] / "src/tabane/reader/extraction/forest.json.gz"
SHAPE = {
    "max_iter": 200, "learning_rate": 0.05, "max_leaf_nodes": 10, "max_features": 0.2,
    "l2_regularization": 20.0, "min_samples_leaf": 60, "max_bins": 63, "early_stopping": False,
}  # fmt: skip
JAPANESE = 2.0  # weight of a page in Japanese: there are few
_LENGTH = 600  # words of content that a page of which that is not known is taken to have
PARTIAL = 0.7  # weight of a page of which only parts of its structure are known
_ABOUT = (
    "Gradient-boosted trees over tabane.reader.extraction.features, grown by benchmarks.reader.training on a "
    "part of the development split of WCXB (Web Content Extraction Benchmark, CC-BY-4.0) and on fixtures in "
    "Japanese of postlight/parser (MIT or Apache-2.0)."
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A page as the trees see it: a row for each block, and what was right."""

    gold: Gold
    blocks: list[ContentBlock]
    rows: list[list[float]]
    right: list[bool]
    weights: list[float]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.training", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    known = lessons(options.files)
    if options.folds > 1:
        _print(known, validated(known, options.folds))
    if options.write:
        about = {"about": _ABOUT, "files": {path.name: digest(path) for path in options.files}}
        data = json.dumps({**about, **exported(grown(known))}, separators=(",", ":")).encode()
        FILE.write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"written to {FILE}", file=sys.stderr)


def digest(path: Path) -> str:
    """By what a file is known again, in sixteen digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def taught() -> frozenset[str]:
    """Digests of the files that the reader's forest was grown on."""
    return frozenset(json.loads(gzip.decompress(FILE.read_bytes())).get("files", {}).values())


def lessons(files: Sequence[Path]) -> list[Lesson]:
    """Every page that has anything to teach; one that is there with its text is not taken without it."""
    found = [one for path in files for gold in pages(path) if (one := lesson(gold)).rows]
    whole = {one.gold.url for one in found if one.gold.text}
    return [one for one in found if one.gold.text or one.gold.url not in whole]


def lesson(gold: Gold) -> Lesson:
    """Cut a page and look up each of its blocks in what was marked.

    A block weighs by its share of the marked words, to the power of 0.7: every page counts alike, whatever
    its length, and many short blocks count more than their words would.
    """
    html = decode_leniently(gold.html, None, "text/html") if isinstance(gold.html, bytes) else gold.html
    cutting = cut(parsed(html))
    features = rows(cutting)
    if not gold.text:
        return _partial(gold, cutting.blocks, features)
    total = len(words(gold.text, characters=True)) + 50
    counts = [len(words(block.text, characters=True)) for block in cutting.blocks]
    weights = [(min(1.0, (count / total) ** 0.7) + 0.002) * _page_weight(gold) for count in counts]
    return Lesson(
        gold, cutting.blocks, features, labels([block.text for block in cutting.blocks], gold.text), weights
    )


def _partial(gold: Gold, blocks: Sequence[ContentBlock], rows: Sequence[list[float]]) -> Lesson:
    """The blocks of a page of which it is known whether they are content, because of their structure."""
    known = [
        (number, right)
        for number, right in enumerate(structured(blocks, gold.structure))
        if right is not None
    ]
    return Lesson(
        gold,
        [blocks[number] for number, _ in known],
        [rows[number] for number, _ in known],
        [right for _, right in known],
        [PARTIAL * (min(1.0, (blocks[number].words / _LENGTH) ** 0.7) + 0.002) for number, _ in known],
    )


def _page_weight(gold: Gold) -> float:
    return JAPANESE if gold.kind == "ja" else 1.0


def grown(lessons: Sequence[Lesson]) -> Any:
    """A forest of scikit-learn, grown on these pages."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        sys.exit(f"{error}: uv pip install scikit-learn")
    rows = [row for one in lessons for row in one.rows]
    weights = [weight for one in lessons for weight in one.weights]
    mean = statistics.mean(weights)
    forest = HistGradientBoostingClassifier(**SHAPE, random_state=0)
    return forest.fit(rows, [r for one in lessons for r in one.right], [weight / mean for weight in weights])


def validated(known: Sequence[Lesson], folds: int) -> dict[str, Score]:
    """Judge each page that has a text by a forest that has not seen its site, by the pages' names."""
    sites = sorted({_house(one) for one in known}, key=_shuffled)
    fold = {site: number % folds for number, site in enumerate(sites)}
    found: dict[str, Score] = {}
    for number in range(folds):
        forest = grown([one for one in known if fold[_house(one)] != number])
        for one in known:
            if one.gold.text and fold[_house(one)] == number:
                probability = [float(row[1]) for row in forest.predict_proba(one.rows)]
                found[one.gold.name] = _judged(one, probability)
    return {one.gold.name: found[one.gold.name] for one in known if one.gold.text}


def _print(known: Sequence[Lesson], scores: dict[str, Score]) -> None:
    """F1 by type of page with 95 % intervals."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in known:
        if one.gold.text:
            found[one.gold.kind].append(scores[one.gold.name].f1)
            if one.gold.kind != "ja":
                found["all but ja"].append(scores[one.gold.name].f1)
    for kind, values in sorted(found.items()):
        interval = 1.96 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        print(f"{kind:14s} {len(values):4d} pages  F1 {statistics.mean(values):.3f} ± {interval:.3f}")


def _shuffled(site: str) -> int:
    """An order of sites that has nothing to do with their names, and is the same each time."""
    return zlib.crc32(site.encode())


def _house(one: Lesson) -> str:
    return one.gold.name if one.gold.kind == "ja" else one.gold.site


def _judged(one: Lesson, probability: list[float]) -> Score:
    kept = selected(one.blocks, probability)
    text = "\n".join(block.text for block, keep in zip(one.blocks, kept, strict=True) if keep)
    return scored(text, one.gold.text, characters=one.gold.kind == "ja")


def exported(forest: Any) -> dict[str, Any]:
    """Return the forest in the form that tabane.reader.extraction.content reads."""
    return {
        "base": float(forest._baseline_prediction.ravel()[0]),
        "trees": [_tree(trees[0].nodes, 0) for trees in forest._predictors],
    }


def _tree(nodes: Any, at: int) -> Any:
    node = nodes[at]
    if node["is_leaf"]:
        return round(float(node["value"]), 5)
    fork = [int(node["feature_idx"]), float(f"{node['num_threshold']:.6g}")]
    return [*fork, _tree(nodes, int(node["left"])), _tree(nodes, int(node["right"]))]


if __name__ == "__main__":
    main(sys.argv[1:])
