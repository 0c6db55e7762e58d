"""The files of others that the web page sends to browsers: `vendor.toml`, their hashes, and their renewal.

`python -m tests.web.vendored` compares the files with their hashes. With `--renew` it takes them from the
packages of the npm registry again, in the versions that `vendor.toml` has, and writes their hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.conftest import ROOT

FOLDER = ROOT / "src" / "tabane" / "web" / "static" / "vendor"
NODE = ROOT / "build" / "node" / "bin"
LISTS = frozenset({"README.md", "vendor.toml"})
"""Files of the folder that are ours."""

_HEAD = "# Files of others, from the npm registry. `python -m tests.web.vendored --renew` writes this list."


class VendoredFile(msgspec.Struct, forbid_unknown_fields=True):
    """A file. ``source`` is its path in the package."""

    name: str
    source: str
    sha256: str


class VendoredPackage(msgspec.Struct, forbid_unknown_fields=True):
    """A package and the files taken from it. ``license`` is an SPDX identifier."""

    name: str
    version: str
    license: str
    file: list[VendoredFile]


def packages(folder: Path = FOLDER) -> list[VendoredPackage]:
    """Return what `vendor.toml` lists."""
    listed = tomllib.loads((folder / "vendor.toml").read_text(encoding="utf-8"))
    return msgspec.convert(listed["package"], list[VendoredPackage])


def differences(folder: Path = FOLDER) -> Iterator[str]:
    """Yield what is wrong with the files: changed, missing, or not listed."""
    listed = {file.name: file.sha256 for package in packages(folder) for file in package.file}
    for name, expected in listed.items():
        if not (folder / name).is_file():
            yield f"{name} is missing"
        elif _hash((folder / name).read_bytes()) != expected:
            yield f"{name} is not the file of its package"
    for file in sorted(folder.iterdir()):
        if file.name not in listed.keys() | LISTS:
            yield f"{file.name} is not listed in vendor.toml"


def renew(folder: Path = FOLDER) -> None:
    """Take all files from their packages again, and write their hashes to `vendor.toml`."""
    found = packages(folder)
    for package in found:
        contents = _unpacked(package)
        for file in package.file:
            (folder / file.name).write_bytes(contents[file.source])
            file.sha256 = _hash(contents[file.source])
    (folder / "vendor.toml").write_text("\n".join((_HEAD, *_lines(found))) + "\n", encoding="utf-8")


def _unpacked(package: VendoredPackage) -> dict[str, bytes]:
    """Return the listed files of a package, as npm downloads it: it checks the hash of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(NODE / "npm"), "pack", f"{package.name}@{package.version}", "--json"]
        environment = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)
        archive = Path(folder, json.loads(done.stdout)[0]["filename"])
        with tarfile.open(archive) as tar:
            return {file.source: _read(tar, f"package/{file.source}") for file in package.file}


def _read(tar: tarfile.TarFile, path: str) -> bytes:
    member = tar.extractfile(path)
    assert member is not None, f"{path} is no file"
    return member.read()


def _lines(found: Sequence[VendoredPackage]) -> Iterator[str]:
    for package in found:
        yield from ("", "[[package]]", *_pairs(package, "name", "version", "license"))
        for file in package.file:
            yield from ("", "[[package.file]]", *_pairs(file, "name", "source", "sha256"))


def _pairs(of: msgspec.Struct, *names: str) -> Iterator[str]:
    for name in names:
        yield f"{name} = {json.dumps(getattr(of, name))}"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true", help="take the files from their packages again")
    if parser.parse_args().renew:
        renew()
    problems = list(differences())
    print("\n".join(problems) or "All files are those of their packages.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
