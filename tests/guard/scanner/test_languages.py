"""Attacks and honest near misses in each language, as its speakers put them."""

from __future__ import annotations

import json

import pytest

from tabane.guard.scanner.findings import Finding
from tabane.guard.scanner.scanner import DefinitionScanner
from tabane.guard.scanner.vocabulary import LANGUAGES
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


def found_in(description: str) -> tuple[Finding, ...]:
    definition = json.dumps({"name": "work", "description": description}).encode()
    return DefinitionScanner().scan("server", "tool", "work", definition, (), ("list_memos",))


def descriptions(kind: str) -> list[object]:
    return [
        pytest.param(text, id=f"{name}-{at}")
        for name, one in CASES.items()
        for at, text in enumerate(dict(one)[kind])
    ]


@pytest.mark.parametrize("description", descriptions("attacks"))
def test_an_attack_is_found(description: str) -> None:
    assert found_in(description)


@pytest.mark.parametrize("description", descriptions("honest"))
def test_an_honest_description_is_not(description: str) -> None:
    assert found_in(description) == ()


def test_every_language_has_cases() -> None:
    assert set(CASES) == {"en", *LANGUAGES}
