"""Set-ups of third-party packages, made once on a machine and used by each checkout: ``make KEEP=FOLDER …``.

``keep.py KEEP NAME --link TARGET --by TEXT … -- COMMAND …`` makes the folder ``KEEP/NAME-HASH`` by the
command, in which ``{}`` stands for it, and makes TARGET a symbolic link to it. The hash is that of Python
and of each TEXT: the name of a file, a target of the Makefile (its recipe counts), or any text. ``--copy
TARGET`` makes a copy by hard links, whose scripts name TARGET. ``--cache TARGET`` runs a command that reads
and writes the cache TARGET. It begins with the kept cache, which is replaced if the command succeeds.

A lock of the system lets one process work on a NAME. The command's processes inherit it, so it ends with
the last of them. The list of files is written when the command has succeeded, and compared before each use:
what was interrupted or damaged is made again.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

LIST = ".kept-files"
"""The name of the list of files in a kept folder."""
DAY = 24 * 3600
UNUSED = 30 * DAY
"""Seconds after which a set-up that nobody uses is removed."""
SPARE = 4
"""Set-ups of one name that may be unused for longer than a day: branches with other locks."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("keep", type=Path)
    parser.add_argument("name")
    way = parser.add_mutually_exclusive_group(required=True)
    for option in ("--link", "--copy", "--cache"):
        way.add_argument(option, type=Path, metavar="TARGET")
    parser.add_argument("--by", action="append", default=[], metavar="TEXT")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    keep = Path(os.path.abspath(given.keep.expanduser()))
    keep.mkdir(parents=True, exist_ok=True)
    folder = keep / f"{given.name}-{decided_by(given.by)}"
    if given.cache:
        return run_with_cache(folder, given.cache, given.command)
    with locked(folder):
        status = 0 if is_whole(folder) else make(folder, given.command)
        if status == 0:
            os.utime(folder)
            link(folder, given.link) if given.link else copy(folder, given.copy)
            remove_unused(folder)
    return status


def decided_by(names: Sequence[str]) -> str:
    """Return the hash of this Python and of what the names stand for."""
    makefile = Path("Makefile").read_text(encoding="utf-8") if Path("Makefile").exists() else ""
    parts = [sys.version, os.path.realpath(sys.executable), sysconfig.get_platform()]
    for name in names:
        if Path(name).is_file():
            parts.append(Path(name).read_text(encoding="utf-8"))
        else:
            rule = re.search(rf"^{re.escape(name)}:(.+\n)+", makefile, re.MULTILINE)
            parts.append(rule[0] if rule else name)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of all set-ups with the folder's name before its hash."""
    name = folder.name.rpartition("-")[0]
    with open(folder.with_name(f"{name}.lock"), "a") as lock:
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{name}: waiting for another checkout, which sets it up", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_whole(folder: Path) -> bool:
    """Tell if each file is there with its size. Byte code is left out: Python makes it again."""
    try:
        listed = (folder / LIST).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        sizes = (line.split(" ", 1) for line in listed)
        return all(os.lstat(f"{folder}/{path}").st_size == int(size) for size, path in sizes)
    except (OSError, ValueError):
        return False


def make(folder: Path, command: Sequence[str]) -> int:
    """Make a set-up by its command, and return the status of that."""
    if folder.exists():
        print(f"{folder} is not complete: it is made again", flush=True)
        shutil.rmtree(folder)
    status = subprocess.call([part.replace("{}", str(folder)) for part in command], close_fds=False)
    if status == 0:
        listed = [f"{os.lstat(f'{folder}/{path}').st_size} {path}\n" for path in files(folder)]
        text = "".join(sorted(listed))
        (folder / "new").write_text(text, encoding="utf-8", errors="surrogateescape")
        (folder / "new").rename(folder / LIST)
    return status


def files(folder: Path) -> Iterator[str]:
    """Yield the paths of files and links in a folder, except byte code."""
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in [*names, *links]:
            if not name.endswith(".pyc"):
                yield os.path.relpath(os.path.join(parent, name), folder)


def link(folder: Path, target: Path) -> None:
    """Make the target a link to a set-up."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove(target)
    target.symlink_to(folder)


def copy(folder: Path, target: Path) -> None:
    """Make the target a copy of an environment of Python. Its scripts start the Python of the copy."""
    with whole(target) as partial:
        copy_tree(folder, partial, hard_link)
        rename_in_scripts(partial, bytes(folder), bytes(target.absolute()))


@contextlib.contextmanager
def whole(target: Path) -> Iterator[Path]:
    """Yield the path of a new folder, which takes the target's place at the end."""
    partial = Path("build", f"{target.name}.partial")
    partial.parent.mkdir(exist_ok=True)
    remove(partial)
    yield partial
    remove(target)
    partial.rename(target)


def copy_tree(folder: Path, target: Path, copy_file: Callable[[str, str], object]) -> None:
    ignored = shutil.ignore_patterns(LIST)
    shutil.copytree(folder, target, symlinks=True, ignore=ignored, copy_function=copy_file)


def rename_in_scripts(environment: Path, old: bytes, new: bytes) -> None:
    """Replace the path of the kept environment in small files that have it."""
    for file in [environment / "pyvenv.cfg", *(environment / "bin").iterdir()]:
        if file.is_symlink() or file.stat().st_size > 1 << 16:
            continue
        content, mode = file.read_bytes(), file.stat().st_mode
        if old in content:
            file.unlink()  # a hard link: the kept one stays as it is
            file.write_bytes(content.replace(old, new))
            file.chmod(mode)


def hard_link(source: str, target: str) -> None:
    """Link a file, or copy it if the file system cannot."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def run_with_cache(folder: Path, target: Path, command: Sequence[str]) -> int:
    """Run a command with the kept cache, unless the checkout has one. Keep its cache if it succeeds."""
    if not target.exists():
        with locked(folder):
            if is_whole(folder):
                with whole(target) as partial:
                    copy_tree(folder, partial, shutil.copy2)
    status = subprocess.call(command)
    if status == 0:
        with locked(folder):
            remove(folder)
            status = make(folder, ["cp", "-R", str(target), "{}"])
            remove_unused(folder)
    return status


def remove_unused(folder: Path) -> None:
    """Remove set-ups of the same name that have not been used for long."""
    name = folder.name.rpartition("-")[0]
    others = {other: other.stat().st_mtime for other in folder.parent.glob(f"{name}-*") if other != folder}
    for place, other in enumerate(sorted(others, key=others.__getitem__, reverse=True)):
        if time.time() - others[other] > (UNUSED if place < SPARE else DAY):
            remove(other)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
