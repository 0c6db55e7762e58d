"""`tabane limits` on a real hub."""

from __future__ import annotations

from tests.harness.home import Home, hub


def limited(home: Home, text: str) -> None:
    home.write_servers({"well": home.child()})
    home.write_servers(text, home.servers.with_name("tabane.toml"))


def test_callers_and_shared_limits_are_shown(home: Home) -> None:
    limited(home, '[limits.servers]\nwell = "2/day"\n')
    with hub(home):
        for _ in range(2):
            assert home.run("tools", "call", "well__echo").status == 0
        refused = home.run("tools", "call", "well__echo")
        assert refused.status == 1
        assert "the limit of the server well is 2 calls at once, then 2 a day." in refused.err
        rows = home.run("limits").succeeded.rows
        assert ["local", "local", "–", "0", "0", "1"] in rows
        assert rows[-1] == ["server well", "0", "–", "–"]
        assert home.json("limits", "--holder", "key:nobody")["results"] == []


def test_without_limits_it_says_that_there_are_none(home: Home) -> None:
    limited(home, "")
    with hub(home):
        assert "no limits by default" in home.run("limits").succeeded.err


def test_a_limit_that_could_never_be_met_keeps_the_hub_from_starting(home: Home) -> None:
    limited(home, "[tiers.default]\nconcurrency = 0\n")
    outcome = home.run("start")
    assert outcome.status == 1
    assert "tabane.toml:2: tiers.default.concurrency must be" in outcome.err
