"""Profiles of the settings file: reading, errors, and changes while they are in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabane.access.permissions import rules_of
from tabane.access.profiles import Profiles, narrowed, read_profiles, usable
from tabane.errors import ConfigurationError, UnknownName
from tabane.operations.caller import LOCAL
from tests.access.targets import CLOSE_ISSUE, PUT_DOCUMENT, READ_ISSUE, SEARCH_POSTS, STOP
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

WORK = """
port = 8765

[profiles.work]
description = "Issues, and nothing that changes them."
allow = ["github__*"]
read_only = true

[profiles.home]
deny = ["github__*"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "tabane.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def profiles_of(path: Path) -> Profiles:
    return Profiles(lambda: read_profiles(path))


def test_profiles_are_read_from_the_settings_file(tmp_path: Path) -> None:
    profiles = profiles_of(written(tmp_path, WORK))
    work, home = profiles.all()
    assert (work.name, home.name) == ("work", "home")
    assert work.definition is not None
    assert work.definition.description == "Issues, and nothing that changes them."
    assert [work.allows(each) for each in (READ_ISSUE, CLOSE_ISSUE, SEARCH_POSTS)] == [True, False, False]
    assert [home.allows(each) for each in (READ_ISSUE, SEARCH_POSTS, STOP)] == [False, True, False]


def test_without_a_file_or_a_table_there_are_no_profiles(tmp_path: Path) -> None:
    assert read_profiles(tmp_path / "tabane.toml") == {}
    assert read_profiles(written(tmp_path, "port = 1\n# profiles\n")) == {}


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, WORK)
    path.chmod(0o666)
    with pytest.raises(ConfigurationError, match="other users can write"):
        read_profiles(path)


@pytest.mark.parametrize(("text", "said"), CASES["a_wrong_table_names_line_and_key"])
def test_a_wrong_table_names_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as raised:
        read_profiles(path)
    assert said in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_change_applies_to_those_who_use_the_profile(tmp_path: Path) -> None:
    profiles = profiles_of(written(tmp_path, WORK))
    access = narrowed(LOCAL, profiles.get("work"))
    before = access.revision
    assert (access.holder, access.label, access.tier) == ("local", "local", "local")
    assert not access.allows(CLOSE_ISSUE)
    written(tmp_path, WORK.replace("read_only = true", ""))
    profiles.reload()
    assert access.allows(CLOSE_ISSUE)
    assert access.revision > before


def test_a_profile_that_was_removed_allows_nothing_until_it_is_back(tmp_path: Path) -> None:
    profiles = profiles_of(written(tmp_path, WORK))
    access = narrowed(LOCAL, profiles.get("work"))
    revisions = [access.revision]
    for text, answer in (("", False), (WORK, True)):
        written(tmp_path, text)
        profiles.reload()
        assert access.allows(READ_ISSUE) == answer
        assert access.sees_server("github") == answer
        revisions.append(access.revision)
    assert revisions == sorted(set(revisions))


def test_a_broken_change_leaves_the_profiles_as_they_were(tmp_path: Path) -> None:
    profiles = profiles_of(written(tmp_path, WORK))
    written(tmp_path, WORK + "color = 1")
    with pytest.raises(ConfigurationError):
        profiles.reload()
    assert profiles.get("work").allows(READ_ISSUE)


def test_an_unknown_profile_names_the_nearest(tmp_path: Path) -> None:
    profiles = profiles_of(written(tmp_path, WORK))
    with pytest.raises(UnknownName, match="Did you mean work") as raised:
        profiles.get("wrok")
    assert raised.value.near == ("work",)
    with pytest.raises(UnknownName, match="tabane profiles list"):
        profiles.get("zzzzzz")
    with pytest.raises(UnknownName, match=r"\[profiles.any\]"):
        profiles_of(written(tmp_path, "")).get("any")


class Narrow:
    """An access of patterns."""

    holder = label = tier = "test"
    everything = False
    revision = 0

    def __init__(self, *allow: str) -> None:
        self._rules = rules_of(allow)
        self.allows, self.sees_server = self._rules.allows, self._rules.sees_server


def test_a_caller_may_use_profiles_that_leave_it_anything(tmp_path: Path) -> None:
    profiles = profiles_of(written(tmp_path, WORK))
    known = [READ_ISSUE, CLOSE_ISSUE, SEARCH_POSTS, PUT_DOCUMENT]

    def names(access: object) -> list[str]:
        return [each.name for each in usable(profiles.all(), access, known)]  # type: ignore[arg-type]

    assert names(LOCAL) == ["work", "home"]
    assert names(Narrow("github__*")) == ["work"]
    assert names(Narrow("@posts")) == ["home"]
    assert names(Narrow("time__*")) == []
