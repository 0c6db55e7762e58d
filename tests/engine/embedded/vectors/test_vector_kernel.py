"""One contract of the loops of the vector index, for those in C and those in numpy."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.vectors.vector_kernel import (
    KERNEL,
    CompiledKernel,
    NumpyKernel,
    VectorKernel,
    Words,
)
from tabane.engine.vector_request import Array, Matrix


def kernels() -> dict[str, VectorKernel]:
    """Return every implementation that this machine can run, by name."""
    found: dict[str, VectorKernel] = {"numpy": NumpyKernel()}
    try:
        from tabane.engine.embedded.vectors import _kernel
    except ImportError:
        return found
    return found | {name: CompiledKernel(name) for name in _kernel.variants()}


KERNELS = kernels()
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def words_of(width: int, count: int, seed: int) -> Words:
    """Return codes as the files have them: with room for more behind each row."""
    chance = np.random.default_rng(seed)
    return chance.integers(0, 2**64, (width, count + 5), dtype=np.uint64)[:, :count]


def rows_of(count: int, dimension: int, seed: int) -> Matrix:
    rows = np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def numbers(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def test_where_there_is_a_compiler_the_loops_are_compiled() -> None:
    """After a change of ``_kernel.c`` or ``hatch_build.py``, ``make env`` compiles them."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    assert isinstance(KERNEL, CompiledKernel)


@each_kernel
@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 40),
    count=st.one_of(st.integers(0, 70), st.sampled_from([4095, 4096, 4097, 8200])),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_bits_are_counted_and_added(
    kernel: VectorKernel, width: int, count: int, seed: int, data: st.DataObject
) -> None:
    words, wanted = words_of(width, count, seed), words_of(width, 1, seed + 1)[:, 0].copy()
    some = numbers(*data.draw(st.lists(st.integers(0, width - 1), max_size=2 * width)))
    slots: Array | None = None
    if data.draw(st.booleans()):
        chosen = data.draw(st.lists(st.integers(0, count - 1), max_size=1500)) if count else []
        slots = numbers(*chosen)
    meant = words if slots is None else words[:, slots]
    expected = 7 + np.bitwise_count(meant[some] ^ wanted[some, None]).sum(axis=0, dtype=np.int64)
    counts = np.full(meant.shape[1], 7, dtype=np.uint16)
    kernel.add_differing_bits(words, wanted, some, counts, slots)
    assert counts.tolist() == expected.tolist()


@each_kernel
def test_every_bit_of_a_long_code_counts(kernel: VectorKernel) -> None:
    """Partial sums are kept in bytes: they must not overflow."""
    words = np.full((1000, 2000), 2**64 - 1, dtype=np.uint64)
    counts = np.zeros(2000, dtype=np.uint16)
    kernel.add_differing_bits(words, np.zeros(1000, dtype=np.uint64), np.arange(1000), counts, None)
    assert set(counts.tolist()) == {64_000}


@each_kernel
@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 60),
    dimension=st.one_of(st.integers(1, 200), st.sampled_from([384, 768, 1024])),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_products_are_those_of_the_selected_rows(
    kernel: VectorKernel, count: int, dimension: int, seed: int, data: st.DataObject
) -> None:
    rows, query = rows_of(count, dimension, seed), rows_of(1, dimension, seed + 1)[0]
    slots = numbers(*data.draw(st.lists(st.integers(0, count - 1), max_size=1500)))
    found, squares = kernel.dot_rows(rows, slots, query)
    doubled = rows[slots].astype(np.float64)
    expected = (doubled * query.astype(np.float64)).sum(axis=1)
    assert found.dtype == squares.dtype == np.float32
    assert np.allclose(found, expected, rtol=0, atol=1e-6)
    assert np.allclose(squares, 1, rtol=0, atol=1e-6)
    assert np.allclose(kernel.products(rows, slots, query), expected, rtol=0, atol=1e-6)
    exact, exact_squares = kernel.exact_dot_rows(rows, slots, query)
    assert exact.tolist() == expected.tolist()
    assert exact_squares.tolist() == (doubled * doubled).sum(axis=1).tolist()


@each_kernel
@pytest.mark.parametrize("length", [1e-44, 1e-38, 1e-30, 1e-16, 1e-3, 1.0, 7.0, 1e14, 1e16, 1e30, 1e38])
def test_cosines_do_not_depend_on_the_length_of_rows(kernel: VectorKernel, length: float) -> None:
    """Not even where float32 cannot hold the square of the length."""
    rows, query = rows_of(40, 70, 1), rows_of(1, 70, 2)[0]
    scaled = np.asarray(rows * np.float64(length), dtype=np.float32)
    scaled[::2] = rows[::2]
    scaled = scaled[np.abs(scaled).max(axis=1) > 0]
    doubled = scaled.astype(np.float64)
    expected = doubled @ query.astype(np.float64) / np.linalg.norm(doubled, axis=1)
    slots = np.arange(len(scaled))
    assert np.allclose(kernel.cosines(scaled, slots, query), expected, rtol=0, atol=1e-6)
    assert np.allclose(kernel.exact_cosines(scaled, slots, query), expected, rtol=0, atol=1e-14)


