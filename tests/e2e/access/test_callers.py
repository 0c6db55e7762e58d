"""Nobody becomes the local user by omission: whoever makes a caller says what it may do."""

from __future__ import annotations

import ast
from pathlib import Path

import tabane

SOURCE = Path(tabane.__file__).parent
CALLERS = {"Caller", "TokenlessCaller"}


def made(path: Path) -> list[ast.Call]:
    """Return the places of a file where a caller is made."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in CALLERS]


def test_every_caller_in_the_hub_is_given_its_access() -> None:
    found = {path: made(path) for path in sorted((SOURCE / "hub").rglob("*.py"))}
    assert sum(map(len, found.values())) >= 3, "the names of the classes have changed"
    without = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path, calls in found.items()
        for call in calls
        if not any(keyword.arg == "access" for keyword in call.keywords)
    ]
    assert without == []
