"""Tables of cases as data: the TOML file beside a module of tests."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def cases_beside(module: str) -> dict[str, list[Any]]:
    """Return the tables of the file beside ``module``: for each test a list with a row for each case."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))
