"""The build that runs: its version, the commit it was made from, and the folder of its code.

The bridge asks for it first, so this module knows the standard library only and reads files; it never
runs git.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from tabane import __version__

COMMIT_FILE = "COMMIT"
"""The file beside this module that names the commit in a package; `hatch_build.py` writes it."""

MOST_BYTES = 1 << 20
"""Bytes of a file of git that are read; a list of packed references may be long."""

SHORT = 7
"""Digits of a commit that are shown."""

_DIGITS = frozenset("0123456789abcdef")


class Build(NamedTuple):
    """``version`` is the release; ``commit`` is its full hash, empty if it is not known.

    ``code`` is the real path of the package. Two builds of one checkout have the same path.
    """

    version: str
    commit: str
    code: str

    @property
    def name(self) -> str:
        """``0.2.0+g84d86c5``, or the version alone."""
        return f"{self.version}+g{self.commit[:SHORT]}" if self.commit else self.version


@cache
def this_build() -> Build:
    """Return the build of this process, as it was when this was first asked for."""
    return on_disk()._replace(version=__version__)


def on_disk() -> Build:
    """Return the build as the files say now: they may change under a process.

    ``version`` is empty while the package is not there, as in the middle of an update.
    """
    code = os.path.dirname(os.path.realpath(__file__))
    return Build(_version_of(code), commit_of(code), code)


def is_checkout(code: str) -> bool:
    """Return whether the package in that folder is that of a checkout, which its user changes by hand."""
    source = os.path.dirname(code)
    return os.path.basename(source) == "src" and os.path.exists(os.path.join(os.path.dirname(source), ".git"))


def was_replaced(error: Exception | None = None) -> bool:
    """Return whether the package was replaced while this process runs, as an update in place does.

    A failed import of one of our own modules says so, too: it is the ``error``.
    """
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "tabane":
        return True
    return on_disk() != this_build()


def newer(version: str, other: str) -> bool:
    """Whether ``version`` is a later release than ``other``. Pre-releases come before their release."""
    return _release_numbers(version) > _release_numbers(other)


def commit_of(code: str) -> str:
    """Return the commit of the package in that folder; empty if it is not known.

    In a checkout (``ROOT/src/tabane``), it is the commit of ``ROOT/.git``, otherwise that of
    :data:`COMMIT_FILE`.
    """
    source = os.path.dirname(code)
    if os.path.basename(source) == "src":
        found = _head(os.path.join(os.path.dirname(source), ".git"))
        if found:
            return found
    return _hash(_read(os.path.join(code, COMMIT_FILE)))


def _version_of(code: str) -> str:
    _, _, rest = _read(os.path.join(code, "__init__.py")).partition('\n__version__ = "')
    return rest.partition('"')[0]


def _head(git: str) -> str:
    """Return the commit checked out; ``git`` is the repository's folder, or the file of a worktree."""
    if os.path.isfile(git):
        link = _read(git).removeprefix("gitdir:").strip()
        git = os.path.join(os.path.dirname(git), link)
    head = _read(os.path.join(git, "HEAD")).strip()
    if not head.startswith("ref:"):
        return _hash(head)
    name = head.removeprefix("ref:").strip()
    shared = os.path.join(git, _read(os.path.join(git, "commondir")).strip())
    return _hash(_read(os.path.join(shared, name))) or _packed(shared, name)


def _packed(shared: str, name: str) -> str:
    for line in _read(os.path.join(shared, "packed-refs")).splitlines():
        commit, _, reference = line.partition(" ")
        if reference == name:
            return _hash(commit)
    return ""


def _hash(text: str) -> str:
    text = text.strip()
    return text if len(text) in (40, 64) and _DIGITS.issuperset(text) else ""


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _release_numbers(version: str) -> tuple[list[int], bool]:
    numbers: list[int] = []
    public = version[:64].partition("+")[0]
    for part in public.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            numbers.append(int(digits))
        if digits != part:
            return _without_zeros(numbers), False
    return _without_zeros(numbers), True


def _without_zeros(numbers: list[int]) -> list[int]:
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers
