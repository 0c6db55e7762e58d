"""Each client's file: installing and uninstalling gives back every byte, and never touches anything else."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments, ConfigurationError
from tabane.servers.assistants import installation
from tabane.servers.assistants.formats import at_path, format_of
from tabane.servers.assistants.table import CLIENTS, Client, ClientFile, UserMachine
from tests.servers.assistants.surroundings import layouts, samples, texts

WRITTEN = [client for client in CLIENTS if client.user is not None]
LAUNCHER, ARGUMENTS = ["/opt/タバネ dir/tabane"], ["--mode", "full"]


def user_file(client: Client, home: Path, platform: str = sys.platform) -> ClientFile:
    file = client.user_file(UserMachine(platform, home))
    assert file is not None
    return file


def entry(file: ClientFile, launcher: list[str] = LAUNCHER, name: str = "tabane") -> dict[str, Any]:
    return installation.entry(file.place, name, launcher, ARGUMENTS)


def other_servers(file: ClientFile) -> dict[str, Any]:
    return {name: part for name, part in installation.installed(file).items() if name != "tabane"}


def both_ways(file: ClientFile, before: bytes, home: Path) -> None:
    """Install, install again, uninstall; compare each byte and each other server."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(before)
    others = other_servers(file)
    try:
        installation.install(file, "tabane", entry(file))
    except ConfigurationError:
        assert file.path.read_bytes() == before, "a file that is refused is left as it was"
        return
    assert installation.installed(file)["tabane"] == entry(file)
    assert other_servers(file) == others
    written = file.path.read_bytes()
    assert installation.install(file, "tabane", entry(file)).status == "unchanged"
    assert file.path.read_bytes() == written
    assert installation.uninstall(file, "tabane", stop=home).status == "removed"
    assert file.path.read_bytes() == before


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_a_file_comes_back_byte_for_byte(client: Client, platform: str, tmp_path: Path) -> None:
    file = user_file(client, tmp_path, platform)
    for text in samples(file.place):
        for layout, written in layouts(text).items():
            both_ways(file, written.encode(), tmp_path)
            assert file.path.read_bytes() == written.encode(), layout


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_the_samples_are_written_and_not_refused(client: Client, tmp_path: Path) -> None:
    file = user_file(client, tmp_path)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    for text in samples(file.place):
        file.path.write_text(text)
        installation.install(file, "tabane", entry(file))


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_an_empty_home_is_empty_again(client: Client, tmp_path: Path) -> None:
    file = user_file(client, tmp_path)
    assert installation.install(file, "tabane", entry(file)).status == "installed"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert installation.uninstall(file, "tabane", stop=tmp_path).status == "removed"
    assert list(tmp_path.iterdir()) == []
    assert installation.uninstall(file, "tabane", stop=tmp_path).status == "absent"


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_a_changed_launcher_is_updated_in_place_and_what_a_person_added_stays(
    client: Client, tmp_path: Path
) -> None:
    file = user_file(client, tmp_path)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(next(text for text in samples(file.place) if "time" in text))
    others = other_servers(file)
    old = entry(file, ["/gone/tabane"]) | {"note": "mine"}
    installation.install(file, "tabane", old)
    lines = [line for line in file.path.read_text().splitlines() if "/gone/tabane" not in line]
    changed = installation.install(file, "tabane", entry(file))
    assert changed.status == "updated"
    assert changed.backup is not None
    assert "/gone/tabane" in changed.backup.read_text()
    assert installation.installed(file)["tabane"] == entry(file) | {"note": "mine"}
    assert other_servers(file) == others
    assert [line for line in lines if line not in file.path.read_text().splitlines()] == []
    installation.uninstall(file, "tabane")
    assert "tabane" not in installation.installed(file)
    assert other_servers(file) == others


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_another_server_of_that_name_is_replaced_only_by_force(client: Client, tmp_path: Path) -> None:
    file = user_file(client, tmp_path)
    foreign = installation.entry(file.place, "tabane", ["/usr/bin/other"], [])
    foreign = {key: _unlike(part) for key, part in foreign.items()}
    installation.install(file, "tabane", foreign)
    before = file.path.read_bytes()
    with pytest.raises(BadArguments, match="--name"):
        installation.install(file, "tabane", entry(file))
    with pytest.raises(BadArguments, match="--name"):
        installation.uninstall(file, "tabane")
    assert file.path.read_bytes() == before
    installation.install(file, "hub", entry(file, name="hub"))
    assert set(installation.installed(file)) == {"tabane", "hub"}
    installation.install(file, "tabane", entry(file), force=True)
    assert installation.installed(file)["tabane"] == entry(file)


