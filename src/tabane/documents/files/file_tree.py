"""The files of a folder, without ignored ones, and their changes since the last scan.

Ignored are hidden files and folders (including those of version control), paths in a .gitignore (of the
folder, of folders below it, and of folders above it up to the top of its repository), installed packages,
folders marked as caches, homes of Tabane, backup copies of editors, and symbolic links, which may lead
anywhere. Patterns of the user take precedence over all of these.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tabane.documents.files.ignoring import IgnoreLevel, IgnoreRules, Levels, ignored, lines_of
from tabane.errors import BadArguments
from tabane.messages import Message, say

MOST_FILES, MOST_FOLDERS, DEEPEST = 200_000, 50_000, 100
"""Limits of one folder. A folder with more is rejected."""

_PACKAGES: Final = frozenset(("node_modules", "bower_components", "__pycache__", "site-packages"))
_MARKS: Final = frozenset(("CACHEDIR.TAG", "pyvenv.cfg"))
_OF_A_HOME: Final = frozenset(("hub.lock", "audit.key"))
_GITIGNORE: Final = ".gitignore"
_MOST_RULES = 1 << 20  # bytes of a .gitignore

Told = Callable[[str, Message], object]
"""Callback for a path that cannot be read, with the reason."""


class FileStat(NamedTuple):
    """The state of an unopened file: bytes, modification time in nanoseconds since 1970, and inode."""

    size: int
    modified: int
    number: int


@dataclass(slots=True)
class _FolderNode:
    levels: Levels
    number: int = 0  # its inode: another folder may now have its name
    files: dict[str, FileStat] = field(default_factory=dict)
    folders: dict[str, _FolderNode] = field(default_factory=dict)
    rules: FileStat | None = None


@dataclass(slots=True)
class TreeChanges:
    """Changes that a scan found: paths below the top, with ``/``.

    ``folders``: whether the set of folders changed.
    """

    changed: dict[str, FileStat] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    folders: bool = False


class FileTree:
    """The files below a folder, as of the last scan. Every method blocks."""

    def __init__(self, top: str, ignore: Sequence[str] = (), told: Told = lambda path, why: None) -> None:
        """``top`` is absolute; ``ignore`` are patterns as in a .gitignore in that folder."""
        self.top = top
        self._own = IgnoreRules(ignore)
        self._told = told
        self._folder: _FolderNode | None = None
        self._files = self._folders = 0

    def look(self, folders: Iterable[str] | None = None) -> TreeChanges:
        """Scan those folders (paths below the top, ``""`` for the top itself), or everything by default.

        New folders are scanned completely, as are folders with a changed .gitignore. Raises OSError if the
        top cannot be read, :class:`~tabane.errors.BadArguments` if it has too many files.
        """
        number = os.stat(os.path.join(self.top, "")).st_ino  # a folder that is away has not been emptied
        changes = TreeChanges()
        before = self._folder
        if before is None or folders is None or before.number != number:
            self._folder = _FolderNode(self._levels_above(), number)
            self._files = self._folders = 0
            self._fill(self._folder, (), None)
            _compare(before, self._folder, "", changes)
            return changes
        for folder in sorted(set(folders), key=lambda path: path.count("/")):
            self._look_again(tuple(folder.split("/")) if folder else (), changes)
        return changes

    def files(self) -> Iterator[tuple[str, FileStat]]:
        """Return all files, by their paths below the top."""
        return _files_of(self._folder, "")

    def stat(self, name: str) -> FileStat | None:
        """Return the state of a file in the last scan, by its path below the top.

        None if it is not included.
        """
        above, _, last = name.rpartition("/")
        folder = self._at(above)
        return folder.files.get(last) if folder is not None else None

    def is_folder(self, name: str) -> bool:
        """Return whether this path below the top is an included folder."""
        return self._at(name) is not None

    def _at(self, name: str) -> _FolderNode | None:
        folder = self._folder
        for part in name.split("/") if name else ():
            folder = folder.folders.get(part) if folder is not None else None
        return folder

    def folders(self) -> list[str]:
        """Return the absolute paths of all included folders."""
        return [os.path.join(self.top, *parts) for parts in _folders_of(self._folder, ())]

    def _look_again(self, parts: tuple[str, ...], changes: TreeChanges) -> None:
        """Scan one folder again. If it is not included, scan the nearest included folder above it."""
        folder, at = self._folder, 0
        while folder is not None and at < len(parts) and parts[at] in folder.folders:
            folder, at = folder.folders[parts[at]], at + 1
        if folder is None:
            return
        if at < len(parts):
            # It may be new or ignored. A scan of the folder above it decides.
            parts = parts[:at]
        before = _FolderNode(folder.levels, folder.number, folder.files, folder.folders, folder.rules)
        folder.files, folder.folders, folder.rules = {}, {}, None
        self._files, self._folders = self._files - len(before.files), self._folders - 1
        self._fill(folder, parts, before)
        prefix = "".join(f"{part}/" for part in parts)
        _compare(before, folder, prefix, changes)

    def _fill(self, folder: _FolderNode, parts: tuple[str, ...], before: _FolderNode | None) -> None:
        """Read a folder. Folders below it are taken from ``before`` if the same rules apply to them."""
        path = os.path.join(self.top, *parts)
        try:
            entries = list(os.scandir(path))
        except OSError as error:
            if not parts:
                raise
            self._refuse(path, error)
            return
        names = {entry.name for entry in entries}
        if names >= _OF_A_HOME:
            self._told(path, say("this is a home of Tabane, whose files can contain secrets"))
            return
        if parts and not _MARKS.isdisjoint(names):
            return
        above = folder.levels if before is None or before.rules is None else folder.levels[:-1]
        folder.levels, folder.rules = self._with_rules(above, parts, entries)
        known = before.folders if before is not None and before.rules == folder.rules else {}
        for entry in entries:
            self._take(folder, parts, entry, known)
        self._count(folder)

    def _take(
        self,
        folder: _FolderNode,
        parts: tuple[str, ...],
        entry: os.DirEntry[str],
        known: dict[str, _FolderNode],
    ) -> None:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                return  # links, devices, sockets
            below = (*parts, entry.name)
            if self._is_left_out(folder.levels, below, is_folder):
                return
            if not is_folder:
                found = entry.stat(follow_symlinks=False)
                folder.files[entry.name] = FileStat(found.st_size, found.st_mtime_ns, found.st_ino)
                return
        except OSError as error:
            self._refuse(entry.path, error)
            return
        if entry.name in known and known[entry.name].number == entry.inode():
            folder.folders[entry.name] = known[entry.name]
        elif len(parts) >= DEEPEST:
            self._told(entry.path, say("folders are nested too deeply"))
        else:
            inner = folder.folders[entry.name] = _FolderNode(folder.levels, entry.inode())
            self._fill(inner, below, None)

    def _is_left_out(self, levels: Levels, parts: tuple[str, ...], is_folder: bool) -> bool:
        own = self._own.decide(parts, is_folder)
        if own is not None:
            return own
        name = parts[-1]
        if name.startswith(".") or (is_folder and name in _PACKAGES) or (not is_folder and name[-1] == "~"):
            return True
        return ignored(levels, parts, is_folder)

    def _with_rules(
        self, levels: Levels, parts: tuple[str, ...], entries: Sequence[os.DirEntry[str]]
    ) -> tuple[Levels, FileStat | None]:
        entry = next((entry for entry in entries if entry.name == _GITIGNORE), None)
        if entry is None or not entry.is_file(follow_symlinks=False):
            return levels, None
        try:
            found = entry.stat(follow_symlinks=False)
            rules = _rules_in(entry.path)
        except OSError as error:
            self._refuse(entry.path, error)
            return levels, None
        return (*levels, IgnoreLevel(len(parts), rules)), FileStat(
            found.st_size, found.st_mtime_ns, found.st_ino
        )

    def _levels_above(self) -> Levels:
        """Return the rules of the repository that contains the top, outermost first.

        None outside a repository.
        """
        above: list[str] = []
        folder = self.top
        while not os.path.lexists(os.path.join(folder, ".git")):
            if folder == os.path.dirname(folder):
                return ()
            folder = os.path.dirname(folder)
            above.insert(0, folder)
        depth = len(above)
        paths = [(os.path.join(folder, ".git", "info", "exclude"), depth)]
        paths += [(os.path.join(each, _GITIGNORE), depth - n) for n, each in enumerate(above)]
        names = tuple(os.path.relpath(self.top, folder).split(os.sep)) if depth else ()
        return tuple(
            self._level(path, names, depth, number) for path, number in paths if os.path.isfile(path)
        )

    def _level(self, path: str, names: tuple[str, ...], depth: int, up: int) -> IgnoreLevel:
        """Return the rules ``up`` folders above the top. They match the folder names in between too."""
        try:
            return IgnoreLevel(0, _ParentRules(_rules_in(path), names[depth - up :]))
        except OSError as error:
            self._refuse(path, error)
            return IgnoreLevel(0, IgnoreRules(()))

    def _count(self, folder: _FolderNode) -> None:
        self._files += len(folder.files)
        self._folders += 1
        if self._files > MOST_FILES or self._folders > MOST_FOLDERS:
            raise BadArguments(
                say(
                    "{path} contains more than {files} {files:file|files} in {folders} "
                    "{folders:folder|folders}. Add parts of it, or exclude some with --ignore.",
                    path=self.top,
                    files=MOST_FILES,
                    folders=MOST_FOLDERS,
                )
            )

    def _refuse(self, path: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a file deleted meanwhile is not an error
            self._told(path, say("cannot be read: {detail}", detail=error.strerror or str(error)))


class _ParentRules(IgnoreRules):
    """Rules of a folder above the top, for paths below the top."""

    def __init__(self, rules: IgnoreRules, names: tuple[str, ...]) -> None:
        self._inner, self._names = rules, names

    def __bool__(self) -> bool:
        return bool(self._inner)

    def decide(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        return self._inner.decide((*self._names, *parts), is_folder)


def _rules_in(path: str) -> IgnoreRules:
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        data = file.read(_MOST_RULES) if stat.S_ISREG(found.st_mode) else b""
    return IgnoreRules(lines_of(data.decode("utf-8", "surrogateescape")))


def _files_of(folder: _FolderNode | None, prefix: str) -> Iterator[tuple[str, FileStat]]:
    if folder is None:
        return
    for name in sorted(folder.files):
        yield prefix + name, folder.files[name]
    for name in sorted(folder.folders):
        yield from _files_of(folder.folders[name], f"{prefix}{name}/")


def _folders_of(folder: _FolderNode | None, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if folder is None:
        return
    yield parts
    for name, inner in folder.folders.items():
        yield from _folders_of(inner, (*parts, name))


def _compare(
    before: _FolderNode | None, after: _FolderNode | None, prefix: str, changes: TreeChanges
) -> None:
    """Add the differences between two scans of one folder to ``changes``."""
    if before is after:
        return
    old = before.files if before is not None else {}
    new = after.files if after is not None else {}
    changes.changed.update((prefix + name, new[name]) for name in sorted(new) if old.get(name) != new[name])
    changes.gone += [prefix + name for name in old if name not in new]
    old_folders = before.folders if before is not None else {}
    new_folders = after.folders if after is not None else {}
    old_number, new_number = (each.number if each is not None else None for each in (before, after))
    changes.folders |= old_number != new_number
    for name in sorted(old_folders.keys() | new_folders.keys()):
        _compare(old_folders.get(name), new_folders.get(name), f"{prefix}{name}/", changes)
