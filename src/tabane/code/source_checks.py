"""Checks of the source of a script before it runs: names that it uses, calls without an await; pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_AT_ONCE = 4_096
"""Characters of a source above which it is read in a thread."""

_DYNAMIC = frozenset(
    {"getattr", "dir", "vars", "globals", "locals", "eval", "exec", "__import__", "__dict__"}
)

_USES: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Expr: ("value",),
    ast.Attribute: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.Compare: ("left", "comparators"),
    ast.FormattedValue: ("value",),
    ast.For: ("iter",),
    ast.comprehension: ("iter",),
    ast.If: ("test",),
    ast.While: ("test",),
    ast.IfExp: ("test",),
    ast.Assert: ("test",),
}
"""Where a value is used at once, so that a call there has no other chance to be awaited."""


class ScriptSource(NamedTuple):
    """``names`` are all that the source uses; ``dynamic``: it may use others, too.

    ``used_at_once`` has the places of calls whose value is used without an await, as offsets in bytes.
    ``unawaited`` names a function of the script itself that is called so, with the line.
    """

    code: str
    names: frozenset[str] = frozenset()
    dynamic: bool = True
    used_at_once: frozenset[tuple[int, int]] = frozenset()
    unawaited: tuple[str, int] | None = None

    def uses(self, name: str) -> bool:
        return self.dynamic or name in self.names


def read_source(code: str) -> ScriptSource:
    """Return what a source says. One that Python cannot parse says nothing: the sandbox reports its error."""
    code = code.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ScriptSource(code)
    nodes = list(ast.walk(tree))
    names = frozenset(name for node in nodes for name in _names(node))
    starts = _line_starts(code)
    lost = [call for node in nodes for call in _lost_calls(node)]
    places = frozenset(_place(call, starts) for call in lost)
    own = {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}
    own -= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    missing = [(call.func.id, call.lineno) for call in lost if isinstance(call.func, ast.Name)]
    unawaited = next((each for each in missing if each[0] in own), None)
    return ScriptSource(code, names, bool(names & _DYNAMIC) or "*" in names, places, unawaited)


def _place(call: ast.Call, starts: list[int]) -> tuple[int, int]:
    end = starts[(call.end_lineno or call.lineno) - 1] + (call.end_col_offset or 0)
    return starts[call.lineno - 1] + call.col_offset, end


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield from node.name.split(".")


def _lost_calls(node: ast.AST) -> Iterator[ast.Call]:
    for field in _USES.get(type(node), ()):
        value = getattr(node, field)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.Call):
                yield each


def _line_starts(code: str) -> list[int]:
    starts = [0]
    for line in code.encode("utf-8", "surrogatepass").split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts
