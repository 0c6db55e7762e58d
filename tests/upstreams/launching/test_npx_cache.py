"""Entries of npx's cache: the place, the marks of a broken one, and its removal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tabane.upstreams.launching.kept_package import (
    NPM_LOCK,
    in_use,
    is_whole,
    npx_entry,
    remove,
)
from tabane.upstreams.launching.package_run import PackageRun, package_run

HASH = "a3241bba59c344f5"
"""The one npm 11 uses for @modelcontextprotocol/server-filesystem."""


def run_of(*args: str) -> PackageRun:
    found = package_run("npx", args)
    assert found is not None
    return found


def installed(entry: Path, *names: str) -> Path:
    packages: dict[str, dict[str, object]] = {"": {}}
    for name in names:
        folder = entry / "node_modules" / name
        folder.mkdir(parents=True)
        (folder / "package.json").write_text("{}")
        packages[f"node_modules/{name}"] = {}
    packages["node_modules/for-another-system"] = {"optional": True}
    (entry / "package.json").write_text(json.dumps({"dependencies": {names[0]: "^1"}}))
    (entry / "node_modules" / ".package-lock.json").write_text(json.dumps({"packages": packages}))
    return entry


def test_the_entry_is_the_one_that_npm_uses(tmp_path: Path) -> None:
    run = run_of("-y", "@modelcontextprotocol/server-filesystem", "/x")
    assert npx_entry(run, {"HOME": "/home/a"}) == Path("/home/a/.npm/_npx", HASH)
    assert npx_entry(run, {"HOME": "/home/a", "NPM_CONFIG_CACHE": "/c"}) == Path("/c/_npx", HASH)
    (tmp_path / ".npmrc").write_text("# cache=/no\nregistry=x\ncache = ${HOME}/own\n")
    assert npx_entry(run, {"HOME": str(tmp_path)}) == tmp_path / "own/_npx" / HASH
    assert npx_entry(run, {}) is None
    assert npx_entry(run_of("-y", "./folder"), {"HOME": "/home/a"}) is None
    other = npx_entry(
        run_of("--cache=/d", "-p", "@modelcontextprotocol/server-filesystem", "x"), {"HOME": "/"}
    )
    assert other == Path("/d/_npx", HASH)


def test_an_entry_is_whole_when_all_its_packages_are_there(tmp_path: Path) -> None:
    entry = installed(tmp_path / "_npx" / HASH, "one", "@a/two")
    assert is_whole(entry)
    (entry / "node_modules/@a/two/package.json").unlink()
    assert not is_whole(entry)


@pytest.mark.parametrize("missing", ["package.json", "node_modules/.package-lock.json"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"packages": 1}', b"\xff" * 9, b"[" * 100_000])
def test_an_entry_without_a_readable_list_is_broken(
    tmp_path: Path, missing: str, content: bytes | None
) -> None:
    entry = installed(tmp_path / "_npx" / HASH, "one")
    if content is None:
        (entry / missing).unlink()
    else:
        (entry / missing).write_bytes(content)
    assert not is_whole(entry)
    assert not is_whole(tmp_path / "nothing")


def test_an_entry_is_in_use_while_npm_or_a_program_works_there(tmp_path: Path) -> None:
    entry = installed(tmp_path / "_npx" / HASH, "one")
    assert not in_use(entry)
    lock = entry / NPM_LOCK
    lock.mkdir()
    assert in_use(entry)
    os.utime(lock, (time.time() - 60, time.time() - 60))
    assert not in_use(entry)
    if sys.platform == "linux":
        with subprocess.Popen(["sleep", "100"], cwd=entry / "node_modules") as process:
            assert in_use(entry)
            process.kill()


def test_only_an_entry_of_the_cache_is_removed(tmp_path: Path) -> None:
    entry = installed(tmp_path / "_npx" / HASH, "one")
    (tmp_path / "_npx" / "0123456789abcdef").mkdir()
    remove(entry)
    remove(entry)
    assert [each.name for each in (tmp_path / "_npx").iterdir()] == ["0123456789abcdef"]
    with pytest.raises(OSError, match="not an entry"):
        remove(tmp_path)
    assert tmp_path.exists()
