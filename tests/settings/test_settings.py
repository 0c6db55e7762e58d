"""Settings come from flags, environment, tabane.toml or the default, and say which."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.settings import OPTIONS, SettingOption, Settings, SettingSource, load_settings
from tabane.settings.__main__ import settings_page
from tabane.settings.files import config_folder, data_folder
from tabane.settings.groups import GROUPS, grouped
from tabane.settings.option import InvalidSetting, shown, value_of
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

ROOT = Path(__file__).parents[2]


def load(home: Path, toml: str = "", **environ: str) -> Settings:
    """Settings with a settings file of that content, and nothing from the machine the test runs on."""
    return load_settings({}, {"TABANE_HOME": str(home), "TABANE_CONFIG": write(home, toml), **environ})


def write(folder: Path, toml: str) -> str:
    config = folder / "tabane.toml"
    config.write_text(toml)
    config.chmod(0o600)
    return str(config)


def test_without_any_source_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    explained = {entry.name: entry for entry in settings.explain()}
    assert list(explained) == [option.name for option in OPTIONS]
    assert explained["home"].source == SettingSource("environment", "TABANE_HOME")
    for option in OPTIONS:
        if option.kind != "path":
            assert explained[option.name].value == option.default
            assert explained[option.name].source == SettingSource("default")


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    toml = "# a comment\nmode = 'full'\nlist_wait = 4\ngrace = 3\n"
    settings = load_settings(
        {"mode": "light", "servers": None},
        {
            "TABANE_HOME": str(tmp_path),
            "TABANE_CONFIG": write(tmp_path, toml),
            "TABANE_MODE": "search",
            "TABANE_LIST_WAIT": "0.5",
        },
    )
    assert (settings.mode, settings.list_wait, settings.grace) == ("light", 0.5, 3)
    assert settings.sources["mode"] == SettingSource("flag", "--mode")
    assert settings.sources["list_wait"] == SettingSource("environment", "TABANE_LIST_WAIT")
    assert settings.sources["grace"] == SettingSource("file", f"{tmp_path / 'tabane.toml'}:4")


def test_the_servers_file_lies_beside_the_settings_file_unless_named(tmp_path: Path) -> None:
    assert load(tmp_path, "").servers == tmp_path / "mcp-servers.json"
    assert load(tmp_path, "", TABANE_SERVERS="/etc/servers.json").servers == Path("/etc/servers.json")


def test_paths_are_made_absolute_from_the_place_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    config = Path(write(tmp_path / "conf", 'servers = "../here.json"\n'))
    environ = {"TABANE_HOME": "data/x/..", "TABANE_CONFIG": "conf/tabane.toml", "HOME": "/home/hana"}
    settings = load_settings({}, environ)
    assert settings.home == tmp_path / "data"
    assert settings.config == config
    assert settings.servers == tmp_path / "here.json"
    assert load_settings({"servers": "~/s.json"}, environ).servers == Path("/home/hana/s.json")


@pytest.mark.parametrize("given", [None, "", "relative/folder", "{home}/elsewhere"])
def test_files_that_nobody_named_lie_where_the_platform_keeps_them(tmp_path: Path, given: str | None) -> None:
    environ = {"HOME": str(tmp_path)}
    if given is not None:
        environ |= dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME"), given.format(home=tmp_path))
    program = (
        "import platformdirs as p; print(p.user_data_dir('tabane'), p.user_config_dir('tabane'), sep='\\n')"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    settings = load_settings({}, environ)
    assert [str(settings.home), str(settings.config.parent)] == done.stdout.splitlines()
    assert settings.config.name == "tabane.toml"
    assert settings.servers == settings.config.with_name("mcp-servers.json")


def test_on_macos_both_lie_in_the_application_support_folder() -> None:
    environ = {"HOME": "/Users/hana"}
    folder = Path("/Users/hana/Library/Application Support/tabane")
    assert [data_folder(environ, "darwin"), config_folder(environ, "darwin")] == [folder, folder]


def test_an_unknown_key_is_a_warning_that_names_the_near_ones(tmp_path: Path) -> None:
    settings = load(tmp_path, "\nlist-wait = 3\nzzzz = 1\n")
    assert [str(warning) for warning in settings.warnings] == [
        f"{tmp_path / 'tabane.toml'}:2: there is no setting list-wait, so it is ignored. "
        "Did you mean list_wait?",
        f"{tmp_path / 'tabane.toml'}:3: there is no setting zzzz, so it is ignored.",
    ]
    assert settings.list_wait == 2


def test_a_misspelt_variable_is_a_warning_and_others_are_left_alone(tmp_path: Path) -> None:
    settings = load(tmp_path, TABANE_MOED="light", TABANE_URL="ws://x", TABANE_X="1", OTHER="1")
    assert [str(warning) for warning in settings.warnings] == [
        "TABANE_MOED is not a setting of Tabane. Did you mean TABANE_MODE?"
    ]


@pytest.mark.parametrize(
    ("line", "complaint"), CASES["a_value_that_does_not_fit_names_key_line_and_what_is_allowed"]
)
def test_a_value_that_does_not_fit_names_key_line_and_what_is_allowed(
    tmp_path: Path, line: str, complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, f"# first\n{line}\n")
    assert str(raised.value) == f"{tmp_path / 'tabane.toml'}:2: {complaint}"


def test_a_variable_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, TABANE_GRACE="soon")
    assert str(raised.value) == "TABANE_GRACE: grace must be a number from 0 to 600 (seconds), not 'soon'."


def test_the_home_cannot_be_set_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tabane\.toml:1: home cannot .* --home or TABANE_HOME"):
        load_settings({"config": write(tmp_path, "home = '/elsewhere'")}, {})


def test_broken_toml_is_named_with_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, "lang = 'ja'\nmode = \n")
    assert str(raised.value) == f"{tmp_path / 'tabane.toml'}:2:8 is not valid TOML: Invalid value."


def test_a_settings_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    config = tmp_path / "tabane.toml"
    config.write_bytes("lang = 'ja' # 日本語".encode("shift_jis"))
    config.chmod(0o600)
    with pytest.raises(ConfigurationError, match="UTF-8"):
        load_settings({"config": config}, {"TABANE_HOME": str(tmp_path)})


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufefflang = 'ja'\n").lang == "ja"


def test_a_settings_file_that_was_named_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no settings file .*absent\.toml"):
        load(tmp_path, TABANE_CONFIG=str(tmp_path / "absent.toml"))


def test_a_settings_file_that_others_may_write_is_refused_with_how_to_mend_it(tmp_path: Path) -> None:
    config = write(tmp_path, "")
    os.chmod(config, 0o620)
    with pytest.raises(ConfigurationError) as raised:
        load_settings({"config": config, "home": tmp_path}, {})
    assert f"chmod go-w {tmp_path / 'tabane.toml'}" in str(raised.value)


def test_log_level_is_read_from_log_level_after_its_own_variable(tmp_path: Path) -> None:
    assert load(tmp_path, LOG_LEVEL="DEBUG").log_level == "debug"
    assert load(tmp_path, LOG_LEVEL="debug", TABANE_LOG_LEVEL="error").log_level == "error"
    assert load(tmp_path, "log_level = 'trace'", LOG_LEVEL="debug").log_level == "debug"


def test_a_log_level_meant_for_another_program_is_a_warning(tmp_path: Path) -> None:
    settings = load(tmp_path, "log_level = 'trace'", LOG_LEVEL="fatal")
    assert settings.log_level == "trace"
    assert ["LOG_LEVEL=fatal is ignored" in str(warning) for warning in settings.warnings] == [True]


@pytest.mark.parametrize(
    ("text", "size"), [("65536", 65536), ("64 KiB", 65536), ("128MiB", 128 << 20), (" 1 gib ", 1 << 30)]
)
def test_sizes_are_read_with_their_unit(tmp_path: Path, text: str, size: int) -> None:
    assert load(tmp_path, TABANE_MAX_LINE=text).max_line == size
    assert load(tmp_path, f"max_line = '{text}'").max_line == size


@pytest.mark.parametrize(("text", "value"), [("1", True), ("off", False), ("YES", True), ("false", False)])
def test_switches_are_read_from_words(tmp_path: Path, text: str, value: bool) -> None:
    assert load(tmp_path, TABANE_KEYRING=text).keyring is value


def test_the_back_off_must_not_begin_above_its_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="restart_first"):
        load(tmp_path, TABANE_RESTART_FIRST="40")


@pytest.mark.parametrize("origin", CASES["what_is_no_origin_of_a_page_is_refused_with_an_example"])
def test_what_is_no_origin_of_a_page_is_refused_with_an_example(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ConfigurationError, match=r"not the origin of a web page.*http://localhost:3000"):
        load(tmp_path, f'origins = ["https://app.example", "{origin}"]')


def test_origins_are_taken_as_people_write_them(tmp_path: Path) -> None:
    given = (
        "https://App.example/, http://localhost:*, http://[::1]:3000, https://例え.jp, vscode-webview://abc"
    )
    assert len(load(tmp_path, TABANE_ORIGINS=given).origins) == 5


def test_the_flags_that_were_given_start_a_daemon_with_the_same_settings(tmp_path: Path) -> None:
    environ = {"TABANE_CONFIG": write(tmp_path, "")}
    given = {"home": tmp_path, "grace": 2.5, "keyring": True, "mode": "full"}
    flags = load_settings(given, environ).as_flags()
    assert flags == (f"--home={tmp_path}", "--mode=full", "--grace=2.5", "--keyring")
    assert load_settings({**given, "keyring": False}, environ).as_flags()[-1] == "--no-keyring"
    assert load(tmp_path, TABANE_GRACE="2").as_flags() == ()


def test_settings_do_not_change(tmp_path: Path) -> None:
    settings = load(tmp_path)
    with pytest.raises(FrozenInstanceError):
        settings.mode = "full"  # type: ignore[misc]


NUMBERS = [option for option in OPTIONS if option.kind in ("whole", "number", "bytes")]


@given(st.sampled_from(NUMBERS), st.data())
def test_numbers_are_taken_within_their_limits_and_nowhere_else(
    option: SettingOption, data: st.DataObject
) -> None:
    limits = st.sampled_from([option.lowest, option.highest]).map(float if option.kind == "number" else int)
    value = data.draw(st.floats() | limits if option.kind == "number" else st.integers() | limits)
    fits = option.lowest <= value <= option.highest
    try:
        taken = value_of(option, repr(value), typed=False)
    except InvalidSetting:
        taken = None
    assert taken == (value if fits else None)


def test_every_setting_says_what_it_means_and_allows_its_default(tmp_path: Path) -> None:
    for option in OPTIONS:
        assert str(option.help).endswith("."), option.name
        if option.kind != "path":
            environ = {option.environment: shown(option, option.default)}
            assert getattr(load(tmp_path, **environ), option.name) == option.default, option.name


def test_the_page_of_settings_is_the_table_of_settings() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == settings_page(), "write it anew: python -m tabane.settings > docs/settings.md"


def test_the_example_on_the_page_is_read(tmp_path: Path) -> None:
    toml = settings_page().split("```toml\n")[1].split("```")[0]
    settings = load(tmp_path, toml)
    assert not settings.warnings
    assert {name for name, source in settings.sources.items() if source.kind == "file"} == {
        "lang",
        "start_servers",
        "list_wait",
        "max_line",
    }


def test_reading_settings_without_a_file_imports_nothing_that_is_not_needed(tmp_path: Path) -> None:
    program = (
        "import sys; from tabane.settings import load_settings; "
        "load_settings({}, {'HOME': sys.argv[1]}); "
        "print(*sorted({'tomllib', 'difflib', 'platformdirs', 'msgspec', 'json'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_setting_is_in_one_group_and_every_name_of_a_group_has_a_setting() -> None:
    options = [option for _, several in grouped() for option in several]
    assert sorted(option.name for option in options) == sorted(option.name for option in OPTIONS)
    names = [name for group in GROUPS for name in group.names]
    assert len(set(names)) == len(names)
    for name in names:
        assert [o for o in OPTIONS if o.name == name or o.name.startswith(f"{name}_")], name


def test_the_page_has_one_heading_for_each_anchor() -> None:
    anchors = [
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", settings_page(), re.MULTILINE)
        if title != "tabane.toml"
    ]
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\(#([^)]+)\)", settings_page())) <= set(anchors)
