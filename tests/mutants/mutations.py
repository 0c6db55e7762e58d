"""Mutations of one line of Python: found in the syntax tree, and made in the text."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

Place = tuple[int, int, int]
"""A line, counted from 1, and the bytes of it from a start to an end."""

LARGEST = 100
"""A larger number is a limit or a size, and one more or less of it is no difference that a user meets."""

_COMPARED = {
    ast.Lt: (b"<", b"<="),
    ast.LtE: (b"<=", b"<"),
    ast.Gt: (b">", b">="),
    ast.GtE: (b">=", b">"),
    ast.Eq: (b"==", b"!="),
    ast.NotEq: (b"!=", b"=="),
    ast.NotIn: (b"not in", b"in"),
    ast.IsNot: (b"is not", b"is"),
}
_JOINED = {ast.And: (b"and", b"or"), ast.Or: (b"or", b"and")}
_ADDED = {ast.Add: (b"+", b"-"), ast.Sub: (b"-", b"+")}
_CALLED = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil"}
_TEXT = (ast.JoinedStr, ast.List, ast.Tuple)
_MESSAGES = re.compile(r"(?:say|warn|(?:logging|_?log(?:ger)?)\.\w+|.*\._?log(?:ger)?\.\w+)$")
_SIZES = re.compile(
    r"(?i)(?:^|_)(?:timeout|patience|seconds|pause|delay|wait|interval|ticks?|backlog|size|bytes"
    r"|buffer|piece|chunk|block)(?:_|s?$)"
)
_KEYWORDS = {"strict", "slots", "frozen", "daemon", "kw_only", "repr"}


@dataclass(frozen=True, order=True)
class Mutation:
    file: str
    line: int
    start: int
    end: int
    kind: str
    new: bytes

    def applied(self, source: bytes) -> bytes:
        lines = source.split(b"\n")
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: self.start] + self.new + old[self.end :]
        return b"\n".join(lines)

    def shown(self, source: bytes) -> str:
        """Return the line before and after."""
        texts = (text.split(b"\n")[self.line - 1].strip().decode() for text in (source, self.applied(source)))
        return " → ".join(texts)


def mutations(file: str, source: bytes) -> tuple[list[Mutation], int]:
    """Return all mutations of a module, and how many numbers were left alone as a size or a time."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    found = {Mutation(file, *place, kind, new) for kind, place, new in finder.found}
    return sorted(found), finder.sizes


def chosen(found: Iterable[Mutation], sources: Mapping[str, bytes], count: int, seed: int) -> list[Mutation]:
    """Return ``count`` mutations, the same for a seed, with modules and kinds as mixed as possible."""
    rest = sorted(found)
    random.Random(seed).shuffle(rest)
    taken: list[Mutation] = []
    used: Counter[str] = Counter()
    while rest and len(taken) < count:
        best = min(rest, key=lambda one: (used[one.file], used[one.kind]))
        rest.remove(best)
        if changes_code(best, sources[best.file]):
            taken.append(best)
            used.update((best.file, best.kind))
    return taken


def changes_code(mutation: Mutation, source: bytes) -> bool:
    """Return whether the mutated module compiles, and to other bytecode."""
    try:
        return bool(_essence(source) != _essence(mutation.applied(source)))
    except SyntaxError:
        return False


