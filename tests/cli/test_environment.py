"""What servers get of a terminal's environment, in hubs of a terminal and of a desktop program."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tabane.cli.bench.temporary_hub import Assistant
from tests.cli.test_doctor import examined, found
from tests.cli.test_install import entry_in, file_of, write
from tests.harness.home import Home, hub
from tests.harness.patience import LONG, wait_until

COMPANY = {
    "HTTPS_PROXY": "http://proxy.example:3128",
    "NO_PROXY": "localhost",
    "npm_config_registry": "https://npm.example/",
    "LANG": "ja_JP.UTF-8",
    "OPENAI_API_KEY": "sk-not-for-everyone",
    "DISPLAY": ":7",
}
"""Variables of a terminal. The last two are no server's business."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.write_servers({"mine": made.child()})
    return made


def environment_of(home: Home, server: str = "mine", **variables: str) -> dict[str, str]:
    """The environment of a running server of the hub that runs at this home."""
    done = home.run("tools", "call", f"{server}__environment", "--json", environment=variables).succeeded
    seen: dict[str, str] = json.loads(done.json["content"][0]["text"])
    return seen


@contextmanager
def desktop_hub(home: Home) -> Iterator[Home]:
    """A hub that a program with windows has started, with next to no environment."""
    entry = entry_in(file_of(home, "cursor"))
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(home.folder), "TABANE_HTTP": "false"}
    bare |= {name: home.environment[name] for name in ("TABANE_HOME", "TABANE_MODEL", "XDG_CONFIG_HOME")}
    assistant = Assistant((entry["command"], *entry["args"]), bare, str(home.folder / "bridge.log"))
    try:
        assistant.open(timeout=LONG)
        yield home
    finally:
        assistant.close()
        home.run("stop")


def install(home: Home, environment: Mapping[str, str]) -> None:
    path = file_of(home, "cursor")
    if not path.exists():
        write(path, "{}")
    home.run("install", "cursor", environment=environment).succeeded  # noqa: B018  (asserts)


def test_a_hub_of_a_desktop_program_gives_its_servers_what_the_terminal_had(home: Home) -> None:
    install(home, COMPANY)
    with desktop_hub(home):
        seen = environment_of(home)
    assert {name: seen.get(name) for name in COMPANY} == {**COMPANY, "OPENAI_API_KEY": None, "DISPLAY": None}
    recorded = (home.tabane / "environment").read_text()
    assert "sk-not-for-everyone" not in recorded


def test_a_hub_of_a_terminal_uses_its_own_environment_and_not_what_is_unset(home: Home) -> None:
    install(home, COMPANY)
    done = home.converse("start", HTTPS_PROXY="http://new.example")
    assert done.status == 0, done.out
    try:
        seen = environment_of(home)
        assert seen["HTTPS_PROXY"] == "http://new.example"
        assert "npm_config_registry" not in seen
        assert "TABANE_TERMINAL" not in seen
    finally:
        home.run("stop")


def test_a_hub_of_a_script_takes_what_it_lacks_from_the_recording(home: Home) -> None:
    install(home, COMPANY)
    with hub(home):
        seen = environment_of(home)
    assert seen["npm_config_registry"] == COMPANY["npm_config_registry"]
    assert seen["LANG"] == home.environment["LANG"]


def test_a_proxy_with_a_password_is_taken_from_the_secrets_and_reaches_no_running_server(home: Home) -> None:
    secret = {"HTTPS_PROXY": "http://hana:s3cr3t-pass@proxy.example:3128"}
    install(home, secret)
    assert "s3cr3t" not in (home.tabane / "environment").read_text()
    noted = found(examined(home, "--quick"), "contain credentials", "note")
    assert "HTTPS_PROXY" in noted["title"]
    secrets = home.tabane / "secrets.env"
    secrets.write_text(f"HTTPS_PROXY={secret['HTTPS_PROXY']}\n")
    secrets.chmod(0o600)
    with desktop_hub(home):
        assert "HTTPS_PROXY" not in environment_of(home)
        shown = home.json("servers", "show", "mine")
    assert shown["download_environment"] == ["HTTPS_PROXY"]
    titles = [row["title"] for row in examined(home, "--quick").json["findings"]]
    assert not any("contain credentials" in title for title in titles)


def test_variables_are_inherited_by_settings_and_by_server_without_a_restart(home: Home) -> None:
    hub_has = {"AWS_REGION": "r", "AWS_SECRET_ACCESS_KEY": "aws-key-of-the-hub", "MINE_TOKEN": "t0ken-mine"}
    home.environment |= hub_has
    home.write_servers({"mine": home.child(), "other": {**home.child(), "inherit": ["MINE_*"]}})
    config = home.servers.parent / "tabane.toml"
    with hub(home):
        assert not hub_has.keys() & environment_of(home).keys()
        assert environment_of(home, "other")["MINE_TOKEN"] == "t0ken-mine"
        config.write_text('inherit = ["AWS_*"]\n')
        config.chmod(0o600)
        wait_until(lambda: "AWS_REGION" in environment_of(home), "the settings in force")
        assert "AWS_REGION" in environment_of(home, "other")
        assert "MINE_TOKEN" not in environment_of(home)
        shown = home.json("servers", "show", "mine")
        assert {"AWS_REGION", "AWS_SECRET_ACCESS_KEY"} <= set(shown["environment"])
        assert "MINE_TOKEN" in shown["withheld_environment"]
        home.write_servers({"mine": home.child(), "other": {**home.child(), "inherit": []}})
        wait_until(lambda: "MINE_TOKEN" not in environment_of(home, "other"), "the servers file in force")


