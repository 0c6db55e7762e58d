"""The search by codes answers as the one that compares all does, over vectors as real models give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.columns import Mask
from tabane.engine.embedded.vectors.space_index import SpaceSnapshot
from tabane.engine.embedded.vectors.vector_kernel import (
    KERNEL,
    BinaryCodes,
    NumpyKernel,
    VectorKernel,
    are_units,
    encoded,
    mean_of,
)
from tabane.engine.embedded.vectors.vector_search import VectorMatches, VectorSpaceSearch
from tabane.engine.vector_request import Matrix, VectorRequest
from tabane.search.engine import Combination

COUNT, DIMENSION, TAIL = 12_000, 128, 500


def clustered(seed: int) -> Matrix:
    """Unit vectors around 150 centers, off the middle."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((150, DIMENSION), dtype=np.float32)
    centres += 0.7 * chance.standard_normal(DIMENSION, dtype=np.float32)
    found = centres[chance.integers(0, 150, COUNT)]
    found += 0.9 * chance.standard_normal(found.shape, dtype=np.float32)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


def view(
    vectors: Matrix,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    kernel: VectorKernel = KERNEL,
    *,
    coded: bool,
) -> SpaceSnapshot:
    """The vectors, with codes but for the last ones."""
    data = vectors[:-TAIL]
    mean = mean_of(data)
    codes = BinaryCodes(mean, encoded(data, mean), are_units(data), kernel) if coded else None
    straight = bool((np.diff(rows) == 1).all())
    return SpaceSnapshot(rows, vectors, codes, straight, kernel=kernel)


SPACES = {name: clustered(seed) for seed, name in enumerate("abc")}
ROWS = {
    "a": np.arange(1, COUNT + 1),
    "b": np.arange(1, COUNT + 1),
    # Records got these vectors later, in another order, and some have none.
    "c": np.random.default_rng(9).permutation(np.arange(1, COUNT + 300))[:COUNT],
}
CODED, PLAIN = (
    {name: view(vectors, ROWS[name], coded=coded) for name, vectors in SPACES.items()}
    for coded in (True, False)
)
CODED_NUMPY = {name: view(vectors, ROWS[name], NumpyKernel(), coded=True) for name, vectors in SPACES.items()}
EXACT = {name: vectors.astype(np.float64) for name, vectors in SPACES.items()}
ALL = np.ones(COUNT + 300, dtype=np.bool_)


def question(
    seed: int, spaces: str, combination: Combination, threshold: float | None = None, whole: bool = False
) -> VectorRequest:
    chance = np.random.default_rng(seed)
    vectors = {}
    for name in spaces:
        near = SPACES[name][int(chance.integers(0, COUNT))]
        noise = chance.standard_normal(DIMENSION, dtype=np.float32) * 0.6 / np.sqrt(DIMENSION)
        vectors[name] = np.asarray((near + noise) / np.linalg.norm(near + noise), dtype=np.float32)
    weights = {name: 1.0 + place for place, name in enumerate(vectors)}
    return VectorRequest(vectors, combination, weights, threshold, whole)


def masked(seed: int, share: float) -> Mask:
    return np.random.default_rng(seed).random(len(ALL)) < share


def scored(found: VectorMatches) -> list[tuple[int, float]]:
    return list(zip(found.places.tolist(), found.scores.tolist(), strict=True))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    spaces=st.sampled_from(["a", "b", "c", "ab", "ac", "abc"]),
    combination=st.sampled_from(Combination),
    share=st.sampled_from([1.0, 1.0, 0.5, 0.25]),
    wanted=st.sampled_from([1, 10, 50]),
    threshold=st.sampled_from([None, None, 0.2, 0.6, 0.95]),
    whole=st.booleans(),
)
def test_with_codes_and_without_the_answers_are_equal(
    seed: int,
    spaces: str,
    combination: Combination,
    share: float,
    wanted: int,
    threshold: float | None,
    whole: bool,
) -> None:
    asked = question(seed, spaces, combination, threshold, whole)
    mask = masked(seed, share)
    expected = VectorSpaceSearch(asked, PLAIN, mask, 1).best(wanted)
    for views in (CODED, CODED_NUMPY):
        found = VectorSpaceSearch(asked, views, mask, 1).best(wanted)
        assert scored(found) == scored(expected)
        assert mask[found.places].all()


