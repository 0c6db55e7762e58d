"""An installer replaces Tabane while assistants and programs call without a pause: no call is lost."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane.hub.local.client import connect
from tabane.hub.local.connector import HubConnector
from tabane.hub.local.endpoint import Endpoint
from tabane.hub.local.handshake import Hello
from tests.e2e.upgrades.installed_copy import InstalledCopy, build_wheel
from tests.harness.patience import wait_until
from tests.harness.release_index import ReleaseIndex
from tests.harness.user import User

LIMIT = 300.0
OLD, NEW = "90.0", "91.0"
OWN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_tools", {"query": "echo"}),
    ("get_status", {}),
    ("list_documents", {"limit": 3}),
    ("search_documents", {"query": "light"}),
    ("search_everything", {"query": "light"}),
)
"""Tools of the hub. They are imported with their first use, which is in the middle of the update here."""

pytestmark = pytest.mark.heavy("installs two versions, and calls the hub for seconds")


class Load:
    """Threads that call without a pause until :attr:`over`. ``lost`` are calls without a result."""

    def __init__(self, user: User, copy: InstalledCopy) -> None:
        self._user, self._copy = user, copy
        self.over, self.updating = threading.Event(), threading.Event()
        self.lost: list[Any] = []
        self.answered = {"server": 0, "own": 0, "program": 0}
        self._threads = [
            threading.Thread(target=self._run, args=(name,), daemon=True) for name in self.answered
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(LIMIT)

    def go_on(self, count: int) -> None:
        """Wait until each thread has ``count`` more answers."""
        until = {name: done + count for name, done in self.answered.items()}
        wait_until(
            lambda: self.lost or all(self.answered[name] >= most for name, most in until.items()),
            f"each thread goes on: {self.answered}",
            LIMIT,
        )

    def _run(self, name: str) -> None:
        call = self._program if name == "program" else self._assistant(own=name == "own")
        number = 0
        while not self.over.is_set() and not self.lost:
            number += 1
            try:
                call(number)
            except Exception as error:
                self.lost.append((name, repr(error)))
            self.answered[name] = number

    def _assistant(self, *, own: bool) -> Callable[[int], None]:
        client = self._copy.assistant()

        def call(number: int) -> None:
            tool, given = "small__echo", {"n": number}
            if own and self.updating.is_set():
                tool, given = OWN[number % len(OWN)]
            answer = client.call(number, name=tool, arguments=given)
            if "error" in answer or answer["result"].get("isError"):
                self.lost.append((tool, answer))

        return call

    def _program(self, number: int) -> None:
        place = Endpoint(str(self._user.tabane), self._user.environment)
        hello = Hello(OLD, "rpc", home=place.home)
        with connect(HubConnector(place, hello, self._user.environment, None), "en") as hub:
            hub.call("list_servers")
            if self.updating.is_set():
                hub.call("list_documents")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of two versions. All rooms of the newer one have other names."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(folder, OLD)
    build_wheel(folder, NEW, moved=True)
    return folder


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    (tmp_path / "user").mkdir()
    user = User(tmp_path / "user")
    yield user
    user.close()


def wheel(folder: Path, version: str) -> Path:
    return folder / f"tabane-{version}-py3-none-any.whl"


def runs(user: User, version: str) -> None:
    wait_until(lambda: user.holder.version.startswith(f"{version}+"), f"the hub is {version}", LIMIT)


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_no_call_is_lost_while_an_installer_replaces_the_package(
    user: User, tmp_path: Path, wheels: Path, installer: str
) -> None:
    copy = InstalledCopy(user, tmp_path / "env", installer)
    copy.install(wheel(wheels, OLD))
    copy.run("start").succeeded  # noqa: B018  (asserts)
    pid = user.holder.pid
    with Load(user, copy) as load:
        load.go_on(20)
        load.updating.set()
        copy.install(wheel(wheels, NEW))
        runs(user, NEW)
        load.go_on(20)
    assert not load.lost
    assert user.holder.pid == pid
    assert json.loads(copy.run("status", "--json").succeeded.out)["started_by"] == "hand"


def test_after_tabane_update_the_next_call_is_answered_by_the_new_version(
    user: User, tmp_path: Path, wheels: Path
) -> None:
    copy = InstalledCopy(user, tmp_path / "env")
    copy.install(wheel(wheels, OLD))
    copy.run("start").succeeded  # noqa: B018  (asserts)
    with ReleaseIndex(folder=wheels) as index, Load(user, copy) as load:
        load.go_on(20)
        load.updating.set()
        variables = {"PIP_INDEX_URL": index.simple, "PIP_CACHE_DIR": str(tmp_path / "cache")}
        done = user.run("update", "--yes", "--json", environment=variables, python=(copy.python,))
        assert done.status == 0, done
        assert user.holder.version.startswith(f"{NEW}+")
        assert (done.json["updated"], done.json["hub"]["replaced"]) == (True, True)
        assert done.json["installed"] == user.holder.version
        load.go_on(20)
    assert not load.lost
    again = user.run("update", "--check", environment=variables, python=(copy.python,))
    assert again.status == 1, "the index does not answer any more"


def test_a_hub_in_the_foreground_becomes_the_new_version_in_the_same_process(
    user: User, tmp_path: Path, wheels: Path
) -> None:
    """A service manager follows the process, and would restart a hub that ends."""
    copy = InstalledCopy(user, tmp_path / "env")
    copy.install(wheel(wheels, OLD))
    service = subprocess.Popen(
        [copy.python, "-m", "tabane", "start", "--foreground", "--max-sessions", "7"],
        env=user.environment,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: user.tabane.joinpath("hub.sock").exists(), "the hub runs", LIMIT)
        copy.install(wheel(wheels, NEW))
        runs(user, NEW)
        assert (user.holder.pid, user.holder.flags) == (service.pid, ("--max-sessions=7",))
        copy.run("stop").succeeded  # noqa: B018  (asserts)
        assert service.wait(LIMIT) == 0
    finally:
        service.kill()
        service.wait()
