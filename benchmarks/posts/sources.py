"""What is imported: a folder as twilog leaves it, with posts, results and vectors of three spaces.

Made once from a seed and kept in the user's cache: two gigabytes for 220,000 posts. Vectors lie around 2,000
centers, as those of real models do, and so does the vector that a question is given.
"""

from __future__ import annotations

import csv
import html
import json
import os
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import numpy as np
from benchmarks.search.generator import DAY, DAYS, FIRST_DAY, Generator
from benchmarks.search.vectors.corpus import Matrix, clustered

VERSION = 1
MODEL = "bench-768"
DIMENSION = 768
USERS = 700
FOLDERS = {"content": "embeddings", "reasoning": "batch/reasoning", "summary": "batch/summary"}
LENGTHS = {"ja": (70, 80, 40), "en": (215, 240, 120)}
"""Characters of 35, 40 and 20 words: of content, reasoning and summary."""

_SEED = 20261122
_QUESTIONS = 400
_TERMS = 20  # of each kind
_COMMON, _RARE = 0, 12_000  # ranks of words that are terms, and of some after them
_CHUNK = 1000  # vectors of a file
_FIRST_ID = 1_700_000_000_000_000_000
_NOISE = 0.6


@dataclass(frozen=True, slots=True)
class Sources:
    """The folder, made."""

    folder: Path

    @property
    def posts(self) -> Path:
        return self.folder / "twilog.csv"

    def questions(self) -> list[str]:
        """What is asked by meaning."""
        return [*self._asked()["questions"]]

    def vectors(self) -> dict[str, Matrix]:
        """The vector of each question: near to that of some post's content."""
        return dict(zip(self.questions(), np.load(self.folder / "questions.npy"), strict=True))

    def terms(self) -> dict[str, list[str]]:
        """Words that stand in many posts, and words that stand in few, by language."""
        return dict(self._asked()["terms"])

    def arguments(self) -> list[str]:
        """The same folders as arguments of an import."""
        flags = zip(("-e", "-r", "-s"), FOLDERS.values(), strict=True)
        named = [part for flag, name in flags for part in (flag, str(self.folder / name))]
        return [str(self.posts), str(self.folder / "batch" / "results.jsonl"), *named]

    def _asked(self) -> dict[str, dict[str, list[str]]]:
        return json.loads((self.folder / "asked.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def made(posts: int, *, vectors: bool = True) -> Sources:
    """The folder with so many posts, from the cache where it is there. It may be without vectors."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tabane-benchmarks"
    folder = cache / f"{'posts' if vectors else 'texts'}-{VERSION}-{posts}"
    if not folder.exists():
        partial = folder.with_name(folder.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "batch").mkdir(parents=True)
        _write(partial, posts, vectors=vectors)
        partial.rename(folder)
    return Sources(folder)


def _seed(space: str) -> int:
    return _SEED + [*FOLDERS].index(space)


def _write(folder: Path, posts: int, *, vectors: bool) -> None:
    generator, source = Generator(_SEED), random.Random(_SEED)
    weights = list(accumulate(1 / (rank + 3) for rank in range(USERS)))
    step = DAYS * DAY / posts
    with (
        (folder / "twilog.csv").open("w", encoding="utf-8", newline="") as rows,
        (folder / "batch" / "results.jsonl").open("w", encoding="utf-8") as results,
    ):
        table = csv.writer(rows, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for number in range(posts):
            post, language = _FIRST_ID + number * 7919, source.choice(("ja", "en"))
            user = f"user{source.choices(range(USERS), cum_weights=weights)[0]}"
            moment = datetime.fromtimestamp(FIRST_DAY + number * step, UTC)
            content, reasoning, summary = (generator.text(language, size) for size in LENGTHS[language])
            table.writerow((
                post, f"https://x.com/{user}/status/{post}", f"{moment:%Y-%m-%d %H:%M:%S}",
                html.escape(content), 1 + (number % 10 == 0),
            ))  # fmt: skip
            tags = source.sample(generator.words(language)[:2000], 4)
            result = {"key": post, "reasoning": reasoning, "summary": summary, "tags": tags}
            results.write(json.dumps(result, ensure_ascii=False) + "\n")
    for space, name in FOLDERS.items() if vectors else ():
        _write_vectors(folder / name, space, posts)
    asked = {"questions": list(_questions(generator)), "terms": _terms(generator)}
    (folder / "asked.json").write_text(json.dumps(asked, ensure_ascii=False), encoding="utf-8")


def _write_vectors(folder: Path, space: str, posts: int) -> None:
    folder.mkdir(exist_ok=True)
    meta = {"model": MODEL, "embedding_dim": DIMENSION, "total_posts": posts, "chunk_size": _CHUNK}
    (folder / "meta.json").write_text(json.dumps(meta))
    vectors = clustered(posts, DIMENSION, _seed(space))
    if space == "content":
        np.save(folder.parent / "questions.npy", _near(vectors))
    for first in range(0, posts, _CHUNK):
        part = vectors[first : first + _CHUNK]
        ids = _FIRST_ID + np.arange(first, first + len(part), dtype="<i8") * 7919
        (folder / f"{first // _CHUNK:04}.safetensors").write_bytes(_safetensors(ids.tobytes(), part))


def _near(vectors: Matrix) -> Matrix:
    chance = np.random.default_rng(_SEED)
    chosen = vectors[chance.integers(0, len(vectors), _QUESTIONS)]
    noise = chance.standard_normal(chosen.shape, dtype=np.float32) * np.float32(_NOISE / DIMENSION**0.5)
    return np.asarray(chosen + noise, dtype=np.float32)


def _safetensors(ids: bytes, vectors: Matrix) -> bytes:
    rows, end = len(vectors), len(ids) + vectors.nbytes
    header = json.dumps({
        "post_ids": {"dtype": "I64", "shape": [rows], "data_offsets": [0, len(ids)]},
        "vectors": {"dtype": "F32", "shape": [rows, DIMENSION], "data_offsets": [len(ids), end]},
    }).encode()  # fmt: skip
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + ids + vectors.astype("<f4").tobytes()


def _questions(generator: Generator) -> Iterator[str]:
    for number in range(_QUESTIONS):
        yield f"{generator.text(('ja', 'en')[number % 2], 24)} {number}"


def _terms(generator: Generator) -> dict[str, list[str]]:
    return {
        f"{kind} {language}": list(generator.words(language)[rank : rank + _TERMS])
        for kind, rank in (("frequent", _COMMON), ("rare", _RARE))
        for language in ("ja", "en")
    }
