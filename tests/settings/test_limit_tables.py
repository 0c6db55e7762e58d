"""Limits in tabane.toml: tiers, tools and servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.settings import load_settings
from tabane.settings.limit_rules import MIB, TIERS, CallCap, CallRate, LimitRules, matches
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


def loaded(folder: Path, text: str) -> LimitRules:
    path = folder / "tabane.toml"
    path.write_text(text)
    path.chmod(0o600)
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "TABANE_HOME": str(folder / "home")}
    return load_settings({"config": str(path)}, environ).limits


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(folder, text)
    return str(caught.value).removeprefix(f"{folder}/")


def test_without_tables_the_tiers_are_those_of_the_table(tmp_path: Path) -> None:
    rules = loaded(tmp_path, "")
    rates = {name: tier.calls for name, tier in rules.tiers.items()}
    assert rates == {
        "local": None,
        "loopback": CallRate(5000, 500.0),
        "default": CallRate(100, 10.0),
        "authenticated": CallRate(1000, 50.0),
        "premium": CallRate(5000, 200.0),
    }
    assert rules.tier("local").unlimited
    assert rules.caps == ()


def test_a_tier_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    rules = loaded(tmp_path, '[tiers.premium]\nburst = 10\nresult_size = "2 MiB"\n')
    assert rules.tier("premium").calls == CallRate(10, 200.0)
    assert rules.tier("premium").concurrency == TIERS["premium"].concurrency
    assert rules.result_size("premium") == 2 * MIB
    assert rules.result_size("default") == TIERS["default"].result_size
    assert rules.result_size("local") is None


def test_a_new_tier_begins_with_the_limits_of_the_default_tier(tmp_path: Path) -> None:
    rules = loaded(tmp_path, '[tiers.ci]\nrate = "600/hour"\nconcurrency = "unlimited"\n')
    assert rules.tier("ci").calls == CallRate(100, 600 / 3600)
    assert rules.tier("ci").concurrency is None
    assert rules.tier("ci").queue == TIERS["default"].queue


def test_a_tier_can_be_unlimited(tmp_path: Path) -> None:
    text = '[tiers.ci]\nrate = "unlimited"\nconcurrency = "unlimited"\nserver_concurrency = "unlimited"\n'
    assert loaded(tmp_path, text).tier("ci").unlimited


def test_tools_and_servers_have_rates_as_people_write_them(tmp_path: Path) -> None:
    text = """
[limits.tools]
"github__*" = "30/minute"
search_everything = 5
"slow__*" = { concurrency = 2, per = "key" }

[limits.servers.github]
rate = "5000 / hour"
burst = 100
"""
    assert loaded(tmp_path, text).caps == (
        CallCap("tool", "github__*", CallRate(30, 0.5)),
        CallCap("tool", "search_everything", CallRate(5, 5.0)),
        CallCap("tool", "slow__*", None, 2, "key"),
        CallCap("server", "github", CallRate(100, 5000 / 3600)),
    )


@pytest.mark.parametrize(
    ("text", "line", "name"), CASES["a_value_that_does_not_fit_is_refused_with_its_line"]
)
def test_a_value_that_does_not_fit_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, name: str
) -> None:
    said = refused(tmp_path, text)
    assert said.startswith(f"tabane.toml:{line}: {name} must be "), said


def test_a_limit_of_nothing_says_what_to_write_instead(tmp_path: Path) -> None:
    assert refused(tmp_path, "[tiers.default]\nconcurrency = 0\n") == (
        "tabane.toml:2: tiers.default.concurrency must be a whole number from 1 to 100000, not 0: this "
        "limit would refuse every call. To forbid tools, use deny in a profile, a key or the servers file. "
        'For no limit: "unlimited".'
    )


@pytest.mark.parametrize("text", ["[tiers.default]\nbrust = 5\n", "[limits]\n\ntool = {}\n"])
def test_an_unknown_key_is_an_error_since_an_ignored_limit_is_none(tmp_path: Path, text: str) -> None:
    assert "has no key" in refused(tmp_path, text)


NAMES = st.text("ab*_", max_size=8)


@given(NAMES, st.text("ab_", max_size=8))
def test_patterns_match_as_their_regular_expression_does(pattern: str, name: str) -> None:
    import re

    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
    assert matches(pattern, name) is expected
