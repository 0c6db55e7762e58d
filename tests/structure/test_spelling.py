"""American spelling of names, comments and docstrings in the source, except words that are stored or sent."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.plugins.tiers import ROOT

SOURCE = ROOT / "src" / "tabane"
BRITISH = re.compile(
    r"analys(?:ed|er?|ing)|artefacts?|behaviours?|cancell(?:ed|ing)|catalogues?|centre[ds]?|colou?red|colours?"
    r"|defence|favou?rites?|favours?|grey|honou?red|honours?|judgement|labell(?:ed|ing)|learnt|levelled|licence"
    r"|misspelt|modelling|neighbou?ring|neighbours?|signalled|spelt|towards|whilst"
    r"|(?:authori|emphasi|initiali|maximi|minimi|normali|organi|quanti|recogni|seriali|summari|synchroni|tokeni|utili)"
    r"s(?:e[drs]?|ing|ation)",
    re.IGNORECASE,
)
AMERICAN = frozenset({"colored", "favorite", "favorites", "honored", "neighboring"})
KEPT = {
    "cancelled": "a state of tasks, an outcome in audit and usage, a notification of MCP, asyncio",
    "catalogue": "the setting catalogue_size, the file catalogue.db",
    "quantisation": "the setting model_quantisation, a member of stored models and of answers",
}
"""Words that names keep, and why. In prose they stand in backticks or quotation marks."""
KEPT_NAMES = frozenset(
    {"cancelled", "CancelledError", "CANCELLED", "catalogue_size", "quantisation", "model_quantisation"}
)

_QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"\n]*\"", re.DOTALL)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def docstring_starts(tree: ast.AST) -> set[tuple[int, int]]:
    """Return line and column of each docstring, those behind a constant among them."""
    return {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def british_words(text: str) -> Iterator[str]:
    """Yield the British words in the names and the prose of a module, each with its line."""
    starts = docstring_starts(ast.parse(text))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        prose = ""
        if token.type == tokenize.NAME and token.string.lstrip("_") not in KEPT_NAMES:
            prose = token.string
        elif token.type == tokenize.COMMENT:
            prose = _QUOTED.sub("", token.string)
        elif token.type == tokenize.STRING and token.start in starts:
            prose = _QUOTED.sub("", token.string[3:-3])
        for word in _WORD.findall(prose):
            if BRITISH.fullmatch(word) and word.lower() not in AMERICAN:
                yield f"{token.start[0]}: {token.string if token.type == tokenize.NAME else word}"


@pytest.mark.heavy("reads every module of the source")
def test_names_and_prose_are_american() -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{word}"
        for file in sorted(SOURCE.rglob("*.py"))
        for word in british_words(file.read_text())
    ]
    assert found == []


def test_a_british_word_is_found() -> None:
    text = '"""The colour of ``cancelled``."""\n\n_neighbours = 1  # cancelled\ncancelled = 2\n'
    assert list(british_words(text)) == ["1: colour", "3: _neighbours", "3: cancelled"]
