"""What all engines are given: vectors with a date and a user each, questions, and the exact answers to them.

A corpus is a folder of arrays, so that each engine can map it in a process of its own. Clustered vectors
lie around 2,000 centers, off the middle as those of real models do; a question is a vector with noise.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.search.generator import DAY, DAYS, FIRST_DAY, USERS, Asked, Entry, Generator
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Numbers = NDArray[np.int64]

MOST = 10  # hits that are asked for
QUESTIONS = 300  # of a kind that looks into one space
OF_SEVERAL = 120
WARM = 60  # of these: they find the files in no page of the process yet
ONE = {"nearest": (None, False), "dates": (0.1, False), "user": (None, True), "rare": (0.1, True)}
COMBINATIONS = ("average", "weighted", "maximum", "minimum", "product")
WEIGHTS = (1.0, 0.5, 0.25)  # of what is weighted
_CENTRES = 2000
_NOISE, _OF_QUESTION = 0.9, 0.6
_STEP = 8192
_DIFFERENT, _SHORT = 250_000, 60  # texts, characters
_SEED = 7


@dataclass(frozen=True, slots=True)
class Question:
    """A vector for each space, what the records are limited to, and words where those are asked for too."""

    vectors: Matrix
    since: int | None = None
    until: int | None = None
    user: int | None = None
    words: str = ""
    combination: str = "average"


@dataclass(frozen=True, slots=True)
class Corpus:
    """A folder with what :meth:`written` put there, mapped."""

    folder: Path
    spaces: list[Matrix]
    dates: Numbers
    users: Numbers

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        spaces = [np.load(path, mmap_mode="r") for path in sorted(folder.glob("space*.npy"))]
        return cls(folder, spaces, np.load(folder / "dates.npy"), np.load(folder / "users.npy"))

    def __len__(self) -> int:
        return len(self.dates)

    @property
    def dimension(self) -> int:
        return int(self.spaces[0].shape[1])

    def texts(self) -> Iterator[str]:
        with (self.folder / "texts.txt").open(encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")

    @property
    def kinds(self) -> list[str]:
        """The kinds of questions there are."""
        return json.loads((self.folder / "kinds.json").read_text())  # type: ignore[no-any-return]

    def questions(self, kind: str) -> list[Question]:
        vectors = np.load(self.folder / f"{kind}.vectors.npy")
        asked = json.loads((self.folder / f"{kind}.json").read_text(encoding="utf-8"))
        return [Question(each, **others) for each, others in zip(vectors, asked, strict=True)]

    def answers(self, kind: str) -> list[set[int]]:
        """The exact answers; none where recall means nothing."""
        path = self.folder / f"{kind}.answers.npy"
        return [set(each) - {-1} for each in np.load(path).tolist()] if path.exists() else []


def write(folder: Path, spaces: Sequence[Matrix], entries: Sequence[Entry], asked: Sequence[Asked]) -> Corpus:
    """Put the corpus into a folder, with its questions. ``asked``: words for the questions of both kinds."""
    folder.mkdir(parents=True)
    for number, space in enumerate(spaces):
        np.save(folder / f"space{number}.npy", space)
    np.save(folder / "dates.npy", np.array([entry.date for entry in entries], dtype=np.int64))
    np.save(folder / "users.npy", np.array([int(entry.user[4:]) for entry in entries], dtype=np.int64))
    with (folder / "texts.txt").open("w", encoding="utf-8") as file:
        file.writelines(entry.text.replace("\n", " ") + "\n" for entry in entries)
    corpus = Corpus.open(folder)
    questions = _questions(corpus, asked)
    (folder / "kinds.json").write_text(json.dumps(list(questions)))
    for kind, several in questions.items():
        np.save(folder / f"{kind}.vectors.npy", np.stack([question.vectors for question in several]))
        others = [
            {name: getattr(each, name) for name in ("since", "until", "user", "words", "combination")}
            for each in several
        ]
        (folder / f"{kind}.json").write_text(json.dumps(others, ensure_ascii=False), encoding="utf-8")
        if kind != "hybrid":
            np.save(folder / f"{kind}.answers.npy", _answers(corpus, several))
    return corpus


def clustered(count: int, dimension: int, seed: int) -> Matrix:
    """Unit vectors."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((_CENTRES, dimension), dtype=np.float32)
    centres += 0.7 * chance.standard_normal(dimension, dtype=np.float32)
    vectors = centres[chance.integers(0, _CENTRES, count)]
    for first in range(0, count, _STEP):
        part = vectors[first : first + _STEP]
        part += _NOISE * chance.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def entries_of(count: int) -> tuple[list[Entry], list[Asked]]:
    """Texts, dates and users for so many records, and words that stand in some of them.

    Beyond 250,000 texts come again and are cut short, for making and indexing a million takes long.
    """
    generator = Generator()
    entries = list(generator.entries(min(count, _DIFFERENT)))
    if count > _DIFFERENT:
        entries = [
            Entry(each.key, each.text[:_SHORT], each.language, *_somewhere(generator))
            for each, _ in zip(itertools.cycle(entries), range(count), strict=False)
        ]
    half = QUESTIONS // 2
    asked = [*generator.queries(entries, "en", half), *generator.queries(entries, "ja", half)]
    return entries, asked


