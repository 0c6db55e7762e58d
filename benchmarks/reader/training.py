"""Training of the forest of trees in :mod:`tabane.reader.extraction.content`.

    python -m benchmarks.reader.training FILE … [--folds 5] [--shuffles 3] [--write]

Pages without a text, in files named ``structure…``, have labels only for items, headings and code blocks.
Their other blocks are not used for training, and such pages are never judged. News-like pages are made of the
articles (benchmarks.reader.grafts), and are judged apart.

Prints figures by cross-validation: no page is judged by trees that have seen a page of its site. It is
repeated with sites divided in other ways, because one division alone moves the mean by .003. ``--write``
trains on all pages and writes ``src/tabane/reader/extraction/forest.json.gz``. It requires scikit-learn,
which the product does not need: uv pip install scikit-learn.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import statistics
import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reader.grafts import MARK, news_like
from benchmarks.reader.labels import labels, structured
from benchmarks.reader.pages import Gold, pages
from benchmarks.reader.scoring import Score, scored, words

from tabane.reader.extraction.blocks import ContentBlock, up
from tabane.reader.extraction.content import cut, rows, selected
from tabane.reader.extraction.html_tree import parsed
from tabane.text.encodings import decode_leniently

FILE = Path(__file__).parents[2] / "src/tabane/reader/extraction/forest.json.gz"
SHAPE = {
    "max_iter": 200, "learning_rate": 0.06, "max_leaf_nodes": 8, "max_features": 0.2,
    "l2_regularization": 20.0, "min_samples_leaf": 60, "max_bins": 63, "early_stopping": False,
}  # fmt: skip
MANUAL = 0.5  # weight of a page of documentation, whose labels are its container
_MOST_BLOCKS = 350  # of a page that trees are grown on: manuals have thousands
_LONGEST_MANUAL = 330_000  # characters: labels of longer ones take too long to find
JAPANESE = 2.0  # weight of a page in Japanese: there are few
_LENGTH = 600  # words of content that a page of which that is not known is taken to have
NEWS_LIKE = 0.6  # weight of an article with parts of other pages: the article itself is there, too
_GRAFTS = (1,)  # seeds: each gives another set of news-like pages
PARTIAL = 0.7  # weight of a page of which only parts of its structure are known
_ABOUT = (
    "Gradient-boosted trees over tabane.reader.extraction.blocks, grown by benchmarks.reader.training on a "
    "part of the development split of WCXB (Web Content Extraction Benchmark, CC-BY-4.0), on fixtures in "
    "Japanese of postlight/parser (MIT or Apache-2.0), and on documentation in packages of Debian (free "
    "licenses: GPL, GFDL, BSD, PostgreSQL, Apache, MIT and others)."
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A page as the trees see it: a row for each block, and what was right.

    ``foreign`` are the sites whose parts blocks were put into this page with; "" for the page's own.
    """

    gold: Gold
    blocks: list[ContentBlock]
    rows: list[list[float]]
    right: list[bool]
    weights: list[float]
    foreign: list[str]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.training", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--shuffles", type=int, default=3, help="ways to divide the sites into folds")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    known = lessons(options.files)
    if options.folds > 1:
        _print(known, [validated(known, options.folds, way) for way in range(options.shuffles)])
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
    """Every page that has anything to teach, and news-like pages made of the articles among them.

    A page that is there with its text is not taken without it.
    """
    golds = [
        gold
        for path in files
        for gold in pages(path)
        if gold.kind != "manual" or len(gold.html) <= _LONGEST_MANUAL
    ]
    golds += [made for seed in _GRAFTS for made in news_like(golds, seed)]
    found = [one for gold in golds if (one := lesson(gold)).rows]
    whole = {one.gold.url for one in found if one.gold.text}
    return [one for one in found if one.gold.text or one.gold.url not in whole]


def lesson(gold: Gold) -> Lesson:
    """Cut a page and look up each of its blocks in what was marked.

    A block weighs by its share of the marked words, to the power of 0.7: every page counts alike, whatever
    its length, and many short blocks count more than their words would.
    """
    html = decode_leniently(gold.html, None, "text/html") if isinstance(gold.html, bytes) else gold.html
    cutting, _ = cut(parsed(html))
    blocks = cutting.blocks
    features = rows(cutting)
    if not gold.text:
        return _partial(gold, blocks, features)
    total = len(words(gold.text, characters=True)) + 50
    counts = [len(words(block.text, characters=True)) for block in blocks]
    weights = [(min(1.0, (count / total) ** 0.7) + 0.002) * _page_weight(gold) for count in counts]
    foreign = [_foreign(block) for block in blocks]
    own = iter(
        labels([block.text for block, site in zip(blocks, foreign, strict=True) if not site], gold.text)
    )
    right = [not site and next(own) for site in foreign]
    return Lesson(gold, blocks, features, right, weights, foreign)


