"""Hints for errors of scripts, found by the text of the error: they say what to write instead; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

AWAIT = "A tool is an async function. Write: await {call}"

MODULES = (
    "asyncio (gather, run, sleep), base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, "
    "functools, hashlib, itertools, json, math, random, re, time, typing, unicodedata"
)

_HINTS: Sequence[tuple[str, str]] = (
    (r"support yield expressions", "There are no generators. Append to a list, and return the list."),
    (r"support the 'del' statement", "Use mapping.pop(key) or a new list; a variable can be set to None."),
    (r"class inheritance", "Write functions, or a class without a base class."),
    (r"support async for", "Await the call first, then loop over its result with for."),
    (r"support async context", "Call the function with await, without async with."),
    (r"support exception groups", "Use try and except without the star."),
    (r"support async generators|support async comprehensions", "Use a loop that appends to a list."),
    (r"method decorators|'property' instances", "Write a plain method or function, and call it."),
    (r"support type aliases", "Leave out the type: types are not checked."),
    (r"support template strings", "Write an f-string."),
    (r"gather\(\) does not yet support", "Catch the exception inside the async function that you gather."),
    (
        r"module 'asyncio' has no attribute",
        "asyncio has only gather, run and sleep. Write: await asyncio.gather(*calls)",
    ),
    (r"No module named 'statistics'", "Compute it: sum(values) / len(values)."),
    (
        r"No module named '(requests|httpx|aiohttp|urllib[\w.]*|socket|http[\w.]*)'",
        "A script has no network. Read a page with: from tools import read_url_content",
    ),
    (
        r"No module named '(subprocess|multiprocessing|threading|shutil|ctypes)'",
        "A script cannot start anything.",
    ),
    (r"No module named 'tools\.", "Write: from tools import name"),
    (r"No module named", f"There are only these modules, and tools: {MODULES}."),
    (
        r"from 'tools'",
        "Find the names with search_tools. A server whose name is that of a module here ends with _: time_",
    ),
    (
        r"Permission denied|FileNotFoundError|No such file",
        "A script has no files. Call a tool that has them.",
    ),
    (
        r"'os\.\w+|is not supported in this environment",
        "A script has no operating system: only values and tools.",
    ),
    (r"'coroutine' object|external_future", "An await is missing before the call of an async function."),
    (r"'list' object is not an iterator", "A generator expression is a list. Write: next(iter(values))"),
    (r"can't be awaited|cannot be awaited", "Only calls of async functions are awaited. Leave out await."),
    (r"memory limit exceeded", "Keep less at once: select what you need, and drop the rest."),
    (r"maximum recursion depth", "Use a loop instead of recursion."),
    (r"monty syntax parser does not yet support", "Write it with plain functions, loops and if."),
)

_COMPILED = tuple((re.compile(pattern), hint) for pattern, hint in _HINTS)
_COROUTINE = re.compile(r"<coroutine (external_future\(|object )")


def hint(error: str) -> str:
    """Return what to write instead of what led to an error; empty if nothing is known."""
    return next((hint for pattern, hint in _COMPILED if pattern.search(error)), "")


def shows_coroutine(text: str) -> bool:
    """Return whether a text has the form of a call that was not awaited."""
    return _COROUTINE.search(text) is not None


_MISSING = re.compile(r"module 'tools\.(\w+)' has no attribute '(\w+)'")


def missing_function(error: str) -> tuple[str, str] | None:
    """Return the module of tools and the name that it does not have; None for any other error."""
    found = _MISSING.search(error)
    return (found[1], found[2]) if found else None