def _somewhere(generator: Generator) -> tuple[int, str]:
    """A date and a user."""
    since, _ = generator.days(1 / DAYS)
    return since, generator.user()


def _questions(corpus: Corpus, asked: Sequence[Asked]) -> dict[str, list[Question]]:
    chance = np.random.default_rng(_SEED)
    found: dict[str, list[Question]] = {}
    for kind, (share, limited) in ONE.items():
        found[kind] = []
        for _ in range(QUESTIONS):
            since, until = _days(chance, share)
            user = int(chance.integers(0, USERS)) if limited else None
            found[kind].append(Question(_near(chance, corpus, 1), since, until, user))
    found["hybrid"] = [Question(_near(chance, corpus, 1), words=" ".join(each.words)) for each in asked]
    for combination in COMBINATIONS if len(corpus.spaces) > 1 else ():
        found[combination] = [
            Question(_near(chance, corpus, len(corpus.spaces)), combination=combination)
            for _ in range(OF_SEVERAL)
        ]
    return found


def _days(chance: np.random.Generator, share: float | None) -> tuple[int, int] | tuple[None, None]:
    if share is None:
        return None, None
    length = int(DAYS * DAY * share)
    since = FIRST_DAY + int(chance.integers(0, DAYS * DAY - length))
    return since, since + length


def _near(chance: np.random.Generator, corpus: Corpus, spaces: int) -> Matrix:
    """A vector near to a record's, in each of so many spaces."""
    number = int(chance.integers(0, len(corpus)))
    found = np.stack([space[number] for space in corpus.spaces[:spaces]])
    noise = chance.standard_normal(found.shape, dtype=np.float32) * _OF_QUESTION / np.sqrt(corpus.dimension)
    near: Matrix = (found + noise).astype(np.float32)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    return near


def meant(corpus: Corpus, question: Question) -> NDArray[np.bool_]:
    """Which records a question is limited to."""
    mask = np.ones(len(corpus), dtype=np.bool_)
    if question.since is not None and question.until is not None:
        mask &= (corpus.dates >= question.since) & (corpus.dates < question.until)
    if question.user is not None:
        mask &= corpus.users == question.user
    return mask


def combined(similarities: Matrix, combination: str) -> Matrix:
    """One similarity of those of several spaces, which come first."""
    match combination:
        case "average":
            found = similarities.mean(axis=0)
        case "weighted":
            found = np.einsum("s,s...->...", np.array(WEIGHTS, dtype=np.float32), similarities)
        case "maximum":
            found = similarities.max(axis=0)
        case "minimum":
            found = similarities.min(axis=0)
        case _:
            found = similarities.prod(axis=0)
    return np.asarray(found, dtype=np.float32)


def _answers(corpus: Corpus, questions: Sequence[Question], together: int = 30) -> Numbers:
    """What numpy finds that looks at all vectors; -1 where there are fewer."""
    found = np.full((len(questions), MOST), -1, dtype=np.int64)
    for first in range(0, len(questions), together):
        part = questions[first : first + together]
        wanted = np.stack([question.vectors for question in part], axis=1)
        each = np.stack([space @ vectors.T for space, vectors in zip(corpus.spaces, wanted, strict=False)])
        scores = each[0] if len(each) == 1 else combined(each, part[0].combination)
        for number, question in enumerate(part):
            places = np.flatnonzero(meant(corpus, question))
            likeness = scores[places, number]
            if len(places) > MOST:
                places = places[np.argpartition(-likeness, MOST)[:MOST]]
            found[first + number, : len(places)] = places
    return found