def _foreign(block: ContentBlock) -> str:
    """Return the site of the foreign part that a block is in; "" if it is the page's own."""
    return next((site for box in up(block.box) if (site := box.element.get(MARK))), "")


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
        [""] * len(known),
    )


def _page_weight(gold: Gold) -> float:
    return {"ja": JAPANESE, "news-like": NEWS_LIKE, "manual": MANUAL}.get(gold.kind, 1.0)


def grown(lessons: Sequence[Lesson], without: Set[str] = frozenset()) -> Any:
    """A forest of scikit-learn, grown on these pages, but not on foreign parts from the sites ``without``."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        sys.exit(f"{error}: uv pip install scikit-learn")
    learned = [
        (one.rows[number], one.right[number], weight)
        for one in lessons
        for number, weight in _sample(one)
        if one.foreign[number] not in without
    ]
    known, right, weights = zip(*learned, strict=True)
    mean = statistics.mean(weights)
    forest = HistGradientBoostingClassifier(**SHAPE, random_state=0)
    return forest.fit(known, right, [weight / mean for weight in weights])


def _sample(one: Lesson) -> list[tuple[int, float]]:
    """Return numbers and weights of blocks of a page: of a very long one some, that weigh as much as all."""
    count = len(one.rows)
    numbers: Sequence[int] = range(count)
    if count > _MOST_BLOCKS:
        numbers = sorted(random.Random(one.gold.name).sample(numbers, _MOST_BLOCKS))
    return [(number, one.weights[number] * count / len(numbers)) for number in numbers]


def validated(known: Sequence[Lesson], folds: int, way: int = 0) -> dict[str, Score]:
    """Judge each page that has a text by a forest that has not seen its site, by the pages' names."""
    sites = sorted({_house(one) for one in known}, key=lambda site: _shuffled(site, way))
    fold = {site: number % folds for number, site in enumerate(sites)}
    found: dict[str, Score] = {}
    for number in range(folds):
        unseen = {site for site in sites if fold[site] == number}
        forest = grown([one for one in known if _house(one) not in unseen], unseen)
        for one in known:
            if one.gold.text and fold[_house(one)] == number:
                probability = [float(row[1]) for row in forest.predict_proba(one.rows)]
                found[one.gold.name] = _judged(one, probability)
    return {one.gold.name: found[one.gold.name] for one in known if one.gold.text}


def _print(known: Sequence[Lesson], runs: Sequence[dict[str, Score]]) -> None:
    """Means by type of page with 95 % intervals over pages, and how far the runs' means lie apart."""
    groups: dict[str, list[str]] = defaultdict(list)
    for one in known:
        if one.gold.text:
            groups[one.gold.kind].append(one.gold.name)
            if one.gold.kind not in ("ja", "news-like", "manual"):
                groups["all of WCXB"].append(one.gold.name)
    for kind, names in sorted(groups.items()):
        values = [statistics.mean(run[name].f1 for run in runs) for name in names]
        interval = 1.96 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        means = [statistics.mean(run[name].f1 for name in names) for run in runs]
        precision, recall = (
            statistics.mean(statistics.mean(run[name][part] for run in runs) for name in names)
            for part in (0, 1)
        )
        print(
            f"{kind:14s} {len(names):4d} pages  F1 {statistics.mean(values):.4f} ± {interval:.3f}"
            f"  precision {precision:.3f}  recall {recall:.3f}  runs {min(means):.4f}–{max(means):.4f}"
        )


def _shuffled(site: str, way: int) -> int:
    """An order of sites that has nothing to do with their names, and is the same each time."""
    return zlib.crc32(f"{way or ''}{site}".encode())


def _house(one: Lesson) -> str:
    return one.gold.name if one.gold.kind == "ja" else one.gold.site


def _judged(one: Lesson, probability: list[float]) -> Score:
    kept = selected(one.blocks, probability)
    text = "\n".join(block.text for block, keep in zip(one.blocks, kept, strict=True) if keep)
    return scored(text, one.gold.text, characters=one.gold.kind in ("ja", "manual"))


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
