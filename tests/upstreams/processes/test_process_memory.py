"""The memory of a server is that of all its processes."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.operations.server_operations import ProcessMemory

PAGE = os.sysconf("SC_PAGE_SIZE")


def stat(pid: int, parent: int, group: int, session: int, pages: int) -> bytes:
    """A text of /proc/PID/stat; the name of the command is made to confuse."""
    fields = ["S", parent, group, session, *range(17), pages, *range(20)]
    return f"{pid} (a) S 1) {' '.join(map(str, fields))}".encode()


def test_descendants_count_and_so_does_an_orphan_in_the_group() -> None:
    memory = ProcessMemory(
        {
            1: stat(1, 0, 1, 1, 1000),
            10: stat(10, 1, 10, 10, 1),
            11: stat(11, 10, 10, 10, 2),
            12: stat(12, 11, 12, 12, 4),  # a session of its own, but a child
            13: stat(13, 1, 10, 10, 8),  # its parent has ended
            20: stat(20, 1, 20, 20, 100),
            30: b"30 (ended",
        }
    )
    assert memory.of([10]) == 15 * PAGE
    assert memory.of([10, 11, 20]) == 115 * PAGE
    assert memory.of([30, 99]) is None
    assert memory.of([]) is None


@given(
    st.dictionaries(st.integers(1, 9), st.tuples(*(st.integers(0, 9) for _ in range(3)))),
    st.lists(st.integers(0, 9)),
)
def test_each_process_counts_once_whatever_the_table_says(
    table: dict[int, tuple[int, int, int]], pids: list[int]
) -> None:
    memory = ProcessMemory({pid: stat(pid, *ids, 1) for pid, ids in table.items()})
    assert (memory.of(pids) or 0) <= len(table) * PAGE
