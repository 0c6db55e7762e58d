"""Which tests reach a mutation: the source with a probe at each, and what the probes have noted."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.mutants.mutations import Mutation
from tests.mutants.plugin import SHARED

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def probed(source: bytes, mutations: Mapping[int, Mutation]) -> bytes:
    """Return the source with a probe before each statement that a mutation is in, by the mutation's number.

    A default is reached where its function begins. What a module or a class assigns is reached in each
    function of the module that names it.
    """
    tree = ast.parse(source)
    places: dict[ast.AST, list[int]] = defaultdict(list)
    for number, mutation in mutations.items():
        for statement in _statements(tree, mutation):
            places[statement].append(number)
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list):
                block[:] = [one for old in block for one in (*map(_probe, places.get(old, ())), old)]
    after = sum(_stays_first(statement) for statement in tree.body)
    tree.body[after:after] = ast.parse("from mutants_probe import reached as __reached__").body
    return ast.unparse(ast.fix_missing_locations(tree)).encode()


def _probe(number: int) -> ast.stmt:
    return ast.parse(f"__reached__({number})").body[0]


def _statements(tree: ast.Module, mutation: Mutation) -> list[ast.stmt]:
    inner = list(_path(tree, mutation))[-1]
    if isinstance(inner, _FUNCTIONS):
        return [_first(inner)]
    if not runs_at_import(tree, mutation):
        return [inner]
    names = {
        one.id for one in ast.walk(inner) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    functions = [one for one in ast.walk(tree) if isinstance(one, _FUNCTIONS)]
    return [
        _first(function)
        for function in functions
        if any(getattr(one, "id", getattr(one, "attr", "")) in names for one in ast.walk(function))
    ]


def runs_at_import(tree: ast.Module, mutation: Mutation) -> bool:
    """Return whether the line of a mutation runs when its module is imported, and perhaps never again."""
    return not any(isinstance(one, _FUNCTIONS) for one in _path(tree, mutation))


def _first(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    body = function.body
    return body[1] if len(body) > 1 and _stays_first(body[0]) else body[0]


def _stays_first(statement: ast.stmt) -> bool:
    future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return future or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _path(node: ast.AST, mutation: Mutation) -> Iterator[ast.stmt]:
    """Yield the statements that a mutation is in, from the outermost to the innermost."""
    for statement in _blocks(node):
        end = statement.end_lineno or 0, statement.end_col_offset or 0
        if (statement.lineno, statement.col_offset) <= (mutation.line, mutation.start) < end:
            yield statement
            yield from _path(statement, mutation)


def _blocks(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements directly within a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.excepthandler | ast.match_case):
            yield from _blocks(child)


def reaching_tests(noted: str, tests: Sequence[str]) -> dict[int, set[str]]:
    """Return the tests that reached each mutation. ``tests`` are all of a run, in their order."""
    found: dict[int, set[str]] = defaultdict(set)
    for number, now in (map(int, line.split()) for line in noted.splitlines()):
        if test := now & ~SHARED:  # 0 while modules are imported
            name = tests[test - 1]
            file = f"{name.partition('::')[0]}::"
            found[number] |= {one for one in tests if one.startswith(file)} if now & SHARED else {name}
    return found
