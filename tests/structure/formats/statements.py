"""The statements in the source that create or change tables, of SQLite and of PostgreSQL."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src" / "tabane"
_TABLE = re.compile(r"(CREATE (UNLOGGED |VIRTUAL )?TABLE|ALTER TABLE|CREATE (UNIQUE )?INDEX) ")


def statements() -> list[str]:
    """Return them in their order, each once, on one line. What is only known when it runs is ``{}``."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for text in _texts(ast.parse(path.read_text())):
            found.update(filter(_TABLE.match, map(_on_one_line, text.split(";"))))
    return sorted(found)


def _texts(tree: ast.AST) -> list[str]:
    """Return the texts of a module, each of its f-strings as one."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(_part(each) for each in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            found.append(node.value)
    return found


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def _on_one_line(statement: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", statement).split())
