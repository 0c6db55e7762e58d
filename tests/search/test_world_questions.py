"""Questions about the world are told by their form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.search.world_questions import world_concept, world_likelihood
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


@pytest.mark.parametrize("query", CASES["world"])
def test_a_question_about_the_world_is_likely_one(query: str) -> None:
    assert world_likelihood(query) >= 0.5


@pytest.mark.parametrize("query", CASES["requests"])
def test_a_request_to_do_something_is_none(query: str) -> None:
    assert world_likelihood(query) == 0.0


def test_a_long_request_is_one_less_likely() -> None:
    short = "find reviews of the camera"
    assert world_likelihood(short + " that my colleague wants to buy for her trip" * 3) < world_likelihood(
        short
    )


@given(st.text(max_size=300))
def test_any_text_has_a_likelihood_and_a_concept(text: str) -> None:
    assert 0.0 <= world_likelihood(text) <= 1.0
    assert world_concept(text, 0.5).variants
