"""The folder of imported cookies: files of their owner alone, found by host."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tabane.errors import ConfigurationError, StoreError
from tabane.reader.cookies import FOLDER, CookieFolder, CookieJar, ImportedCookie
from tabane.reader.guard import target


def jar(host: str, port: int = 443) -> CookieJar:
    return CookieJar(host, port, (ImportedCookie("n", "secret", host, "/", False, 9e9),), 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> CookieFolder:
    tmp_path.chmod(0o700)
    return CookieFolder(tmp_path)


def test_what_is_kept_is_found_by_the_longest_host_and_the_port(folder: CookieFolder) -> None:
    assert not folder.is_used
    assert folder.jar_for(target("https://example.com/")) is None
    jars = [jar("example.com"), jar("a.example.com"), jar("example.com", 8443), jar("::1", 8443)]
    for each in jars:
        folder.keep(each)
    for url, found in (
        ("https://example.com/x", 0),
        ("https://b.example.com/", 0),
        ("https://c.a.example.com/", 1),
        ("https://www.example.com:8443/", 2),
        ("https://[::1]:8443/", 3),
        ("https://example.com.evil.org/", None),
        ("https://notexample.com/", None),
        ("https://example.com:9443/", None),
    ):
        assert folder.jar_for(target(url)) == (None if found is None else jars[found])
    assert {each.authority for each in folder.jars()} == {
        "example.com", "a.example.com", "example.com:8443", "[::1]:8443",
    }  # fmt: skip
    assert folder.remove("example.com", 443)
    assert not folder.remove("example.com", 443)
    assert folder.jar_for(target("https://example.com/")) is None


def test_files_are_for_their_owner_alone(folder: CookieFolder, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o755)
    folder.keep(jar("example.com"))
    [file] = (tmp_path / FOLDER).glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        folder.jar_for(target("https://example.com/"))


def test_broken_and_exchanged_files_are_not_used_and_not_quoted(folder: CookieFolder, tmp_path: Path) -> None:
    folder.keep(jar("example.com"))
    [file] = (tmp_path / FOLDER).glob("*.json")
    file.rename(file.with_name("evil.org.json"))
    with pytest.raises(StoreError, match="another host"):
        folder.jar_for(target("https://evil.org/"))
    (tmp_path / FOLDER / "evil.org.json").write_text('{"host": "secret')
    with pytest.raises(StoreError, match="Import the cookies again") as caught:
        folder.jar_for(target("https://evil.org/"))
    assert "secret" not in str(caught.value)


def test_other_files_of_the_folder_are_ignored(folder: CookieFolder, tmp_path: Path) -> None:
    folder.keep(jar("example.com"))
    for name in (".example.com.json.1.part", "notes.txt", "A.org.json", "%zz.json", "a b.json"):
        (tmp_path / FOLDER / name).write_text("?")
    assert [each.host for each in folder.jars()] == ["example.com"]