def _essence(source: bytes) -> Any:
    def of(code: CodeType) -> Any:
        constants = [of(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
        return code.co_code, code.co_names, code.co_varnames, code.co_flags, constants

    return of(compile(source, "module", "exec", dont_inherit=True))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self._lines = source.split(b"\n")
        self.found: list[tuple[str, Place, bytes]] = []
        self.sizes = 0

    def _text(self, node: ast.expr) -> bytes:
        return self._lines[node.lineno - 1][node.col_offset : node.end_col_offset]

    def _replace(self, kind: str, node: ast.expr | ast.stmt, *texts: bytes) -> None:
        if node.lineno == node.end_lineno:
            place = node.lineno, node.col_offset, node.end_col_offset or 0
            self.found += [(kind, place, text) for text in texts]

    def _operator(self, kind: str, left: ast.expr, right: ast.expr, old: bytes, new: bytes) -> None:
        """Replace the operator before ``right``, which is in the same line as ``right``."""
        start = (left.end_col_offset or 0) if left.end_lineno == right.lineno else 0
        between = self._lines[right.lineno - 1][start : right.col_offset]
        if match := re.fullmatch(rb"[\s)]*(" + re.escape(old) + rb")[\s(]*", between):
            self.found.append((kind, (right.lineno, start + match.start(1), start + match.end(1)), new))

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if isinstance(default, ast.Constant):
                self._replace("default", default, *_others(default, self._text(default)))
        self._visit_all(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assigned([node.target], node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assigned(node.targets, node.value)

    def _assigned(self, targets: Sequence[ast.expr], value: ast.expr | None) -> None:
        names = {_name(target).rpartition(".")[2] for target in targets}
        if "__all__" not in names and value is not None and not self._is_size(names, value):
            self.visit(value)

    def _is_size(self, names: Iterable[str], value: ast.expr) -> bool:
        size = isinstance(value, ast.Constant) and type(value.value) in (int, float)
        size = size and any(_SIZES.search(name) for name in names)
        self.sizes += size
        return size

    def visit_If(self, node: ast.If) -> None:
        if _name(node.test).endswith("TYPE_CHECKING") or "__name__" in ast.dump(node.test):
            self._visit_all(node.orelse)
            return
        self._replace("if", node.test, b"not (" + self._text(node.test) + b")")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, node.comparators, strict=False):
            if type(operator) in _COMPARED:
                self._operator("comparison", left, right, *_COMPARED[type(operator)])
        for operand in operands:
            self._compared_text(operand)
        self.generic_visit(node)

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        self._compared_text(node.value)

    def _compared_text(self, node: ast.expr) -> None:
        for one in node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else [node]:
            if isinstance(one, ast.Constant) and isinstance(one.value, str | bytes):
                self._replace("string", one, *_others(one, self._text(one)))

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator("and/or", left, right, *_JOINED[type(node.op)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        if isinstance(node.op, ast.LShift | ast.Pow | ast.Mult) and all(
            isinstance(one, ast.Constant) for one in sides
        ):
            self.sizes += 1
            return
        texts = any(isinstance(one, _TEXT) or isinstance(_value(one), str | bytes) for one in sides)
        if type(node.op) in _ADDED and not texts:
            self._operator("+/-", *sides, *_ADDED[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _ADDED and not isinstance(node.value, _TEXT):
            old, new = _ADDED[type(node.op)]
            self._operator("+/-", node.target, node.value, old + b"=", new + b"=")
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("not", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        if _MESSAGES.match(name):
            return
        last = name.rpartition(".")[2]
        if last in _CALLED:
            kind = "min/max" if last in ("min", "max") else "rounding"
            self._replace(kind, node.func, name.removesuffix(last).encode() + _CALLED[last].encode())
        self._visit_all([node.func, *node.args])
        for keyword in node.keywords:
            if keyword.arg not in _KEYWORDS and not self._is_size([keyword.arg or ""], keyword.value):
                self.visit(keyword.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _MESSAGES.match(_name(call.func)):
            self._replace("call", node, b"pass")
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not isinstance(node.slice, ast.Slice):
            self.visit(node.slice)
            return
        for end in filter(None, (node.slice.lower, node.slice.upper)):
            self._replace("slice", end, *(b"(%s) %s 1" % (self._text(end), sign) for sign in (b"+", b"-")))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("bool", node, *_others(node, b""))
        elif isinstance(node.value, int):
            self._replace("number", node, *_others(node, b""))

    def visit_Break(self, node: ast.Break) -> None:
        self._replace("break", node, b"continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("break", node, b"break")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it alone: before Python 3.12, what is in it has no place of its own."""


def _others(node: ast.Constant, text: bytes) -> Iterator[bytes]:
    """Yield the source of values beside that of a constant."""
    if isinstance(node.value, bool):
        yield str(not node.value).encode()
    elif isinstance(node.value, int) and node.value <= LARGEST:
        yield from (str(node.value + step).encode() for step in (1, -1))
    elif isinstance(node.value, str | bytes):
        yield text[:-1] + b"~" + text[-1:]


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _name(node: ast.expr) -> str:
    """Return a dotted name, as ``math.ceil``; what is before a dot may be any expression."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
