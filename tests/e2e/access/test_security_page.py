"""docs/security.md names tests that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "security.md"


@pytest.mark.heavy("hubs and servers as processes")
def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())
    assert len(named) > 30
    missing = [f"{path}::{name}" for path, name in named if name not in _functions(path)]
    assert missing == []


def _functions(path: str) -> set[str]:
    file = ROOT / path
    if not file.exists():
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