@pytest.mark.parametrize("combination", list(Combination))
@pytest.mark.parametrize("spaces", ["a", "abc"])
def test_of_a_hundred_questions_nothing_is_missed(spaces: str, combination: Combination) -> None:
    """Recall@10 of at least .999, against float64."""
    missed = 0
    for seed in range(100 if spaces == "a" else 40):
        asked = question(seed, spaces, combination)
        exact = np.full((len(spaces), len(ALL)), np.nan)
        for number, (name, vector) in enumerate(asked.vectors.items()):
            exact[number, ROWS[name] - 1] = EXACT[name] @ vector.astype(np.float64)
        likeness = np.nan_to_num(asked.combined(list(exact)), nan=-np.inf)
        expected = set(np.argsort(-likeness, kind="stable")[:10].tolist())
        missed += len(expected - set(VectorSpaceSearch(asked, CODED, ALL, 1).best(10).places.tolist()))
    assert missed <= 1


LONG = 768  # dimensions: of such codes some words are counted first
SOME = 5000


def crowd(chance: np.random.Generator) -> Matrix:
    return chance.standard_normal((SOME, LONG), dtype=np.float32)


def near_centres(chance: np.random.Generator) -> Matrix:
    centres = chance.standard_normal((60, LONG), dtype=np.float32)
    return np.asarray(centres[chance.integers(0, 60, SOME)] + 0.9 * crowd(chance))


def few_directions(chance: np.random.Generator) -> Matrix:
    """Off the middle, and mostly within 40 dimensions, as models give them."""
    directions = chance.standard_normal((40, LONG), dtype=np.float32)
    spread = chance.standard_normal((SOME, 40), dtype=np.float32) @ directions
    return np.asarray(spread + 2 * crowd(chance) + 3 * chance.standard_normal(LONG, dtype=np.float32))


def fading(chance: np.random.Generator) -> Matrix:
    """The first dimensions tell most."""
    return np.asarray(near_centres(chance) * np.geomspace(1, 0.05, LONG, dtype=np.float32))


