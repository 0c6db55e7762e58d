"""`tabane keys` and `tabane profiles` as a user runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home, hub

PROFILES = """
[profiles.work]
description = "Issues"
allow = ["list_documents", "get_document"]
read_only = true
"""

is_secret = re.compile(r"tbn_[0-9a-z]{8}_[0-9A-Za-z]{49}\n").fullmatch


def write_settings(home: Home, text: str) -> None:
    home.environment["TABANE_CONFIG"] = str(home.folder / "tabane.toml")
    file = home.folder / "tabane.toml"
    file.write_text(text)
    file.chmod(0o600)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.write_servers({})
    write_settings(home, PROFILES)
    with hub(home):
        yield home


def test_a_new_key_is_all_of_the_output_and_is_shown_once(home: Home) -> None:
    assert "tabane keys create" in home.run("keys", "list").succeeded.err
    made = home.run("keys", "create", "ci", "--allow", "@posts", "--allow", "@documents", "--deny", "put_*",
                    "--read-only", "--expires", "90d", "--tier", "premium").succeeded  # fmt: skip
    assert is_secret(made.out)
    assert "Copy the key now" in made.err
    assert "Authorization: Bearer" in made.err
    assert made.out.strip() not in made.err
    shown = [
        home.run("keys", *words).succeeded for words in (("list",), ("show", "ci"), ("show", "ci", "--json"))
    ]
    assert not any(made.out.strip()[13:] in each.out + each.err for each in shown)
    (row,) = shown[0].rows
    assert row[:3] == ["ci", made.out[:12], "active"]
    assert row[3] == "@posts, @documents, but not put_* (read-only)"
    for file in (home.tabane / "logs").rglob("*.log*"):
        assert made.out.strip()[13:] not in file.read_text()


def test_json_has_the_whole_key(home: Home) -> None:
    made = home.json("keys", "create", "program", "--allow", "nothing__*")
    assert is_secret(made["secret"] + "\n")
    assert made["warnings"] == ["nothing__* matches no tool or source that is currently known."]
    shown = home.json("keys", "show", "program")
    assert {**shown, "secret": made["secret"], "warnings": made["warnings"]} == made
    assert "program" in [row["name"] for row in home.json("keys", "list")["results"]]


def test_the_person_of_a_key_is_kept_shown_and_changed(home: Home) -> None:
    made = home.json("keys", "create", "laptop", "--allow", "@docs", "--for", "  Alice Müller ")
    assert made["person"] == "Alice Müller"
    assert home.json("keys", "create", "nobody", "--allow", "@docs")["person"] is None
    people = {row[0]: row[-1] for row in home.run("keys", "list").succeeded.rows}
    assert people["laptop"] == "Alice Müller"
    assert people["nobody"] in ("", "–", "-")
    assert home.json("keys", "update", "laptop", "--tier", "premium")["person"] == "Alice Müller"
    assert home.json("keys", "update", "laptop", "--for", "Bob")["person"] == "Bob"
    home.run("keys", "revoke", "laptop").succeeded  # noqa: B018
    rows = home.json("keys", "list", "--revoked")["results"]
    assert next(row["person"] for row in rows if row["name"] == "laptop") == "Bob"
    wrong = home.run("keys", "create", "x", "--allow", "@docs", "--for", "a\nb")
    assert (wrong.status, "person:" in wrong.err) == (2, True)


def test_a_key_is_changed_and_revoked_by_name_or_prefix(home: Home) -> None:
    made = home.json("keys", "create", "phone", "--profile", "work")
    assert (made["allow"], made["profile"]) == (["*"], "work")
    changed = home.json("keys", "update", "phone", "--allow", "@docs", "--read-only", "--no-profile")
    assert (changed["allow"], changed["read_only"], changed["profile"]) == (["@docs"], True, None)
    said = home.run("keys", "update", made["prefix"], "--read-write", "--expires", "1h").succeeded
    assert ["read-only", "no"] in said.rows
    gone = home.run("keys", "revoke", made["prefix"]).succeeded
    assert gone.out == f"phone ({made['prefix']}) is revoked.\n"
    assert "phone" not in home.run("keys", "list").out
    assert "revoked" in home.run("keys", "list", "--revoked").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "x"), "Say what the key may use: --allow PATTERN"),
        (("create", "x", "--allow", "@post"), "Did you mean @posts?"),
        (("create", "x", "--allow", "*", "--tier", "premum"), "Did you mean premium?"),
        (("create", "x", "--profile", "wrok"), "Did you mean work?"),
        (("create", "x", "--allow", "*", "--expires", "soon"), "Write 90d, 12h"),
        (("revoke", "steadyy"), "Did you mean steady?"),
        (("show", "tbn_zzzz"), "tabane keys list"),
        (("update", "steady"), "Say what to change"),
        (("update", "steady", "--deny", "x", "--no-deny"), "either --deny or --no-deny"),
    ],
)
def test_a_mistake_says_what_to_do(home: Home, words: tuple[str, ...], said: str) -> None:
    if "steady" not in home.run("keys", "list").out:
        home.run("keys", "create", "steady", "--allow", "@docs").succeeded  # noqa: B018
    wrong = home.run("keys", *words)
    assert wrong.status == 2
    assert said in wrong.err
    assert wrong.out == ""


def test_profiles_are_listed_and_follow_their_file(home: Home) -> None:
    write_settings(home, PROFILES)
    (row,) = home.run("profiles", "list").succeeded.rows
    assert (row[0], row[2], row[4], row[5]) == ("work", "list_documents, get_document", "yes", "Issues")
    write_settings(home, PROFILES + "[profiles.home]\ndeny = ['x__*']\n")
    found: list[str] = []
    while found != ["work", "home"]:
        found = [row["name"] for row in home.json("profiles", "list")["results"]]


def test_a_hub_does_not_start_with_a_wrong_profile(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_settings(home, "[profiles.work]\nalow = []\n")
    wrong = home.run("start")
    assert wrong.status == 1
    assert "tabane.toml:2: a profile has no key alow. Did you mean allow?" in wrong.err


def test_a_key_for_the_metrics_alone_is_made_without_a_warning_and_explained(home: Home) -> None:
    made = home.run("keys", "create", "prometheus", "--allow", "metrics").succeeded
    assert is_secret(made.out)
    assert "matches no" not in made.err
    explained = home.run("policy", "explain", "prometheus", "metrics").succeeded
    assert "prometheus may call metrics" in explained.out
