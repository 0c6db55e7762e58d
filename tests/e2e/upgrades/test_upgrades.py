"""Upgrades from each earlier version of a home with data, a running hub and connected assistants."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabane import __version__
from tabane.build import this_build
from tests.conftest import ROOT
from tests.e2e.upgrades.earlier import Earlier, Installed, earlier, versions
from tests.harness.archive import POSTS
from tests.harness.bridge import INITIALIZE, request
from tests.harness.patience import wait_until
from tests.harness.user import User, echo, said
from tests.posts.importing.archives import row, write_csv
from tests.reader.site import Site, running
from tests.search.embedding import tiny

LIMIT = 120.0
POLLED = 0.2
"""Seconds between two commands that ask whether something is done."""
PAGE = (
    "# Lighthouses\n\nA lighthouse on a cliff tells ships where the land begins, every night of the year.\n"
)
LETTER = "The keeper of the lighthouse writes a letter about a red house and a blue dog."


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("earlier")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.environment["TABANE_MODEL"] = str(tiny.make(tmp_path / "little"))
    yield user
    user.close()


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as site:
        site.put("/page.md", PAGE, "text/markdown")
        yield site


def at_rest(tabane: Installed) -> bool:
    return all(row["status"] != "running" for row in tabane.json("jobs", "list")["results"])


def fill(user: User, tabane: Installed, site: Site) -> None:
    """Put something into everything that a home holds."""
    csv, letter = write_csv(user.folder / "twilog.csv", POSTS), user.folder / "letter.txt"
    letter.write_text(LETTER)
    tabane.json("posts", "import", str(csv))
    tabane.json("docs", "put", str(letter), "--id", "letter")
    tabane.json("read", site.url("/page.md"))
    tabane.json("tools", "list")
    tabane.json("servers", "test", "small")
    wait_until(lambda: at_rest(tabane), "everything is embedded", LIMIT, pause=POLLED)


def contents(tabane: Installed, site: Site) -> dict[str, Any]:
    """What is found of all that: counts, texts, whether each kind is searched, and the names of tools."""
    stats = tabane.json("rpc", "get_status", "--params", "{}")["data_stats"]
    nearest = tabane.json("rpc", "search_similar", "--params", json.dumps({"query": "red house", "top_k": 5}))
    documents = tabane.json("docs", "search", "lighthouse keeper")["results"]
    tools = tabane.json("rpc", "list_tools", "--params", "{}")["results"]
    return {
        "posts": stats["total_posts"],
        "post": "2" in keys(tabane, "house", "posts"),
        "near": any(row["post"]["post_id"] == 2 for row in nearest),
        "document": tabane.json("docs", "get", "letter")["document"],
        "found": "letter" in [row["filepath"] for row in documents],
        "page": site.url("/page.md") in keys(tabane, "lighthouse cliff", "pages"),
        "tools": sorted(row["name"] for row in tools if row["server"] == "small"),
    }


def keys(tabane: Installed, query: str, kind: str) -> list[str]:
    return [row["key"] for row in tabane.json("search", query, "--in", kind)["results"]]


WHOLE = {
    "posts": 5,
    "post": True,
    "near": True,
    "document": LETTER,
    "found": True,
    "page": True,
    "tools": ["small__echo", "small__pid", "small__wait"],
}


def test_the_table_names_every_version_before_this_one() -> None:
    headings = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == __version__
    assert [each.version for each in earlier()] == headings[:0:-1]


@pytest.mark.parametrize("old", versions())
def test_a_newer_bridge_replaces_the_hub_and_everything_goes_on(
    user: User, site: Site, code: Path, old: Earlier
) -> None:
    user.environment["TABANE_READER_ALLOW"] = f"127.0.0.1:{site.port}"
    before, now = Installed(user, old.unpacked(code)), Installed(user)
    before.json("start", "--lang=ja")
    fill(user, before, site)
    assert contents(before, site) == WHOLE
    assert user.holder.version == old.version
    pid = user.holder.pid
    asked = now.run("start")
    assert (asked.status, user.holder.pid) == (0, pid)
    assert f"Tabane {old.version}, but this is {this_build().name}" in asked.err
    witness, idle = before.assistant(), before.assistant()
    witness.send(request(1, name="small__wait", arguments={"n": 1}))
    wait_until((user.folder / "waiting").exists, "a call is in flight", LIMIT)
    begin_import(user, before)
    newcomer = now.client()
    newcomer.send(request(0, "initialize", **INITIALIZE))
    wait_until(
        lambda: not (user.tabane / "hub.sock").exists() or user.holder.pid != pid, "the old hub drains", LIMIT
    )
    (user.folder / "go").touch()
    assert said(witness.answer(1, LIMIT)) == {"n": 1}
    assert newcomer.answer(0, LIMIT)["result"]["serverInfo"]["version"] == this_build().name
    holder = user.holder
    assert (holder.version, holder.flags, holder.started_by) == (this_build().name, ("--lang=ja",), "hand")
    for number, client in enumerate((witness, idle, newcomer), 10):
        assert said(echo(client, number, n=number)) == {"n": number}
    assert user.holder.pid == holder.pid, "an older bridge leaves the newer hub alone"
    wait_until(lambda: at_rest(now), "what was cut off is embedded", LIMIT, pause=POLLED)
    after = contents(now, site)
    assert 5 <= after["posts"] <= 5 + MANY
    assert after | {"posts": 5, "near": True} == WHOLE
    now.json("posts", "import", str(user.folder / "many.csv"))
    assert contents(now, site)["posts"] == 5 + MANY
    assert {row["state"] for row in now.json("rpc", "check_stores", "--params", "{}")["results"]} == {"ok"}
    late = before.assistant()
    assert said(echo(late, 1, n=1)) == {"n": 1}
    assert user.holder.pid == holder.pid


MANY = 3000


def begin_import(user: User, tabane: Installed) -> None:
    """Begin a job that the end of the hub may cut off."""
    posts = [row(1000 + n, f"post number {n} of many", user="many") for n in range(MANY)]
    csv = write_csv(user.folder / "many.csv", posts)
    begun = tabane.json("rpc", "import_posts", "--params", json.dumps({"files": [str(csv)]}))
    assert begun["operation"] == "import_posts"


@pytest.mark.parametrize("old", versions())
def test_a_stopped_home_is_opened_by_this_version(user: User, site: Site, code: Path, old: Earlier) -> None:
    user.environment["TABANE_READER_ALLOW"] = f"127.0.0.1:{site.port}"
    before, now = Installed(user, old.unpacked(code)), Installed(user)
    before.json("start")
    fill(user, before, site)
    assert contents(before, site) == WHOLE
    before.json("stop")
    now.json("start")
    assert contents(now, site) == WHOLE
    assert json.loads((user.tabane / "version").read_text()) == {"format": 1, "version": this_build().name}


@pytest.mark.parametrize("old", versions())
def test_an_earlier_version_that_is_started_in_this_home_loses_nothing(
    user: User, site: Site, code: Path, old: Earlier
) -> None:
    """Its code cannot be changed: it starts, or says why it does not, and what was there stays."""
    user.environment["TABANE_READER_ALLOW"] = f"127.0.0.1:{site.port}"
    before, now = Installed(user, old.unpacked(code)), Installed(user)
    now.json("start")
    fill(user, now, site)
    assert contents(now, site) == WHOLE
    now.json("stop")
    started = before.run("start", "--json")
    later, written = user.folder / "later.txt", False
    later.write_text("Written by the older one.")
    if started.status == 0:
        written = before.run("docs", "put", str(later), "--id", "later").status == 0
        before.json("stop")
    now.json("start")
    assert contents(now, site) == WHOLE
    if written:
        assert now.json("docs", "get", "later")["document"] == "Written by the older one."


@pytest.mark.parametrize("old", versions())
def test_an_earlier_hub_whose_home_was_deleted_does_not_cut_off_this_one(
    user: User, code: Path, old: Earlier
) -> None:
    """Hubs of 0.1.0 delete whatever socket is in their place when they end."""
    before, now = Installed(user, old.unpacked(code)), Installed(user)
    before.json("start")
    gone = psutil.Process(user.holder.pid)
    shutil.rmtree(user.tabane)
    pid = now.json("start")["pid"]
    wait_until(
        lambda: not gone.is_running() or gone.status() == psutil.STATUS_ZOMBIE, "the old hub ends", LIMIT
    )
    wait_until((user.tabane / "hub.sock").is_socket, "the new hub is found again", LIMIT)
    assert now.json("status")["pid"] == pid


def copy_of(folder: Path, commit: str) -> Path:
    """A checkout of this code that says it is at that commit."""
    shutil.copytree(ROOT / "src", folder / "src")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text(commit + "\n")
    return folder / "src"


def check_out(source: Path, commit: str) -> None:
    (source.parent / ".git" / "HEAD").write_text(commit + "\n")


def test_two_checkouts_of_one_version_do_not_replace_each_others_hub(user: User, tmp_path: Path) -> None:
    one, other = (Installed(user, copy_of(tmp_path / name, name * 40)) for name in "ab")
    first = one.assistant()
    pid = user.holder.pid
    assert user.holder.version == f"{__version__}+gaaaaaaa"
    for number in range(1, 4):
        assert said(echo(other.assistant(), 1, n=number)) == {"n": number}
        assert said(echo(one.assistant(), 1, n=number)) == {"n": number}
        assert said(echo(first, number, n=number)) == {"n": number}
    assert user.holder.pid == pid


def test_another_commit_of_the_same_checkout_replaces_the_hub_once(user: User, tmp_path: Path) -> None:
    source = copy_of(tmp_path / "a", "a" * 40)
    tabane = Installed(user, source)
    first = tabane.assistant()
    old = user.holder.pid
    check_out(source, "c" * 40)
    second = tabane.assistant()
    new = user.holder
    assert (new.version, new.pid != old) == (f"{__version__}+gccccccc", True)
    for number, client in enumerate((first, second, first, tabane.assistant()), 10):
        assert said(echo(client, number, n=number)) == {"n": number}
    assert user.holder.pid == new.pid


def test_a_package_says_which_commit_it_was_built_from(user: User, tmp_path: Path) -> None:
    package = tmp_path / "site-packages"
    shutil.copytree(ROOT / "src", package)
    (package / "tabane" / "COMMIT").write_text("d" * 40 + "\n")
    done = Installed(user, package).run("--version")
    assert done.out.split()[-1] == f"{__version__}+gddddddd"
    assert os.path.exists(package / "tabane" / "build.py")
