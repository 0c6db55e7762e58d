"""Secrets in plain text in definitions: found, named and replaced by variables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.plain_secrets import plain_secrets, with_variables, without_secrets
from tabane.servers.variables import Variables, each_text, expand
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


@pytest.mark.parametrize(
    ("definition", "changed", "secrets"), CASES["each_place_of_a_secret_gets_a_variable"]
)
def test_each_place_of_a_secret_gets_a_variable(
    definition: dict[str, Any], changed: dict[str, Any], secrets: dict[str, str]
) -> None:
    found = plain_secrets("git-hub", definition)
    assert {secret.wanted: secret.value for secret in found} == secrets
    assert with_variables(definition, [(secret, secret.wanted) for secret in found]) == changed
    hidden = repr(without_secrets("git-hub", definition))
    assert not any(value in hidden for value in secrets.values())
    assert not any(value in repr(found) for value in secrets.values())


@pytest.mark.parametrize("definition", CASES["what_is_a_variable_or_no_secret_stays"])
def test_what_is_a_variable_or_no_secret_stays(definition: dict[str, Any]) -> None:
    assert plain_secrets("x", definition) == ()


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="$"), max_size=12)
NAMES = st.sampled_from(["API_KEY", "TOKEN", "LEVEL", "Authorization", "x"])


@given(
    st.fixed_dictionaries(
        {
            "env": st.dictionaries(NAMES, TEXT),
            "headers": st.dictionaries(NAMES, TEXT.map(lambda text: f"Bearer {text}")),
            "args": st.lists(
                TEXT | st.just("--token") | TEXT.map(lambda text: f"https://a:{text}@h/?key={text}")
            ),
        }
    )
)
def test_a_server_gets_the_same_values_with_variables_as_without(definition: dict[str, Any]) -> None:
    numbered = [(secret, f"V{at}") for at, secret in enumerate(plain_secrets("s", definition))]
    values = Variables({}, {name: secret.value for secret, name in numbered})
    changed = with_variables(definition, numbered)
    assert each_text(changed, lambda text: expand(text, values).text()) == definition
