"""A package of Tabane that is replaced while its hub runs, as ``pip install -U`` does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.e2e.upgrades.earlier import Earlier, interpreter
from tests.harness.bridge import BridgeClient
from tests.harness.home import Outcome
from tests.harness.user import User

KEPT = frozenset({"cli"})
"""Rooms that :func:`move_rooms` leaves where they are."""


class PackageInPlace:
    """The package that one interpreter of a user imports. Each command is a new process of it."""

    def __init__(self, user: User, folder: Path) -> None:
        self._user, self._site = user, folder / "site" / "packages"
        self._site.mkdir(parents=True)
        self._python = interpreter(self._site)

    @property
    def package(self) -> Path:
        return self._site / "tabane"

    def install(self, source: Path, commit: str, *, moved: bool = False) -> None:
        """Put the package of that source where the former one is: its modules vanish, and others appear."""
        shutil.rmtree(self.package, ignore_errors=True)
        shutil.copytree(source / "tabane", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        if moved:
            move_rooms(self.package)
        (self.package / "COMMIT").write_text(commit + "\n")

    def install_earlier(self, version: Earlier, code: Path) -> None:
        self.install(version.unpacked(code), version.commit)

    def install_this(self, commit: str, *, moved: bool = False) -> None:
        """Install this code. ``moved``: with other names of its rooms, as a later version may have them."""
        self.install(ROOT / "src", commit, moved=moved)

    def run(self, *arguments: str) -> Outcome:
        return self._user.run(*arguments, python=(self._python,))

    def json(self, *arguments: str) -> Any:
        return self.run(*arguments, "--json").succeeded.json

    def client(self) -> BridgeClient:
        return self._user.client(python=self._python)

    def assistant(self) -> BridgeClient:
        return self._user.assistant(python=self._python)


def move_rooms(package: Path) -> None:
    """Rename the rooms of a package, and what imports them or names a place in them. It works as before."""
    rooms = [path.parent.name for path in package.glob("*/__init__.py") if path.parent.name not in KEPT]
    for name in rooms:
        (package / name).rename(package / f"later_{name}")
    names = "|".join(rooms)
    dotted, place = re.compile(rf"\btabane\.({names})\b"), re.compile(rf'"({names})((?:\.\w+)+:)')
    together = re.compile(r"\bfrom tabane import ([^\n(]+)")
    for path in package.rglob("*.py"):
        text = path.read_text()
        found = place.sub(r'"later_\1\2', dotted.sub(r"tabane.later_\1", text))
        found = together.sub(lambda line: _imported(line[1], rooms), found)
        if found != text:
            path.write_text(found)


def _imported(names: str, rooms: list[str]) -> str:
    listed = [
        f"later_{name} as {name}" if name in rooms else name for name in map(str.strip, names.split(","))
    ]
    return f"from tabane import {', '.join(listed)}"
