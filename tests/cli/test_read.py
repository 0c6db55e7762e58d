"""`tabane read URL` as a user runs it: the page on stdout, errors on stderr, parts on request."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness.home import LIMIT, Home, hub
from tests.reader.site import Site, hang, running

WORDS = "It has to be read to the end, since nobody knows what stands there before having been there. "
GUIDE = "# Guide\n\n" + "".join(f"## Step {n}\n\n{WORDS * 12}[More](/more/{n}).\n\n" for n in range(12))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running() as site:
        site.put("/guide.md", GUIDE, "text/markdown")
        site.put("/note", "Just a note, for whoever comes by.\n", "text/plain")
        site.put("/colours", "Red \x1b[31mand\x1b]0;title\x07 \u202eback\x9b2J\n", "text/plain")
        site.put("/packed", "x", headers={"Content-Encoding": "a\x1b[31mb"})
        site.wild("/hang", hang)
        yield site


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.environment["TABANE_READER_ALLOW"] = f"127.0.0.1:{site.port}"
    home.environment["TABANE_MODEL"] = "none"
    with hub(home):
        yield home


def test_a_page_is_printed_whole_with_what_is_known_of_it(home: Home, site: Site) -> None:
    for command in (["read", site.url("/guide.md")], [site.url("/guide.md")]):
        done = home.run(*command)
        assert (done.status, done.err) == (0, "")
        front, content = done.out.removeprefix("---\n").split("\n---\n", 1)
        assert 'title: "Guide"' in front
        assert f"url: {site.url('/guide.md')}" in front
        assert content.strip() == GUIDE.strip().replace("](/more", f"]({site.url('/more')}")
        assert "instructions" not in done.out


def test_parts_come_where_they_are_asked_for_and_without_another_request(home: Home, site: Site) -> None:
    first = home.run("read", site.url("/guide.md"), "--max-tokens", "1000", "--no-links")
    assert "](" not in first.out
    cursor = re.search(r"--cursor (\S+)", first.err)
    assert cursor is not None
    asked = len(site.asked)
    second = home.run("read", site.url("/guide.md"), "--cursor", cursor[1])
    assert second.status == 0
    assert "part: " in second.out
    assert "](" not in second.out
    assert len(site.asked) == asked


def test_no_page_and_no_server_speaks_to_the_terminal(home: Home, site: Site) -> None:
    for done in (
        home.run("read", site.url("/colours")), home.run("read", site.url("/colours"), "--format", "raw"),
        home.run("read", site.url("/colours"), "--json"), home.run_on_terminal("read", site.url("/colours")),
    ):  # fmt: skip
        assert done.status == 0, done.err
        assert "Red [31mand" in done.out
        assert not set(done.out) & set("\x1b\x07\u202e\x9b")
    for failed in (home.run("read", site.url("/packed")), home.run_on_terminal("read", site.url("/packed"))):
        assert failed.status == 1
        assert "a[31mb" in failed.err
        assert "\x1b" not in failed.err


def test_what_went_wrong_is_said_on_stderr(home: Home, site: Site) -> None:
    for url, word, status in (
        (site.url("/nothing"), "404", 1), ("http://10.0.0.1/", "10.0.0.1", 1),
        ("ftp://a.test/", "ftp", 2), ("https://", "URL", 2),
    ):  # fmt: skip
        done = home.run("read", url)
        assert (done.status, done.out) == (status, ""), url
        assert done.err.startswith("Error: ")
        assert word in done.err


def test_a_program_gets_json(home: Home, site: Site) -> None:
    value = home.run("read", site.url("/note"), "--json").json
    assert (value["content"].strip(), value["url"]) == (
        "Just a note, for whoever comes by.",
        site.url("/note"),
    )
    error = home.run("read", site.url("/nothing"), "--json").json["error"]
    assert error["data"]["reason"] == "reading"
    assert error["data"]["cause"] == "status"
    assert error["data"]["status"] == 404


def test_formats(home: Home, site: Site) -> None:
    url = site.url("/guide.md")
    assert home.run("read", url, "--format", "raw").out.strip() == GUIDE.strip()
    assert "<h2>Step 3</h2>" in home.run("read", url, "--format", "html").out
    assert "## " not in home.run("read", url, "--format", "text").out


def test_a_page_that_was_read_is_found(home: Home, site: Site) -> None:
    home.run("read", site.url("/note"))
    done = home.run("search", "note whoever", "--in", "pages")
    assert done.status == 0, done.err
    assert site.url("/note") in done.out


def test_a_page_is_put_into_documents(home: Home, site: Site) -> None:
    value = home.run("read", site.url("/note"), "--remember", "--json").json
    assert value["warnings"] == []
    assert "note" in value["remembered"]


def test_the_wrong_usage_is_told_as_such(home: Home) -> None:
    assert home.run("read").status == 2
    assert home.run("read", "https://a.test/", "--format", "pdf").status == 2
    assert home.run("read", "https://a.test/", "--max-tokens", "3").status == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--site", "--no-links"), "--no-links cannot be used with --site"),
        (("--site", "--max-tokens", "1000"), "--max-tokens cannot be used with --site"),
        (("--limit", "3"), "--limit needs --site"),
        (("--detach",), "--detach needs --site"),
    ],
)
def test_options_of_a_page_and_of_a_site_are_not_mixed(
    home: Home, options: tuple[str, ...], named: str
) -> None:
    done = home.run("read", "https://example.com/", *options)
    assert done.status == 2
    assert named in done.err


def test_ctrl_c_ends_it_at_once_and_the_hub_goes_on(home: Home, site: Site) -> None:
    asked = len(site.asked)
    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "read", site.url("/hang")],
        env=home.environment, cwd=home.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    _wait(lambda: len(site.asked) > asked)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert home.run("read", site.url("/note")).status == 0


def _wait(for_what: Callable[[], bool]) -> None:
    """Until it is so; fails where it never is."""
    end = time.monotonic() + LIMIT
    while not for_what():
        assert time.monotonic() < end
        time.sleep(0.02)
