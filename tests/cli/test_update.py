"""`tabane update`: which version is newest in the index of the installer, and how this copy is updated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabane import __version__
from tests.harness.home import Home
from tests.harness.release_index import ReleaseIndex

NEWEST = ({"filename": "tabane-98.0-py3-none-any.whl"}, {"filename": "tabane-99.1.tar.gz"})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def check(home: Home, index: ReleaseIndex, *, status: int) -> Any:
    done = home.run(
        "update", "--check", "--json", environment={"UV_DEFAULT_INDEX": index.simple, "UV_NO_CONFIG": "1"}
    )
    assert done.status == status, done
    return done.json


@pytest.mark.parametrize("html", [False, True])
def test_the_newest_release_of_the_index_is_named(home: Home, html: bool) -> None:
    with ReleaseIndex(NEWEST, html=html) as index:
        found = check(home, index, status=100)
    assert (found["newest"], found["newer"], found["updated"]) == ("99.1", True, False)
    assert (found["version"], found["installed_with"]) == (__version__, "checkout")
    assert index.asked == ["/simple/tabane/"]


@pytest.mark.parametrize(
    "file",
    [
        {"filename": "tabane-99.2-py3-none-any.whl", "yanked": "broken"},
        {"filename": "tabane-99.2rc1-py3-none-any.whl"},
        {"filename": "tabane-99.2-py3-none-any.whl", "requires-python": ">=4.5"},
        {"filename": f"tabane-{__version__}-py3-none-any.whl"},
        {"filename": "tabane-0.1.0.tar.gz"},
    ],
)
def test_what_an_installer_would_not_take_is_no_newer_version(home: Home, file: dict[str, str]) -> None:
    with ReleaseIndex([file, {"filename": "tabane-0.1.1-py3-none-any.whl"}]) as index:
        assert not check(home, index, status=0)["newer"]


def test_an_index_without_tabane_and_one_that_does_not_answer_are_named(home: Home) -> None:
    with ReleaseIndex() as index:
        found = check(home, index, status=1)
        assert "has no release of Tabane" in found["problem"]
        closed = index
    found = check(home, closed, status=1)
    assert "cannot be asked" in found["problem"]
    assert found["newest"] is None
    assert found["command"].startswith("git -C ")


def test_a_checkout_is_told_how_to_update_and_is_not_changed(home: Home) -> None:
    with ReleaseIndex(NEWEST) as index:
        done = home.run("update", "--yes", environment={"UV_DEFAULT_INDEX": index.simple})
    assert done.status == 0, done
    assert "Tabane 99.1 is available" in done.out
    assert "git -C" in done.out.splitlines()[-1]
    assert "tabane restart" in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    "written",
    [
        'index-url = "{url}"',
        '[[index]]\nname = "own"\nurl = "{url}"\ndefault = true',
        'extra-index-url = ["{url}"]\nindex-url = "http://127.0.0.1:1/simple"',
        '[[index]]\nurl = "{url}"\n[[index]]\nurl = "http://127.0.0.1:1/simple"\nexplicit = true',
    ],
)
def test_the_index_in_the_file_of_uv_is_asked(home: Home, written: str) -> None:
    with ReleaseIndex(NEWEST) as index:
        path = home.folder / "config" / "uv" / "uv.toml"
        path.parent.mkdir(parents=True)
        path.write_text(written.replace("{url}", index.simple))
        done = home.run("update", "--check", "--json")
    assert (done.status, done.json["newest"]) == (100, "99.1")


def test_credentials_of_an_index_are_sent_and_not_shown(home: Home) -> None:
    with ReleaseIndex() as index:
        url = index.simple.replace("://", "://user:hidden-word@")
        done = home.run("update", "--check", environment={"UV_DEFAULT_INDEX": url})
    assert index.asked
    assert "hidden-word" not in done.out + done.err


def test_no_other_command_asks_the_index(home: Home) -> None:
    with ReleaseIndex(NEWEST) as index:
        for command in (("doctor", "--quick"), ("status",), ("--version",)):
            home.run(*command, environment={"UV_DEFAULT_INDEX": index.simple})
    assert not index.asked
