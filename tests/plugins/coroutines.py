"""Tests that are coroutines: each runs on an event loop of its own, with a time limit."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.harness.patience import LONG

LIMIT = 4 * LONG
"""Seconds that only a hang reaches."""


def pytest_pycollect_makeitem(obj: Any) -> None:
    """Let Hypothesis call a coroutine for each example, which it does not do on its own."""
    given = getattr(obj, "hypothesis", None)
    if given is not None and inspect.iscoroutinefunction(given.inner_test):
        given.inner_test = _on_a_loop(given.inner_test)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    _on_a_loop(pyfuncitem.obj)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


def _on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def called(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LIMIT))

    return called