@each_kernel
@pytest.mark.parametrize("dimension", [7, 8, 127, 128, 129, 136, 255, 256, 257, 384, 1000, 1536, 4096, 9999])
def test_exact_products_are_added_in_one_order(kernel: VectorKernel, dimension: int) -> None:
    """Scores do not depend on the installation, to the last bit."""
    rows, query = rows_of(20, dimension, 3), rows_of(1, dimension, 4)[0]
    expected = (rows.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    assert kernel.exact_dot_rows(rows, np.arange(20), query)[0].tolist() == expected.tolist()


@each_kernel
def test_equal_rows_have_equal_products_wherever_they_are(kernel: VectorKernel) -> None:
    rows = np.repeat(rows_of(1, 70, 1), 3000, axis=0)
    slots, query = np.arange(0, 3000, 7), rows_of(1, 70, 2)[0]
    for found in (kernel.cosines(rows, slots, query), kernel.exact_cosines(rows, slots, query)):
        assert len(set(found.tolist())) == 1


@each_kernel
def test_rows_may_lie_anywhere_in_memory(kernel: VectorKernel) -> None:
    """Rows of a wider matrix, backwards, and read-only ones as mapped files are."""
    rows, query = rows_of(40, 96, 1), rows_of(1, 32, 2)[0]
    for some in (rows[:, 32:64], rows[::-3, :32]):
        some.flags.writeable = False
        slots = np.arange(len(some))
        assert np.allclose(kernel.dot_rows(some, slots, query)[0], some @ query, rtol=0, atol=1e-6)


@each_kernel
@pytest.mark.parametrize("wrong", [-1, 50, 2**62, -(2**63)])
@pytest.mark.parametrize("place", [0, 1500, 2999])
def test_what_is_not_there_is_not_read(kernel: VectorKernel, wrong: int, place: int) -> None:
    slots = np.arange(3000) % 50
    slots[place] = wrong
    words, counts = words_of(3, 50, 1), np.zeros(3000, dtype=np.uint16)
    with pytest.raises(IndexError):
        kernel.add_differing_bits(words, words[:, 0].copy(), numbers(0, 2), counts, slots)
    with pytest.raises(IndexError):
        kernel.add_differing_bits(
            words, words[:, 0].copy(), numbers(0, 3 + abs(wrong) % 2**62), counts[:50], None
        )
    with pytest.raises(IndexError):
        kernel.dot_rows(rows_of(50, 20, 1), slots, rows_of(1, 20, 2)[0])
    with pytest.raises(IndexError):
        kernel.exact_dot_rows(rows_of(50, 20, 1), slots, rows_of(1, 20, 2)[0])
    with pytest.raises(IndexError):
        kernel.products(rows_of(50, 20, 1), slots, rows_of(1, 20, 2)[0])


@each_kernel
def test_arrays_that_do_not_fit_are_refused(kernel: VectorKernel) -> None:
    words, wanted, counts = words_of(3, 50, 1), np.zeros(3, dtype=np.uint64), np.zeros(50, dtype=np.uint16)
    for some, other, slots in (
        (wanted[:2], counts, None),
        (wanted, counts[:49], None),
        (wanted, counts, np.arange(49)),
    ):
        with pytest.raises(ValueError, match="fit together"):
            kernel.add_differing_bits(words, some, numbers(0), other, slots)
    with pytest.raises(ValueError, match="fit together"):
        kernel.dot_rows(rows_of(50, 20, 1), np.arange(50), rows_of(1, 21, 2)[0])
    with pytest.raises(ValueError, match="fit together"):
        kernel.exact_dot_rows(rows_of(50, 20, 1), np.arange(50), rows_of(1, 21, 2)[0])
    with pytest.raises(ValueError, match="fit together"):
        kernel.products(rows_of(50, 20, 1), np.arange(50), rows_of(1, 21, 2)[0])


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "numpy"])
def test_compiled_loops_take_no_other_arrays(name: str) -> None:
    """Arrays of other types, with gaps, or not aligned would be read wrong."""
    kernel = KERNELS[name]
    rows, slots, query = rows_of(50, 20, 1), np.arange(50), rows_of(1, 20, 2)[0]
    shifted: Any = memoryview(bytearray(1 + query.nbytes))[1:].cast("f")
    for wrong in (
        (rows.astype(np.float64), slots, query),
        (rows.astype(">f4"), slots, query),
        (rows.T, slots, np.resize(query, 50)),
        (rows[0], slots, query),
        (rows, slots.astype(np.int32), query),
        (rows, slots.astype(np.uint64), query),
        (rows, np.arange(100)[::2], query),
        (rows, slots, query.astype(np.float64)),
        (rows, slots, shifted),
    ):
        with pytest.raises(ValueError, match=r"type|gaps|dimensions|aligned"):
            kernel.dot_rows(*wrong)
    counts = np.zeros(50, dtype=np.uint16)
    counts.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only|writable"):
        kernel.add_differing_bits(words_of(1, 50, 1), np.zeros(1, dtype=np.uint64), numbers(0), counts, None)
    with pytest.raises(ValueError, match="variant"):
        CompiledKernel("sse9")


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "numpy"])
def test_other_threads_run_while_a_compiled_loop_does(name: str) -> None:
    """No thread takes the interpreter from another one here: it runs only if it is let."""
    words, counts = words_of(64, 300_000, 1), np.zeros(300_000, dtype=np.uint16)
    wanted, some = words[:, 0].copy(), np.arange(64)
    rows, query, slots = rows_of(2000, 768, 1), rows_of(1, 768, 2)[0], np.arange(100_000) % 2000
    for work in (
        lambda: KERNELS[name].add_differing_bits(words, wanted, some, counts, None),
        lambda: KERNELS[name].dot_rows(rows, slots, query),
    ):
        let, ran = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda let=let, ran=ran: let.wait() and ran.set())
        thread.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(60)
        try:
            let.set()
            for _ in range(500):
                work()
                if ran.is_set():
                    break
            assert ran.is_set()
        finally:
            sys.setswitchinterval(interval)
            thread.join()
