"""The types that the source decodes bytes into, so that no format is written and forgotten in formats.py."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import inspect

SOURCE = Path(__file__).parents[3] / "src"
_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.NamedTupleType)


def decoded_types() -> dict[type, str]:
    """Return the classes with members that something decodes, and a place that does, without sites' APIs."""
    found: dict[type, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "decode(" not in text and "Decoder(" not in text:
            continue
        wanted = list(_expressions(ast.parse(text)))
        if not wanted or "sites" in path.parts:
            continue
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        module = vars(importlib.import_module(name))
        for line, expression in wanted:
            for kind in _classes(_evaluated(expression, module)):
                found.setdefault(kind, f"{name}:{line}")
    return found


def _expressions(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Yield what stands as a type in calls of ``decode`` and ``Decoder``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "Decoder" and node.args:
            yield node.lineno, node.args[0]
        elif node.func.attr == "decode":
            yield from ((node.lineno, each.value) for each in node.keywords if each.arg == "type")


def _evaluated(expression: ast.expr, module: dict[str, Any]) -> Any:
    """Return the type; None if only a function knows it."""
    try:
        return eval(ast.unparse(expression), module)
    except NameError:
        return None


def _classes(kind: Any) -> Iterator[type]:
    if kind is None:
        return
    info = inspect.type_info(kind)
    parts = info.types if isinstance(info, inspect.UnionType) else (info,)
    for part in parts:
        inner = getattr(part, "item_type", None) or getattr(part, "value_type", None) or part
        if isinstance(inner, _OBJECTS):
            yield inner.cls
