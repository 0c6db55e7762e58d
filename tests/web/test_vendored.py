"""The files of others are unchanged, listed, and have their licenses."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import ROOT
from tests.web.vendored import FOLDER, differences, packages


def test_the_files_of_others_are_those_of_their_packages() -> None:
    assert list(differences()) == []


def test_a_changed_an_unlisted_and_a_missing_file_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "vendor"
    shutil.copytree(FOLDER, folder)
    with (folder / "htmx.min.js").open("a") as script:
        script.write(";")
    (folder / "other.js").write_text("")
    (folder / "htmx.LICENSE.txt").unlink()
    assert list(differences(folder)) == [
        "htmx.min.js is not the file of its package",
        "htmx.LICENSE.txt is missing",
        "other.js is not listed in vendor.toml",
    ]


def test_every_package_has_its_license_beside_it_and_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for package in packages():
        assert any(file.name.endswith(".LICENSE.txt") for file in package.file), package.name
        assert f"{package.name} {package.version}" in notice
        assert package.license in notice
