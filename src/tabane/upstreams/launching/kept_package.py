"""Packages in the caches of their launchers: whether one is there and whole, and how its starts went."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from msgspec import Struct

from tabane.messages import Message
from tabane.upstreams.launching import npx_cache
from tabane.upstreams.launching.download_journal import DownloadJournal, JournalState
from tabane.upstreams.launching.download_steps import is_exact
from tabane.upstreams.launching.package_run import PackageRun
from tabane.upstreams.processes.child_environment import has_credentials
from tabane.upstreams.processes.variable_names import VariableKind, kind_of

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
        return npx_cache.is_whole(package.entry)
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
    return package.journal.state() in ("downloading", "suspect") or not npx_cache.is_whole(entry)


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
        elif _blames_cache(failure, package.entry):
            package.journal.note("suspect")


def _blames_cache(failure: Message, entry: Path) -> bool:
    """Return whether a start failed because something is missing in that entry of npx's cache."""
    from tabane.upstreams.launching.failure_causes import cause_in  # many rules, needed for failures alone

    found = cause_in(failure)
    return (found is not None and found.cause.kind == "cache") or any(
        broken.name == entry.name for broken in npx_cache.broken_entries(str(failure))
    )


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
