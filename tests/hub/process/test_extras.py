"""The command that adds an extra fits the way in which this copy was installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabane.extras import InstalledCopy, copy_at

WHEEL = "/wheels/tabane-0.7.0-py3-none-any.whl"


def tool(folder: Path, requirements: str) -> InstalledCopy:
    (folder / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{requirements}]\n")
    return copy_at(str(folder), "/x/python", {}, in_venv=True)


def pipx(folder: Path, text: str) -> InstalledCopy:
    main = {"package": "tabane", "package_or_url": text, "pip_args": []}
    (folder / "pipx_metadata.json").write_text(json.dumps({"main_package": main}))
    return copy_at(str(folder), "/x/python", {}, in_venv=True)


def test_a_tool_of_uv_keeps_its_extras_packages_and_source(tmp_path: Path) -> None:
    assert tool(tmp_path, '{ name = "tabane" }').with_extra("office") == "uv tool install 'tabane[office]'"
    entry = f'{{ name = "tabane", extras = ["oauth"], path = "{WHEEL}" }}, {{ name = "keyring" }}'
    found = tool(tmp_path, entry)
    spec = f"'tabane[oauth,office] @ file://{WHEEL}'"
    assert found.with_extra("office") == f"uv tool install --with keyring {spec}"
    assert found.with_package("keyring").count("keyring") == 1
    pinned = tool(tmp_path, '{ name = "tabane", specifier = "==0.7.0" }')
    assert pinned.with_extra("ja") == "uv tool install 'tabane[ja]==0.7.0'"


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("tabane", "'tabane[ja]'"),
        ("tabane[oauth]==0.7.0", "'tabane[ja,oauth]==0.7.0'"),
        (f"{WHEEL}[oauth]", f"'{WHEEL}[ja,oauth]'"),
        (WHEEL, f"'{WHEEL}[ja]'"),
        ("tabane[oauth] @ git+https://example.com/t", "'tabane[ja,oauth] @ git+https://example.com/t'"),
    ],
)
def test_a_copy_of_pipx_keeps_its_extras_and_source(tmp_path: Path, given: str, command: str) -> None:
    assert pipx(tmp_path, given).with_extra("ja") == f"pipx install --force {command}"


def test_a_copy_that_uvx_runs_is_run_again_with_the_extra(tmp_path: Path) -> None:
    place = tmp_path / "archive-v0" / "abc"
    place.mkdir(parents=True)
    found = copy_at(str(place), "/x/python", {}, in_venv=True)
    assert found.with_extra("office") == "uvx --from 'tabane[office]' tabane"


def test_in_other_environments_pip_of_that_python_is_used(tmp_path: Path) -> None:
    wheel = {"url": f"file://{WHEEL}", "archive_info": {}}
    found = copy_at(str(tmp_path), "/x/python", wheel, in_venv=True)
    assert found.with_extra("ja") == f"/x/python -m pip install 'tabane[ja] @ file://{WHEEL}'"
    bare = InstalledCopy("venv", "/x/python", pip=False)
    assert bare.with_extra("ja") == "uv pip install --python /x/python 'tabane[ja]'"


def test_into_a_checkout_the_extra_is_added_beside_what_is_there(tmp_path: Path) -> None:
    editable = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    (tmp_path / "uv.lock").touch()
    found = copy_at(str(tmp_path / ".venv"), "/x/python", editable, in_venv=True)
    assert found.with_extra("ja") == f"uv sync --inexact --project {tmp_path} --extra ja"
    elsewhere = copy_at("/other", "/x/python", editable, in_venv=True)
    assert elsewhere.with_extra("ja") == f"/x/python -m pip install -e '{tmp_path}[ja]'"


def test_the_command_that_updates_fits_the_installation(tmp_path: Path) -> None:
    assert tool(tmp_path, '{ name = "tabane" }').update() == "uv tool upgrade tabane"
    pinned = tool(tmp_path, '{ name = "tabane", extras = ["ja"], specifier = "==0.7.0" }')
    assert pinned.update() == "uv tool install --upgrade 'tabane[ja]'"
    assert pinned.updates_itself


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("tabane[ja]", "pipx upgrade tabane"),
        ("tabane[ja]==0.7.0", "pipx install --force 'tabane[ja]'"),
        (f"{WHEEL}[ja]", "pipx install --force 'tabane[ja]'"),
    ],
)
def test_a_copy_of_pipx_leaves_its_version_or_file(tmp_path: Path, given: str, command: str) -> None:
    assert pipx(tmp_path, given).update() == command


def test_a_copy_made_of_a_folder_is_updated_there(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "Makefile").touch()
    entry = f'{{ name = "tabane", extras = ["ja"], directory = "{tmp_path}" }}'
    found = tool(tmp_path, entry)
    pull = f"git -C {tmp_path} pull"
    assert found.update() == f"{pull} && uv tool install --reinstall 'tabane[ja] @ {tmp_path.as_uri()}'"
    assert not found.updates_itself
    checkout = InstalledCopy("checkout", "/x/python", str(tmp_path))
    assert checkout.update() == f"{pull} && make -C {tmp_path} env"


def test_an_image_and_the_python_of_the_system_are_not_changed(tmp_path: Path) -> None:
    (tmp_path / "container-image").touch()
    image = copy_at(str(tmp_path), "/x/python", {}, in_venv=True)
    assert (image.installer, image.update()) == ("container", "docker build --pull --tag tabane .")
    system = InstalledCopy("system", "/x/python")
    assert system.update() == "/x/python -m pip install --user --upgrade tabane"
    assert (image.updates_itself, system.updates_itself) == (False, False)
    venv = InstalledCopy("venv", "/x/python")
    assert venv.updates_itself
