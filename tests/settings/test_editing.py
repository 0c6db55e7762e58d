"""Changes to the text of tabane.toml."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.settings import OPTIONS, load_settings
from tabane.settings.editing import UnsafeTextEdit, file_value, with_value, without_value
from tabane.settings.option import InvalidSetting, SettingOption

TEXT = """\
# How Tabane is set up here.
lang = "ja"   # for all
list_wait = 5

# Nobody reads them
log_files = 3
reader_allow = [
  "wiki.home",  # ours
  "127.0.0.1:3000",
]

[profiles.work]
# what I need at work
allow = ["github__*"]  # and no more

[tiers.slow]
rate = "1/s"
"""


def option(name: str) -> SettingOption:
    return next(each for each in OPTIONS if each.name == name)


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    changed = with_value(TEXT, ("lang",), "en")
    assert changed == TEXT.replace('lang = "ja"', 'lang = "en"')


def test_a_new_value_is_added_before_the_tables() -> None:
    changed = with_value(TEXT, ("mode",), "full")
    assert tomllib.loads(changed) == {**tomllib.loads(TEXT), "mode": "full"}
    assert [line for line in changed.splitlines() if line not in ('mode = "full"', "")] == [
        line for line in TEXT.splitlines() if line
    ]


def test_a_value_is_removed_with_its_line() -> None:
    assert without_value(TEXT, ("log_files",)) == TEXT.replace("log_files = 3\n", "")


def test_an_empty_file_gets_its_first_value() -> None:
    assert tomllib.loads(with_value("", ("list_wait",), 5)) == {"list_wait": 5}


def test_a_table_is_added_changed_and_removed() -> None:
    added = with_value(TEXT, ("profiles", "home"), {"allow": ["@posts"], "read_only": True})
    assert tomllib.loads(added)["profiles"]["home"] == {"allow": ["@posts"], "read_only": True}
    changed = with_value(added, ("profiles", "work"), {"allow": ["github__*"], "description": "Work"})
    assert "# what I need at work" in changed
    assert "# and no more" in changed
    assert tomllib.loads(without_value(changed, ("profiles", "home")))["profiles"] == {
        "work": {"allow": ["github__*"], "description": "Work"}
    }


def test_the_last_table_leaves_nothing_behind() -> None:
    text = "# mine\n"
    added = with_value(text, ("profiles", "work"), {"allow": ["*"]})
    assert without_value(added, ("profiles", "work")).strip() == text.strip()


def test_a_comment_stays_above_the_table_that_it_is_about() -> None:
    text = "[profiles.a]\nallow = []\n\n# the slow ones\n[tiers.slow]\nrate = '1/s'\n"
    added = with_value(text, ("profiles", "b"), {"allow": ["*"]})
    assert added == text + '\n[profiles.b]\nallow = ["*"]\n'
    changed = with_value(text, ("profiles", "a"), {"allow": [], "read_only": True})
    assert changed == text.replace("allow = []\n", "allow = []\nread_only = true\n")
    assert without_value(text, ("profiles", "a")) == "\n# the slow ones\n[tiers.slow]\nrate = '1/s'\n"


def test_a_number_that_is_none_stays() -> None:
    text = "a = nan\n[profiles.a]\nb = -nan\n"
    assert with_value(text, ("lang",), "en") == 'a = nan\nlang = "en"\n\n[profiles.a]\nb = -nan\n'


def test_line_ends_stay() -> None:
    text = "lang = 'ja'\r\n[profiles.a]\r\nallow = []\r\n"
    changed = with_value(text, ("mode",), "full")
    assert "\n" not in changed.replace("\r\n", "")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(UnsafeTextEdit):
        with_value("# " + "x" * 300_000 + "\n", ("lang",), "en")


def test_values_are_written_with_their_types() -> None:
    assert file_value(option("list_wait"), "5") == 5
    assert file_value(option("list_wait"), 2.5) == 2.5
    assert file_value(option("keyring"), "yes") is True
    assert file_value(option("log_size"), " 64 MiB ") == "64 MiB"
    assert file_value(option("log_size"), 64 << 20) == "64 MiB"
    assert file_value(option("reader_allow"), "a, b") == ["a", "b"]
    assert file_value(option("lang"), "JA") == "ja"
    with pytest.raises(InvalidSetting):
        file_value(option("log_files"), "0")


@pytest.mark.parametrize("each", OPTIONS, ids=lambda each: each.name)
def test_each_default_can_be_written_and_is_read_again(each: SettingOption, tmp_path: Any) -> None:
    if not each.in_file or each.kind == "path" or each.name == "model_key":
        return
    text = with_value("", (each.name,), file_value(each, each.default))
    settings = load_settings({"home": str(tmp_path)}, {}, text=text)
    assert getattr(settings, each.name) == each.default


_keys = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
_comments = st.sampled_from(["", "  # a comment", "# [x] = 'y'", "\t#"])
_values = st.one_of(
    st.integers(-9, 9).map(str),
    st.text(max_size=8).map(lambda text: tomlkit_string(text)),
    st.sampled_from(
        ["true", "1.5", "[1, 2]", '["a",\n  # in a list\n "b" ]', "{ a = 1 }", '"""x\ny"""', "'#'"]
    ),
)


def tomlkit_string(text: str) -> str:
    import tomlkit

    return tomlkit.string(text).as_string()


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Return the text of a TOML file with comments, lists over lines, tables, and odd spaces."""
    lines: list[str] = []
    for key in draw(st.lists(_keys, unique=True, max_size=4)):
        comment = draw(_comments)
        lines.append(f"{key}{draw(st.sampled_from(['=', ' = ', '  =']))}{draw(_values)}{comment}")
        lines += draw(st.lists(st.sampled_from(["", "   ", "# above", "#"]), max_size=2))
    for name in draw(st.lists(_keys, unique=True, max_size=3)):
        head = draw(st.sampled_from(["[profiles.{}]", "[tiers.{}]", "[ limits . {} ] # head", "[[many_{}]]"]))
        lines.append(head.format(name))
        for key in draw(st.lists(_keys, unique=True, max_size=2)):
            lines.append(f"{draw(st.sampled_from(['', '  ']))}{key} = {draw(_values)}{draw(_comments)}")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


def in_order(lines: list[str], among: list[str]) -> bool:
    rest = iter(among)
    return all(any(line == found for found in rest) for line in lines)


@given(text=documents(), value=st.one_of(st.integers(), st.booleans(), st.text(max_size=20)))
def test_everything_else_stays_byte_for_byte(text: str, value: Any) -> None:
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        changed = with_value(text, ("zz_setting",), value)
    except UnsafeTextEdit:
        return
    assert tomllib.loads(changed) == {**before, "zz_setting": value}
    assert in_order(text.splitlines(), changed.splitlines())
    again = without_value(changed, ("zz_setting",))
    assert tomllib.loads(again) == before
    assert in_order(text.splitlines(), again.splitlines())


@given(text=documents(), allow=st.lists(st.text(max_size=9), max_size=3))
def test_a_profile_changes_nothing_else(text: str, allow: list[str]) -> None:
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    if not isinstance(before.get("profiles", {}), dict):
        return
    try:
        changed = with_value(text, ("profiles", "zz-work"), {"allow": allow})
    except UnsafeTextEdit:
        return
    found = tomllib.loads(changed)
    assert found["profiles"].pop("zz-work") == {"allow": allow}
    assert {**found, "profiles": found["profiles"]} == {"profiles": {}, **before}
    assert in_order(text.splitlines(), changed.splitlines())
