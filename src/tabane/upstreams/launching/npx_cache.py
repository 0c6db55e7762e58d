"""Entries of npx's cache: where the entry of a package is, whether it is whole, used, and its removal.

npx installs a set of packages into ``_npx/HASH`` of npm's cache and runs them from there. The hash is that of
libnpmexec (npm 7 and later): SHA-512 of the packages as they are given, sorted, one a line, 16 hexadecimal
digits of it. npm writes ``node_modules/.package-lock.json`` last, so that an installation that was cut off
has none, or one that names packages which are not there. npm never repairs such an entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tabane.upstreams.launching.package_run import PackageRun

NPM_LOCK = "concurrency.lock"
"""Folder within an entry. npm makes it while it works there, and touches it each second."""

LOCK_ALIVE = 5.0
"""Seconds after its last touch in which such a lock counts as held."""

MOST_PACKAGES = 20_000
"""Packages of an entry that are looked for; the rest counts as whole."""

_HASH = re.compile(r"[/\\]_npx[/\\]([0-9a-f]{16})(?=[/\\:'\"\s)]|$)")
_LINE = re.compile(r"^\s*cache\s*=\s*(.+?)\s*$", re.MULTILINE)
_MOST_CONFIGURATION = 1 << 16


def npx_entry(run: PackageRun, environment: Mapping[str, str], cwd: str | None = None) -> Path | None:
    """Return the folder that npx runs these packages from, whether it exists or not. Reads ``.npmrc``.

    None if that cannot be known: another launcher, or a package that is a folder or a file. Blocks.
    """
    packages = (run.package, *run.others)
    if run.runner != "npx" or any(_is_local(package) for package in packages):
        return None
    cache = _npm_cache(run, environment, cwd)
    if cache is None:
        return None
    # localeCompare sorts unlike Python, which matters only for several packages.
    joined = "\n".join(sorted(packages, key=lambda name: (name.lower(), name)))
    return cache / "_npx" / hashlib.sha512(joined.encode()).hexdigest()[:16]


def is_whole(entry: Path) -> bool:
    """Return whether an installation was finished there and its packages are all there. Blocks.

    Looks at one file of each package. What a package lacks inside is not seen.
    """
    try:
        wanted = json.loads((entry / "package.json").read_bytes()).get("dependencies", {})
        installed = json.loads((entry / "node_modules" / ".package-lock.json").read_bytes())["packages"]
        names = [f"node_modules/{name}" for name in wanted]
        names += [path for path, about in installed.items() if path and not about.get("optional")]
        return bool(wanted) and all(
            (entry / name / "package.json").is_file() for name in names[:MOST_PACKAGES]
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return False


def in_use(entry: Path) -> bool:
    """Return whether npm works there, or a process runs from there. Blocks.

    Processes are those that this user may look at: command line, working folder and open files. Without
    ``/proc`` only npm's own lock is known.
    """
    with contextlib.suppress(OSError):
        if time.time() - (entry / NPM_LOCK).stat().st_mtime < LOCK_ALIVE:
            return True
    paths = {os.fsencode(entry), os.fsencode(os.path.realpath(entry))}
    return any(path in place for place in _places() for path in paths)


def remove(entry: Path) -> None:
    """Remove an entry, by a rename first, so that nobody finds half of it. Blocks; raises OSError.

    Nothing happens if it is not there.
    """
    if not _HASH.search(str(entry)):
        raise OSError(f"{entry} is not an entry of npx's cache")
    aside = entry.with_name(f".{entry.name}-{os.getpid()}-{time.time_ns()}")
    try:
        entry.rename(aside)
    except FileNotFoundError:
        return
    import shutil  # heavy, and seldom needed

    shutil.rmtree(aside, ignore_errors=True)


def broken_entries(words: str) -> list[Path]:
    """Return the entries that a failed program's stderr blames for a missing module, without duplicates."""
    if not re.search(r"ERR_MODULE_NOT_FOUND|MODULE_NOT_FOUND|Cannot find (module|package)", words):
        return []
    found: dict[Path, None] = {}
    for match in _HASH.finditer(words):
        # The path may hold spaces; it begins behind a quote, a bracket, a scheme or white space and a slash.
        begin = max(words.rfind(mark, 0, match.start()) for mark in ("'", '"', "(", "\n", " /", "file://"))
        path = words[begin + 1 : match.end()].removeprefix("ile://").strip()
        if path.startswith("/"):
            found[Path(path)] = None
    return list(found)


def _is_local(package: str) -> bool:
    """Return whether npm takes it for a folder or file, whose cache entry is named by its real path."""
    return bool(re.match(r"(file:|~|\.{0,2}[/\\]|\.{1,2}$|[A-Za-z]:[/\\])", package)) or package.endswith(
        (".tgz", ".tar", ".tar.gz")
    )


def _npm_cache(run: PackageRun, environment: Mapping[str, str], cwd: str | None) -> Path | None:
    """Return npm's cache folder: by option, environment, ``.npmrc`` of the folder or user, or default."""
    home = environment.get("HOME")
    variables = {name.lower().replace("-", "_"): value for name, value in environment.items()}
    given = run.option("cache") or variables.get("npm_config_cache")
    if not given:
        user = variables.get("npm_config_userconfig") or (os.path.join(home, ".npmrc") if home else None)
        places = [os.path.join(cwd, ".npmrc") if cwd else None, user]
        given = next(filter(None, (_configured(place) for place in places if place)), None)
    if not given:
        return Path(home, ".npm") if home else None
    given = re.sub(r"\$\{([^}]+)\}", lambda name: environment.get(name[1], name[0]), given)
    if given.startswith("~/") and home:
        given = home + given[1:]
    return Path(os.path.abspath(os.path.join(cwd or os.curdir, given)))


def _configured(file: str) -> str | None:
    try:
        with open(file, "rb") as opened:
            text = opened.read(_MOST_CONFIGURATION).decode(errors="replace")
    except OSError:
        return None
    found = _LINE.findall(text)
    return found[-1].strip("\"'") if found else None


def _places() -> Iterator[bytes]:
    """Yield command lines, working folders and open files of the processes that may be looked at."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:
        return
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            yield file.read(1 << 16)
        with contextlib.suppress(OSError):
            yield os.readlink(os.fsencode(f"/proc/{pid}/cwd"))
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    yield os.readlink(os.fsencode(f"/proc/{pid}/fd/{name}"))