def idle(chance: np.random.Generator) -> Matrix:
    """Every other word tells nothing: noise, far too small to matter."""
    found = near_centres(chance).reshape(SOME, LONG // 64, 64)
    found[:, ::2] = 1e-4 * chance.standard_normal((SOME, LONG // 128, 64), dtype=np.float32)
    return found.reshape(SOME, LONG)


@pytest.mark.parametrize("kind", [crowd, near_centres, few_directions, fading, idle])
def test_what_is_counted_first_leaves_out_nothing_that_is_near(
    kind: Callable[[np.random.Generator], Matrix],
) -> None:
    chance = np.random.default_rng(11)
    spaces = {}
    for name in "abc":
        vectors = kind(chance)
        spaces[name] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = {name: np.arange(1, SOME + 1) for name in spaces}
    rows["c"] = chance.permutation(rows["c"])
    coded = {name: view(vectors, rows[name], coded=True) for name, vectors in spaces.items()}
    plain = {name: view(vectors, rows[name], coded=False) for name, vectors in spaces.items()}
    missed = asked_for = 0
    for names, combination in [("a", Combination.AVERAGE), *product(("ab", "abc"), Combination)]:
        for share in (1.0, 0.7):
            mask = chance.random(SOME) < share
            queries: dict[str, Matrix] = {}
            for name in names:
                query = spaces[name][7 + asked_for] + 0.6 * chance.standard_normal(LONG) / np.sqrt(LONG)
                queries[name] = (query / np.linalg.norm(query)).astype(np.float32)
            asked = VectorRequest(queries, combination, dict.fromkeys(queries, 1.0), None)
            expected = scored(VectorSpaceSearch(asked, plain, mask, 1).best(10))
            found = scored(VectorSpaceSearch(asked, coded, mask, 1).best(10))
            assert all(place in mask.nonzero()[0] for place, _ in found)
            missed += len(set(expected) - set(found))
            asked_for += len(expected)
    assert missed <= asked_for / 1000


def mirrored(seed: int, opposite: float) -> Matrix:
    """Return unit vectors near centers and, for a share of them, near the opposite of a center."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((40, DIMENSION), dtype=np.float32)
    centres += np.float32(1.5) * centres[0]  # all on one side, so that the mean is far from 0
    found = centres[chance.integers(0, len(centres), COUNT)]
    found[chance.random(COUNT) < opposite] *= -1
    found += 0.9 * chance.standard_normal(found.shape, dtype=np.float32)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


@pytest.mark.heavy("thousands of records")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    opposite=st.sampled_from([0.0, 0.02, 0.5]),
    spaces=st.sampled_from(["ab", "ac", "abc"]),
    signs=st.tuples(*[st.sampled_from([1.0, -1.0])] * 3),
    combination=st.sampled_from([Combination.PRODUCT, Combination.PRODUCT, Combination.MINIMUM]),
    wanted=st.sampled_from([1, 10, 50]),
    threshold=st.sampled_from([None, None, 0.05, -0.05]),
    whole=st.booleans(),
)
def test_products_of_cosines_on_both_sides_of_zero_are_as_if_all_were_compared(
    seed: int,
    opposite: float,
    spaces: str,
    signs: tuple[float, ...],
    combination: Combination,
    wanted: int,
    threshold: float | None,
    whole: bool,
) -> None:
    """Two negative cosines make a positive product: what is farthest in two spaces may be the best."""
    vectors = {name: mirrored(seed + place, opposite) for place, name in enumerate(spaces)}
    near = int(np.random.default_rng(seed).integers(0, COUNT))
    asked = {name: np.float32(sign) * vectors[name][near] for name, sign in zip(spaces, signs, strict=False)}
    question = VectorRequest(asked, combination, dict.fromkeys(spaces, 1.0), threshold, whole)
    coded, plain = (
        {name: view(each, ROWS[name], coded=coded) for name, each in vectors.items()}
        for coded in (True, False)
    )
    expected = VectorSpaceSearch(question, plain, ALL, 1).best(wanted)
    exact = np.full((len(spaces), len(ALL)), np.nan)
    for number, name in enumerate(spaces):
        exact[number, ROWS[name] - 1] = vectors[name].astype(np.float64) @ asked[name].astype(np.float64)
    lacking = np.isnan(exact)
    exact = np.where(lacking, 0.0, exact)
    join = exact.prod(axis=0) if combination is Combination.PRODUCT else exact.min(axis=0)
    meant = ~(lacking.any(axis=0) if whole else lacking.all(axis=0))
    best = np.sort(join[meant & (join >= (-2 if threshold is None else threshold))])[::-1]
    assert np.allclose(expected.scores[:wanted], best[:wanted], atol=1e-6)
    assert scored(VectorSpaceSearch(question, coded, ALL, 1).best(wanted)) == scored(expected)


def test_only_the_proven_ones_are_as_if_all_were_compared() -> None:
    """Fewer are looked at then, and the best are the same."""
    for seed in range(20):
        asked = question(seed, "a", Combination.AVERAGE)
        whole = scored(VectorSpaceSearch(asked, CODED, ALL, 1).best(100))
        some = scored(VectorSpaceSearch(replace(asked, proven=10), CODED, ALL, 1).best(100))
        assert some[:10] == whole[:10]
        assert len(some) == len(whole)


def test_what_is_not_in_the_files_yet_is_found_where_nothing_else_is_meant() -> None:
    vectors = SPACES["a"]
    codes = BinaryCodes(mean_of(vectors[:6000]), encoded(vectors[:6000], mean_of(vectors[:6000])))
    views = {"a": SpaceSnapshot(ROWS["a"], vectors, codes, straight=True)}
    mask = np.arange(len(ALL)) >= 6000
    asked = question(3, "a", Combination.AVERAGE)
    found = VectorSpaceSearch(asked, views, mask, 1).best(10)
    assert scored(found) == scored(VectorSpaceSearch(asked, PLAIN, mask, 1).best(10))


def test_equals_are_all_found_however_many_there_are() -> None:
    """More of them than are looked at first: which come first is decided by their keys, above."""
    vectors = SPACES["a"].copy()
    vectors[100:2200] = vectors[100]
    views = {"a": view(vectors, ROWS["a"], coded=True)}
    asked = VectorRequest({"a": vectors[100]}, Combination.AVERAGE, {"a": 1.0}, None)
    found = VectorSpaceSearch(asked, views, ALL, 1).best(10)
    assert found.places.tolist() == list(range(100, 2200))
