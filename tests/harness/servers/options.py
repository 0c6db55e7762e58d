"""The options of child.py.

They are read without argparse, which costs half of the start of a process that thousands of tests start.
"""

from __future__ import annotations

from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

ERAS = ("legacy", "modern", "dual")
ANSWERS = ("error", "invalid", "silent", "exit")
BANNER = "Server is ready."
FLAGS = (
    *("--silent", "--duplicate", "--endless-cursor", "--no-tools", "--extras", "--noise", "--wrong-ids"),
    *("--twice", "--unasked", "--ignore-eof", "--ignore-term", "--deaf", "--stubborn"),
    *("--offers", "--quiet-lists", "--junk", "--folders"),
)


class Options(SimpleNamespace):
    """A value for each option: ``--slow-start`` is ``slow_start``."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def parsed(arguments: Sequence[str]) -> Options:
    """Return the options. Raises ValueError if one is unknown, has no value, or one that does not fit."""
    values = {name: default for name, (default, _) in VALUES.items()} | dict.fromkeys(FLAGS, False)
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        if name in FLAGS:
            values[name] = True
        elif name == "--banner" and (not rest or rest[0].startswith("--")):
            values[name] = BANNER
        elif name in VALUES and rest:
            values[name] = VALUES[name][1](rest.pop(0))
        else:
            raise ValueError(f"unknown option, or one without its value: {name}")
    return Options(**{name[2:].replace("-", "_"): value for name, value in values.items()})


def _listed(text: str) -> list[str]:
    return text.split(",") if text else []


def _one_of(choices: Sequence[str]) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text} is none of {', '.join(choices)}")
        return text

    return chosen


VALUES: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "--era": ("legacy", _one_of(ERAS)),
    "--versions": (["2025-06-18", "2025-11-25"], _listed),
    "--discover": ("error", _one_of(ANSWERS)),
    "--name": ("child", str),
    "--instructions": (None, str),
    "--slow-start": (0.0, float),
    "--ask-at-start": (None, str),
    "--tools": (0, int),
    "--schemas": (None, str),
    "--definitions": (None, str),
    "--page-size": (0, int),
    "--list-after": (None, str),
    "--banner": (None, str),
    "--babble": (0, int),
    "--close-stdout": (None, int),
    "--stderr": (None, str),
    "--flood-stderr": (None, int),
    "--exit": (None, int),
    "--crash-after": (None, int),
    "--grandchildren": ([], _listed),
    "--pids": (None, str),
    "--ttl": (60_000, int),
    "--extension": (None, str),
    "--skills": (None, _listed),
    "--uris": (["memo://one"], _listed),
    "--templates": (["memo://{n}"], _listed),
    "--unknown": ([], _listed),
    "--broken": ([], _listed),
    "--secret": ([], _listed),
}
"""What each option with a value is by default, and how its value is read."""
