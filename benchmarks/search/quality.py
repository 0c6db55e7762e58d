"""How well words find the right records: ``python -m benchmarks.search.quality FILE``, .json or .json.gz.

The file holds ``docs`` (texts, or ``{key, text}``) and ``queries`` (``{id, q, rel}``; ``rel`` is the place or
key of the right text, or a list of them). A folder is taken as BEIR has it: ``corpus.jsonl``,
``queries.jsonl``, ``qrels/test.tsv``. Asked is the collection itself, with everything on the way.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabane.engine.embedded.lexical.lexical_index import LexicalIndex, open_lexical
from tabane.engine.embedded.store import Store
from tabane.engine.query_plans import japanese
from tabane.search.engine import LexicalQuery
from tabane.search.records import EVERYTHING, Record, Shape, TextField

DEPTH = 10
SHAPE = Shape("texts", (TextField("text"),))


@dataclass(frozen=True, slots=True)
class Query:
    """A question and the keys of the texts that answer it."""

    name: str
    text: str
    right: frozenset[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts by key, and questions."""

    texts: Mapping[str, str]
    queries: tuple[Query, ...]

    @classmethod
    def read(cls, path: Path) -> Corpus:
        if path.is_dir():
            return cls.of(_beir(path))
        data = path.read_bytes()
        return cls.of(json.loads(gzip.decompress(data) if path.suffix == ".gz" else data))

    @classmethod
    def of(cls, whole: Mapping[str, Any]) -> Corpus:
        texts = dict(_text(place, given) for place, given in enumerate(whole["docs"]))
        return cls(texts, tuple(_query(given) for given in whole["queries"]))


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over all queries. Each text that answers a query is as right as another.

    nDCG is that of Järvelin and Kekäläinen (2002) with gains of one, MRR the mean of 1 / place of the first
    right text, both among the first ten; recall the share of the right ones that is there.
    """

    ndcg: float
    recall: float
    mrr: float

    @classmethod
    def of(cls, answers: Mapping[str, Sequence[str]], queries: Sequence[Query]) -> Quality:
        """``answers``: a query's name → keys, best first."""
        each = [scores(answers[query.name], query.right) for query in queries]
        ndcg, recall, mrr = (sum(column) / len(each) for column in zip(*each, strict=True))
        return cls(ndcg, recall, mrr)


def scores(keys: Sequence[str], right: frozenset[str]) -> tuple[float, float, float]:
    """nDCG, recall and reciprocal rank of the first ten of one answer."""
    places = [place for place, key in enumerate(keys[:DEPTH]) if key in right]
    most = min(len(right), DEPTH)
    return _gain(places) / _gain(range(most)), len(places) / most, 1 / (places[0] + 1) if places else 0.0


def _gain(places: Sequence[int]) -> float:
    return sum(1 / math.log2(place + 2) for place in places)


def _beir(folder: Path) -> dict[str, Any]:
    """The same from a folder; a text is its title and what follows, and all grades above 0 are right.

    Format: Thakur et al., "BEIR", NeurIPS 2021 (https://github.com/beir-cellar/beir).
    """
    right: dict[str, list[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query, text, grade = line.split("\t")
        if float(grade) > 0:
            right.setdefault(query, []).append(text)
    texts, queries = (
        [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    return {
        "docs": [
            {"key": each["_id"], "text": f"{each.get('title', '')} {each['text']}".strip()} for each in texts
        ],
        "queries": [
            {"id": each["_id"], "q": each["text"], "rel": right[each["_id"]]}
            for each in queries
            if each["_id"] in right
        ],
    }


def _text(place: int, given: Any) -> tuple[str, str]:
    return (str(place), given) if isinstance(given, str) else (given["key"], given["text"])


def _query(given: Any) -> Query:
    right = given["rel"] if isinstance(given["rel"], list) else [given["rel"]]
    return Query(str(given["id"]), given["q"], frozenset(map(str, right)))


async def answers(corpus: Corpus, folder: Path, *, words: bool) -> dict[str, list[str]]:
    """What a collection of these texts finds for each query. ``words``: with the extra ``ja``."""
    store = await Store.open(str(folder), "quality", lexical=_with_words if words else _without)
    try:
        collection = await store.collection(SHAPE)
        await collection.upsert([Record(key=key, texts={"text": text}) for key, text in corpus.texts.items()])
        found = {}
        for query in corpus.queries:
            hits = await collection.search(LexicalQuery(query.text), EVERYTHING, DEPTH)
            found[query.name] = [hit.key for hit in hits.hits]
        return found
    finally:
        await store.close()


_with_words = open_lexical


async def _without(folder: str, table: Any) -> LexicalIndex:
    return await LexicalIndex.open(folder, table, None)


def measured(corpus: Corpus, *, words: bool) -> tuple[Quality, dict[str, list[str]]]:
    """Quality over a whole corpus, and what was found."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(answers(corpus, Path(folder), words=words))
    return Quality.of(found, corpus.queries), found


def main(path: Path) -> None:
    corpus = Corpus.read(path)
    print(f"{len(corpus.texts):,} texts, {len(corpus.queries)} queries")
    for words, name in ((False, "lexical alone"), (True, "with [ja]")):
        if words and japanese() is None:
            print(f"{name}: not installed")
            continue
        quality, _ = measured(corpus, words=words)
        print(f"{name}: nDCG@10 {quality.ndcg:.4f}, recall@10 {quality.recall:.4f}, MRR {quality.mrr:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
