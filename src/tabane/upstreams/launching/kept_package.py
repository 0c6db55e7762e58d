"""Packages in the caches of their launchers: whether one is there and whole, and how its starts went.

npx keeps each package in an entry of its own, whose program can be run without npx. A journal has a file for
each package that is downloaded: whether it is downloaded now, and whether that was finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tabane.messages import Message
from tabane.upstreams.launching.package_run import PackageRun, is_exact
from tabane.upstreams.processes.child_environment import has_credentials
from tabane.upstreams.processes.variable_names import VariableKind, kind_of

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


_VERSION = re.compile(r"(?<=.)@[^/]*$")
_MOST_BYTES = 1 << 20


def installed_program(run: PackageRun, entry: Path) -> Path | None:
    """Return the program that npx would run from that entry of its cache; None if that is not certain.

    The rule is npm's: the only program of the package, or the one that is named like the package. Blocks.
    """
    programs = entry / "node_modules" / ".bin"
    if run.executable != run.package:
        name: str | None = run.executable
    else:
        name = _program_of(entry / "node_modules" / _VERSION.sub("", run.package))
    program = programs / name if name and "/" not in name else None
    return program if program is not None and program.exists() else None


def _program_of(package: Path) -> str | None:
    """Return the name of the program of an installed package."""
    try:
        data = (package / "package.json").read_bytes()
        manifest = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (OSError, ValueError):
        return None
    found = manifest.get("bin") if isinstance(manifest, dict) else None
    plain = package.name
    if isinstance(found, str):
        return plain
    if not isinstance(found, dict):
        return None
    names = [name for name in found if isinstance(name, str)]
    return names[0] if len(names) == 1 else plain if plain in names else None


JournalState = Literal["none", "downloading", "done", "suspect"]
"""``suspect``: the package was downloaded, but its program failed for a file that is missing."""

_STATES: tuple[JournalState, ...] = ("downloading", "done", "suspect")


def journal_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the journals, in the user's cache folder: caches are shared by all homes."""
    base = environment.get("XDG_CACHE_HOME") or ""
    if os.path.isabs(base):
        return Path(base, "tabane", "downloads")
    home = environment.get("HOME") or ""
    return Path(home, ".cache", "tabane", "downloads") if os.path.isabs(home) else None