def _unlike(part: Any) -> Any:
    """An entry that runs something else: without the word by which Tabane knows itself."""
    if isinstance(part, list):
        return [word for word in part if word != "mcp"]
    return part


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_mode_and_link_of_a_dotfile_stay(client: Client, tmp_path: Path) -> None:
    file = user_file(client, tmp_path / "home")
    real = tmp_path / "dotfiles" / "real"
    real.parent.mkdir()
    text = next(text for text in samples(file.place) if "time" in text)
    real.write_text(text)
    real.chmod(0o640)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.symlink_to(real)
    installation.install(file, "tabane", entry(file))
    assert file.path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert (tmp_path / "dotfiles" / "real.bak").read_text() == text
    installation.uninstall(file, "tabane", stop=tmp_path / "home")
    assert os.readlink(file.path) == str(real)
    assert real.read_text() == text
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_a_broken_file_is_left_and_its_place_named(client: Client, tmp_path: Path) -> None:
    file = user_file(client, tmp_path)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    broken = {"toml": "a = [\n", "yaml": "a: [\n"}.get(file.place.form, '{"a": ]}')
    file.path.write_text(broken)
    with pytest.raises(ConfigurationError) as caught:
        installation.install(file, "tabane", entry(file))
    assert str(file.path) in str(caught.value)
    assert file.path.read_text() == broken


@pytest.mark.parametrize("client", WRITTEN, ids=lambda client: client.name)
def test_what_is_printed_makes_the_same_file(client: Client, tmp_path: Path) -> None:
    for place in (client.user, client.project):
        if place is None:
            continue
        wanted = installation.entry(place, "tabane", LAUNCHER, ARGUMENTS)
        printed = installation.snippet(place, "tabane", wanted)
        assert at_path(format_of(place.form).value(printed), (*place.key, "tabane")) == wanted
        readers: dict[str, Any] = {"toml": tomllib.loads, "yaml": yaml.safe_load}
        if place.form in readers:
            assert at_path(readers[place.form](printed), (*place.key, "tabane")) == wanted


@pytest.mark.heavy("real servers as processes")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_any_file_comes_back_byte_for_byte(data: st.DataObject) -> None:
    client = data.draw(st.sampled_from(WRITTEN))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        file = user_file(client, home)
        mark = data.draw(st.sampled_from(["", "\ufeff"]))
        text = mark + data.draw(texts(file.place))
        try:
            value = format_of(file.place.form).value(text.removeprefix("\ufeff"))
        except ValueError:
            return
        if "tabane" in (at_path(value, file.place.key) or ()):
            return
        both_ways(file, text.encode("utf-8", "surrogatepass"), home)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data(), st.sampled_from(["codex", "goose"]))
def test_what_a_person_changes_meanwhile_stays(data: st.DataObject, name: str) -> None:
    client = next(client for client in CLIENTS if client.name == name)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        file = user_file(client, home)
        file.path.parent.mkdir(parents=True, exist_ok=True)
        first, second = data.draw(texts(file.place)), data.draw(texts(file.place))
        editing = format_of(file.place.form)
        path = (*file.place.key, "tabane")
        try:
            file.path.write_bytes(first.encode())
            installation.install(file, "tabane", entry(file))
            changed = editing.with_entry(second, path, entry(file))
            before = editing.value(second)
        except (ConfigurationError, ValueError):
            return
        file.path.write_bytes(changed.encode())
        try:
            installation.uninstall(file, "tabane", stop=home)
        except ConfigurationError:
            assert file.path.read_bytes() == changed.encode()
            return
        after = editing.value(file.path.read_text()) if file.path.exists() else {}
        assert full(after) == full(before)


def full(value: dict[str, Any]) -> str:
    """The value without empty tables: one that Tabane added stays."""
    return repr(sorted((key, part) for key, part in value.items() if part not in ({}, None)))
