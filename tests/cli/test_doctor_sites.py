"""`tabane doctor --online`: the sites of the reader are asked through its guard and proxy, and only then."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.settings.content import READER_SITES
from tests.harness.home import Home, hub
from tests.harness.patience import LONG


class ClosingProxy:
    """A proxy that closes each connection once it was asked for a host. ``hosts`` are these, oldest first."""

    def __init__(self) -> None:
        self.connections = 0
        self.hosts: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self.connections < 0:
                    return
                self.connections += 1
                connection.settimeout(LONG)
                asked = connection.recv(4096).split(b" ", 2)  # CONNECT host:443 HTTP/1.1
                self.hosts.append(asked[1].partition(b":")[0].decode())

    def close(self) -> None:
        self.connections = -1
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def proxy(home: Home) -> Iterator[ClosingProxy]:
    found = ClosingProxy()
    home.environment["TABANE_READER_PROXY"] = found.url
    yield found
    found.close()


def of_sites(home: Home, *flags: str) -> list[dict[str, Any]]:
    """The findings about sites, after a check whose exit status agrees with them."""
    done = home.run("doctor", "--quick", "--json", *flags)
    assert "Traceback" not in done.err
    assert (done.status == 1) == (done.json["status"] == "fault"), done.out
    return [each for each in done.json["findings"] if each["check"] in ("sites", "reader")]


def test_without_online_nothing_is_fetched(home: Home, proxy: ClosingProxy) -> None:
    assert of_sites(home) == []
    assert proxy.connections == 0


def test_each_site_that_cannot_be_reached_is_a_fault(home: Home, proxy: ClosingProxy) -> None:
    found = of_sites(home, "--online")
    assert len(found) == len(READER_SITES)
    by_level = {level: [e["title"] for e in found if e["level"] == level] for level in ("note", "fault")}
    assert len(by_level["note"]) == 1
    assert by_level["note"][0].startswith("Notion is read without its API")  # without a key, nothing is asked
    assert all("cannot be reached" in title for title in by_level["fault"])
    assert proxy.connections >= len(by_level["fault"])


def test_sites_that_are_off_are_named_and_not_asked(home: Home, proxy: ClosingProxy) -> None:
    home.environment["TABANE_READER_SITES_OFF"] = ",".join(READER_SITES)
    (finding,) = of_sites(home)
    assert (finding["level"], "youtube" in finding["title"]) == ("note", True)
    found = of_sites(home, "--online")
    assert {each["level"] for each in found} == {"note"}
    assert sum("switched off" in each["title"] for each in found) == len(READER_SITES)
    assert proxy.connections == 0


def test_an_unknown_site_is_an_error_that_names_the_near_one(home: Home) -> None:
    home.environment["TABANE_READER_SITES_OFF"] = "github,notoin"
    done = home.run("doctor", "--quick", "--json")
    (fault,) = [each for each in done.json["findings"] if each["level"] == "fault"]
    assert "did you mean notion?" in fault["title"]
    assert home.run("read", "https://example.com/").status != 0


@pytest.mark.parametrize(
    ("off", "first"), [("", "api.github.com"), ("notion", "api.github.com"), ("notion,github", "github.com")]
)
def test_a_hub_asks_the_api_of_a_site_unless_it_is_off(
    home: Home, proxy: ClosingProxy, off: str, first: str
) -> None:
    home.environment["TABANE_READER_SITES_OFF"] = off
    with hub(home):
        assert home.run("read", "https://github.com/octo/demo").status != 0
    assert proxy.hosts[0] == first
    assert ("api.github.com" in proxy.hosts) == (first == "api.github.com")
