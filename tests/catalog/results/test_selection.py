"""What queries find in documents, and what they say if they find nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabane.catalog.results.result_query import ResultQuery
from tabane.catalog.results.selection import answer
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

ISSUES = json.dumps(
    {
        "total": 3,
        "issues": [
            {"id": 1, "state": "open", "title": "起動しない", "size": 2.5},
            {"id": 2, "state": "closed", "title": "slow", "size": 1},
            {"id": 3, "state": "open", "title": "crash", "size": None},
        ],
    }
).encode()
LOG = "\n".join(["INFO 起動", "ERROR disk 12", "INFO ok", "ERROR net 30", "ERROR disk 5", "終わり"]).encode()


def found(document: bytes, **query: Any) -> Any:
    """What a query finds: a value of JSON, or a text."""
    result = answer(ResultQuery(document, document is ISSUES, **query))
    assert result.failure is None, result.failure
    return json.loads(result.found) if result.of_json else result.found.decode()


def refused(document: bytes, **query: Any) -> str:
    """Why a query finds nothing."""
    return str(answer(ResultQuery(document, document is ISSUES, **query)).failure)


@pytest.mark.parametrize(("query", "expected"), CASES["queries_of_json"])
def test_queries_of_json(query: dict[str, Any], expected: Any) -> None:
    assert found(ISSUES, **query) == expected


@pytest.mark.parametrize(("query", "expected"), CASES["queries_of_texts"])
def test_queries_of_texts(query: dict[str, Any], expected: Any) -> None:
    assert found(LOG, **query) == expected


@pytest.mark.parametrize(
    ("document", "query", "said"),
    [
        (ISSUES, {"select": "items[].id"}, ["The result is JSON {total, issues[3]{id, state", "issues[].id"]),
        (ISSUES, {"select": 'issues[?state=="open"] | [0]'}, ["single quotes"]),
        (ISSUES, {"select": "issues[?"}, ["not valid JMESPath", "issues[].id"]),
        (ISSUES, {"select": "sum(issues)"}, ["not valid JMESPath"]),
        (ISSUES, {"select": "&issues"}, ["no value"]),
        (ISSUES, {"lines": "1-3"}, ["select, for example: issues[].id"]),
        (ISSUES, {"regex": "open"}, ["items of a list", "issues[].id"]),
        (ISSUES, {"select": "issues[].title", "aggregate": "sum"}, ["needs numbers", "起動しない"]),
        (ISSUES, {"select": "total", "aggregate": "unique"}, ["needs a list"]),
        (LOG, {"select": "issues"}, ["text of 6 lines", "regex"]),
        (LOG, {"lines": "100-"}, ["only 6 lines"]),
        (LOG, {"lines": "first"}, ['"120-180"', '"first"']),
        (LOG, {"regex": "("}, ["not valid"]),
    ],
)
def test_a_query_that_cannot_be_answered_says_what_to_write(
    document: bytes, query: dict[str, Any], said: list[str]
) -> None:
    failure = refused(document, **query)
    assert all(each in failure for each in said), failure


def test_an_empty_list_comes_with_the_shape_of_the_result() -> None:
    result = answer(ResultQuery(ISSUES, True, "issues[?state=='gone']"))
    assert (result.found, "issues[3]" in str(result.note)) == (b"[]", True)


def test_a_nested_expression_is_refused() -> None:
    assert "not valid" in refused(ISSUES, select="(" * 900 + "total" + ")" * 900)