def test_an_inherited_secret_is_hidden_in_the_log_of_its_server(home: Home) -> None:
    home.environment["MINE_TOKEN"] = "t0ken-of-mine"
    home.write_servers({"mine": {**home.child(), "inherit": ["MINE_*"]}})
    with hub(home):
        home.run("tools", "call", "mine__log", "text=the token is t0ken-of-mine!").succeeded  # noqa: B018  (asserts)
        log = home.tabane / "logs" / "servers" / "mine.log"
        wait_until(lambda: log.exists() and "the token is" in log.read_text(), "the line in the log")
        wait_until(lambda: "the token is ***!" in log.read_text(), "the line is whole")
        assert "t0ken-of-mine" not in home.run("servers", "show", "mine").out


@pytest.mark.heavy("real commands, a hub and servers")
def test_the_recording_is_no_reason_to_read_other_settings(home: Home) -> None:
    """A recorded XDG_CONFIG_HOME is for servers: the hub keeps the files that it was started with."""
    elsewhere = home.folder / "elsewhere" / "tabane"
    elsewhere.mkdir(parents=True)
    (elsewhere / "tabane.toml").write_text('inherit = ["OTHER_*"]\n')
    (elsewhere / "tabane.toml").chmod(0o600)
    install(home, {**COMPANY, "XDG_CONFIG_HOME": str(elsewhere.parent)})
    bare = {name: home.environment[name] for name in ("PATH", "HOME", "TABANE_HOME", "TABANE_MODEL")}
    home.environment = {
        **bare,
        "TABANE_HTTP": "false",
        "OTHER_NAME": "o",
        "TABANE_SERVERS": str(home.servers),
    }
    with hub(home):
        assert environment_of(home)["XDG_CONFIG_HOME"] == str(elsewhere.parent)
        home.write_servers({"mine": home.child(), "new": home.child()})
        wait_until(lambda: home.run("tools", "call", "new__environment").status == 0, "the reload")
        assert "OTHER_NAME" not in environment_of(home, "new")
        checked = home.run("jobs", "follow", home.json("rpc", "run_doctor")["job"], "--json").succeeded.out
        assert "Settings: defaults" in checked
        assert str(elsewhere) not in checked


# -- the doctor ------------------------------------------------------------------------------------


def test_the_doctor_names_what_servers_get_and_shows_no_value(home: Home) -> None:
    certificate = str(home.folder / "gone.pem")
    given = {**COMPANY, "SSL_CERT_FILE": certificate, "TABANE_LANG": "en"}
    given["UV_INDEX"] = "c=https://hana:pa55@example/simple"
    done = examined(home, "--quick", environment=given)
    assert "HTTPS_PROXY" in found(done, "Servers get these variables", "ok")["title"]
    assert "UV_INDEX" in found(done, "Only downloads", "ok")["title"]
    withheld = found(done, "Servers do not get", "note")
    assert "DISPLAY, OPENAI_API_KEY" in withheld["title"]
    assert "inherit" in withheld["mend"]
    assert certificate in found(done, "which does not exist", "warning")["title"]
    assert "pa55" not in done.out
    assert "sk-not" not in done.out
    assert "npm.example" not in done.out


@pytest.mark.heavy("real commands, a hub and servers")
def test_the_doctor_says_what_is_out_of_date_and_removes_it_when_asked(home: Home) -> None:
    install(home, COMPANY)
    left = {name: value for name, value in COMPANY.items() if name != "HTTPS_PROXY"}
    left["TABANE_LANG"] = "en"
    stale = found(examined(home, "--quick", environment=left), "not set here", "note")
    assert "HTTPS_PROXY" in stale["title"]
    assert not stale["fixable"], "a job of cron has few variables"
    left["TERM"] = "xterm"
    assert found(examined(home, "--quick", environment=left), "not set here", "note")["fixable"]
    mended = examined(home, "--quick", "--fix", environment=left).json
    assert any("HTTPS_PROXY" in title for title in mended["mended"])
    with desktop_hub(home):
        seen = environment_of(home)
    assert "HTTPS_PROXY" not in seen
    assert seen["npm_config_registry"] == COMPANY["npm_config_registry"]


def test_the_doctor_speaks_japanese_of_it(home: Home) -> None:
    given = {**COMPANY, "TABANE_LANG": "ja"}
    done = examined(home, "--quick", environment=given)
    assert "OPENAI_API_KEY" in found(done, "サーバーに渡さない環境変数", "note")["title"]


def test_the_recording_is_written_by_the_doctor_too(home: Home) -> None:
    examined(home, "--quick", environment=COMPANY)
    assert "HTTPS_PROXY" in json.loads((home.tabane / "environment").read_text())["variables"]
    assert os.stat(home.tabane / "environment").st_mode & 0o777 == 0o600
