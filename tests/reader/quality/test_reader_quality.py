"""Pages are read as well as they ever were."""

from __future__ import annotations

import statistics
import warnings

import pytest

from tests.reader.quality import floor
from tests.reader.quality.corpus import Reading, digest, f1, measured


@pytest.fixture(scope="module")
def readings() -> list[Reading]:
    return measured()


@pytest.mark.parametrize("figure", ["f1", "structure"])
def test_reading_keeps_its_floor(readings: list[Reading], figure: str) -> None:
    least = getattr(floor.read()[-1], figure)
    reached = statistics.mean(getattr(reading, figure) for reading in readings)
    worst = sorted(readings, key=lambda reading: getattr(reading, figure))[:4]
    assert reached >= least, worst
    if floor.floored(reached) > least:
        warnings.warn(
            f"{figure} {reached:.3f} is above the floor: python -m tests.reader.quality --raise", stacklevel=1
        )


def test_the_floor_was_never_lowered_without_a_reason() -> None:
    assert list(floor.faults(floor.read())) == []


def test_the_corpus_is_the_one_that_the_floor_was_measured_on() -> None:
    assert floor.read()[-1].corpus == digest(), 'python -m tests.reader.quality --lower "what was changed"'


def test_every_kind_of_page_is_there(readings: list[Reading]) -> None:
    assert len(readings) >= 12
    assert sum(reading.name.startswith("ja_") for reading in readings) >= 3


STEP = floor.Step("one", 0.9, 0.95)


@pytest.mark.parametrize("step", [floor.Step("one", 0.89, 0.96), floor.Step("two", 0.99, 0.99)])
def test_a_step_that_takes_anything_back_needs_a_reason(step: floor.Step) -> None:
    with pytest.raises(ValueError, match="lower than the floor"):
        floor.raised([STEP], step)
    with pytest.raises(ValueError, match="say why"):
        floor.lowered([STEP], step, " ")
    assert list(floor.faults([STEP, step])) != []
    assert list(floor.faults(floor.lowered([STEP], step, "a harder corpus"))) == []


def test_f1_counts_words_as_often_as_they_occur() -> None:
    assert f1("a a b", "a b b") == pytest.approx(2 / 3)
    assert f1("日本", "日本語") == pytest.approx(0.8)
