"""Assertions of all test files rewritten on all cores before the workers start.

Each worker collects every file. In a fresh clone, each would rewrite them too, which costs more than the
rest of its collection.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

import pytest
from _pytest.assertion import AssertionState, rewrite

from tests.plugins.tiers import ROOT


def pytest_sessionstart(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")
    if sys.platform != "linux" or is_worker or not session.config.getoption("--tier"):
        return
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if not is_rewritten(file)]
    cores = os.cpu_count() or 1
    context = get_context("fork")
    processes = [
        context.Process(target=rewrite_all, args=(session.config, files[number::cores]))
        for number in range(cores)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def compiled(file: Path) -> Path:
    return rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"


def is_rewritten(file: Path) -> bool:
    return rewrite._read_pyc(file, compiled(file)) is not None


def rewrite_all(config: pytest.Config, files: Sequence[Path]) -> None:
    state = AssertionState(config, "rewrite")
    for file in files:
        stat, code = rewrite._rewrite_test(file, config)
        if rewrite.try_makedirs(compiled(file).parent):
            rewrite._write_pyc(state, code, stat, compiled(file))