class DownloadJournal:
    """The journal of one package. All methods block, for the time of a file operation; they raise OSError.

    ``identity`` is what decides what is downloaded and to where; only its hash is kept.
    """

    def __init__(self, folder: Path, identity: object) -> None:
        name = hashlib.sha256(json.dumps(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.path = folder / f"{name}.json"
        self._file: int | None = None

    def state(self) -> JournalState:
        """Return what the file says; ``none`` without a file, and if it cannot be read."""
        try:
            found = json.loads(self.path.read_bytes()[:4096])["state"]
        except (OSError, ValueError, TypeError, KeyError):
            return "none"
        return found if found in _STATES else "none"

    def age(self) -> float:
        """Return the seconds since the file was written; infinite without one."""
        try:
            return time.time() - self.path.stat().st_mtime
        except OSError:
            return float("inf")

    def lock(self) -> bool:
        """Take the lock, unless another holds it. Return whether it is held now."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return True

    def write(self, state: JournalState) -> None:
        """Write the state, on disk when this returns. The lock must be held."""
        if self._file is not None:
            text = json.dumps({"state": state, "pid": os.getpid(), "at": round(time.time())}).encode()
            os.pwrite(self._file, text.ljust(128), 0)
            os.fsync(self._file)

    def note(self, state: JournalState) -> None:
        """Write the state if nobody holds the lock; a download that runs decides by itself."""
        if self.lock():
            try:
                self.write(state)
            finally:
                self.release()

    def release(self) -> None:
        """Release the lock, if it is held."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)


CURRENT = 86_400.0
"""Seconds after which a package is looked for again that its start, without the secrets, cannot look for."""

_USER = re.compile(r"://[^/?#\s]*@")


class KeptPackage(Struct, frozen=True):
    """A package in its launcher's cache: its run, its environments, its journal and, for npx, its entry.

    ``caged``: its server runs in a cage.
    """

    run: PackageRun
    journal: DownloadJournal
    entry: Path | None
    cwd: str | None
    shared: dict[str, str]
    private: dict[str, str]
    caged: bool = False

    @property
    def withheld(self) -> dict[str, str]:
        """Return the credentials that only the download gets."""
        return {
            name: value
            for name, value in self.private.items()
            if name not in self.shared and has_credentials(name, value)
        }

    @property
    def has_secrets(self) -> bool:
        """Return whether the download needs variables that a server does not get."""
        return bool(self.withheld)

    @property
    def only_downloads_ask(self) -> bool:
        """Return whether only the download can ask the registry, and not the start."""
        return self.caged or self.has_secrets

    @property
    def addresses(self) -> dict[str, str]:
        """Return the addresses of registries without users and passwords: caches are filed under them."""
        found = {
            name: _USER.sub("://", value)
            for name, value in self.withheld.items()
            if kind_of(name) is VariableKind.ADDRESS
        }
        return {name: value for name, value in found.items() if "?" not in value and "@" not in value}


def is_there(package: KeptPackage) -> bool:
    """Return whether the package is in the cache, as far as files show."""
    if runs_without_download(package):
        return True
    state: JournalState = package.journal.state()
    if state in ("downloading", "suspect"):
        return False
    if package.only_downloads_ask and not is_exact(package.run) and package.journal.age() > CURRENT:
        return False
    if package.entry is not None:
        return is_whole(package.entry)
    return state == "done" and _cache_exists(package)


def _cache_exists(package: KeptPackage) -> bool:
    """Return whether the cache of uv was not deleted since; for other launchers that is not known."""
    if package.run.runner != "uvx":
        return True
    home, base = package.shared.get("HOME", ""), package.shared.get("XDG_CACHE_HOME")
    given = package.run.option("cache-dir") or package.shared.get("UV_CACHE_DIR")
    cache = Path(given) if given else Path(base or Path(home, ".cache")) / "uv"
    return (Path(package.cwd or os.curdir) / cache / "CACHEDIR.TAG").exists()


def needs_removal(package: KeptPackage, entry: Path) -> bool:
    """Return whether that entry of npx's cache is broken or incomplete."""
    if not entry.exists():
        return False
    return package.journal.state() in ("downloading", "suspect") or not is_whole(entry)


def note_end(package: KeptPackage, failure: Message | None) -> None:
    """Note in the journal how a start went. A failure because of a missing file makes the entry suspect."""
    with contextlib.suppress(OSError):
        if failure is None:
            if package.journal.state() != "done":
                package.journal.note("done")
        elif package.entry is None:
            # What was there may have been removed since: the next start looks again.
            if package.journal.state() == "done":
                package.journal.note("none")
        elif _blames_cache(failure):
            package.journal.note("suspect")


def _blames_cache(failure: Message) -> bool:
    """Return whether a start failed because something is missing in npx's cache."""
    from tabane.upstreams.launching.failure_causes import cause_in  # many rules, needed for failures alone

    found = cause_in(failure)
    return found is not None and found.cause.kind == "cache"


def runs_without_download(package: KeptPackage) -> bool:
    """Return whether npx finds the program among those installed in a folder above, or beside itself."""
    name = package.run.executable
    if package.run.runner != "npx" or name != package.run.package or "/" in name or "@" in name:
        return False
    folder = Path(package.cwd or os.curdir).resolve()
    places = [above / "node_modules" / ".bin" for above in (folder, *folder.parents)]
    import shutil  # heavy, and needed for downloads alone

    npx = shutil.which(package.run.program, path=package.shared.get("PATH"))
    places += [Path(npx).parent] if npx else []
    return any((place / name).exists() for place in places)


LINE_LIMIT = 200
"""Characters of the last line of a launcher's output."""


class OutputDrain:
    """Reads what a download writes to its stdout, and keeps the last line."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop, self._fd, self.line = loop, fd, ""
        loop.add_reader(fd, self._read_output)

    def _read_output(self) -> None:
        try:
            data = os.read(self._fd, 1 << 14)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._fd)
        lines = [line for line in data[-4096:].decode(errors="replace").splitlines() if line.strip()]
        self.line = lines[-1][:LINE_LIMIT] if lines else self.line

    def close(self) -> None:
        """Close the descriptor."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


def written_bytes(pid: int) -> int | None:
    """Return how many bytes a process has written so far; None if that is not known."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/io", "rb") as file:
        for line in file:
            if line.startswith(b"wchar:"):
                return int(line.split()[1])
    return None
