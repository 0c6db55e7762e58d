"""The files of a folder, without ignored ones, and their changes since the last scan.

Ignored are hidden files and folders (including those of version control), paths in a .gitignore (of the
folder, of folders below it, and of folders above it up to the top of its repository), installed packages,
folders marked as caches, homes of Tabane, backup copies of editors, and symbolic links, which may lead
anywhere. Patterns of the user take precedence over all of these.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from tabane.errors import BadArguments
from tabane.messages import Message, say

MOST_PATTERNS, LONGEST_PATTERN = 5000, 300
"""Limits of the patterns of one file, and of the characters of a pattern. Those beyond are ignored."""

# What pathspec 1.1 writes for wildcards.
_LEADING, _INNER, _END, _FOLDER = "^(?:.+/)?", "(?:/.+)?", "(?:(?P<ps_d>/)|$)", "(?P<ps_d>/)"
_STAR: Final = re.compile(r"\[\^/\]\*((?:\[\^/\](?!\*)|[^/])*?)(?=\[\^/\]\*)")
_ALONE: Final = {".": ".+", "/": ".+/.+", _FOLDER: ".*/"}  # expressions of patterns of stars alone


class IgnoreRule(NamedTuple):
    """One pattern. ``fits`` tests the path below the folder of its file, or the name if ``name_only``.

    A folder has a slash at its end.
    """

    fits: Callable[[str], object]
    name_only: bool
    ignores: bool


class IgnoreRules:
    """The patterns of one file, or of a command line."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = map(rule_of, islice(lines, MOST_PATTERNS))
        self._rules = [rule for rule in rules if rule is not None]
        self._rules.reverse()

    def decide(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        """Return whether a path, relative to the folder of the file, is ignored. None if no rule matches.

        No folder above the path may be ignored.
        """
        end = "/" if is_folder else ""
        name, path = parts[-1] + end, "/".join(parts) + end
        for fits, name_only, ignores in self._rules:
            if fits(name if name_only else path):
                return ignores
        return None


class IgnoreLevel(NamedTuple):
    """Rules, and the depth of their file below the top, in folders."""

    depth: int
    rules: IgnoreRules


Levels = tuple[IgnoreLevel, ...]
"""All rules that apply to a folder, in increasing precedence."""


def ignored(levels: Levels, parts: Sequence[str], is_folder: bool) -> bool:
    """Return whether a path below the top is ignored, if no folder above it is. ``depth`` may be negative."""
    for depth, rules in reversed(levels):
        decided = rules.decide(parts[depth:], is_folder)
        if decided is not None:
            return decided
    return False


def lines_of(text: str) -> list[str]:
    """Return the lines of a .gitignore, without a BOM and the CR of a CR LF."""
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


@lru_cache(4096)
def rule_of(line: str) -> IgnoreRule | None:
    """Parse a line to a rule. None for an empty line, a comment, or a pattern that never matches."""
    if len(line) > LONGEST_PATTERN:
        return None
    try:
        pattern = GitIgnoreSpecPattern(line)
    except (ValueError, re.error):
        return None
    if pattern.regex is None:
        return None
    source = pattern.regex.pattern
    middle = source.removeprefix(_LEADING).removesuffix(_END).removesuffix(_FOLDER).replace("[^/]", "")
    name_only = source.startswith(_LEADING) and "/" not in middle
    fits = re.compile(_linear_regex(source.removeprefix(_LEADING) if name_only else source), re.DOTALL)
    return IgnoreRule(fits.fullmatch, name_only, bool(pattern.include))


def _linear_regex(source: str) -> str:
    """Return an expression for the path itself, in linear time; that of pathspec also finds what is below it.

    A .gitignore is untrusted, and pathspec's expressions can backtrack for years. Of two stars, or of two
    ``**``, the first takes as little as it can and is never tried again.
    """
    if source in _ALONE:
        return _ALONE[source]
    if source.endswith("/"):
        source += ".+"  # ``folder/**`` matches what is in the folder, not the folder
    source = _STAR.sub(r"(?>[^/]*?\1)", source)
    first, *others = source.replace(_LEADING, "(?:[^/]++/)*?").removeprefix("^").split(_INNER)
    pieces = [first, *(f"(?:/[^/]++)*?{piece}" for piece in others)]
    return "".join(f"(?>{piece}(?=/))" for piece in pieces[:-1]) + pieces[-1]


MOST_FILES, MOST_FOLDERS, DEEPEST = 200_000, 50_000, 100
"""Limits of one folder. A folder with more is rejected."""

_PACKAGES: Final = frozenset(("node_modules", "bower_components", "__pycache__", "site-packages"))
_MARKS: Final = frozenset(("CACHEDIR.TAG", "pyvenv.cfg"))
_OF_A_HOME: Final = frozenset(("hub.lock", "audit.key"))
_GITIGNORE: Final = ".gitignore"
_MOST_RULES = 1 << 20  # bytes of a .gitignore

UnreadableListener = Callable[[str, Message], object]
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

    def __init__(
        self,
        top: str,
        ignore: Sequence[str] = (),
        listener: UnreadableListener = lambda path, why: None,
    ) -> None:
        """``top`` is absolute; ``ignore`` are patterns as in a .gitignore in that folder."""
        self.top = top
        self._own = IgnoreRules(ignore)
        self._listener = listener
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
            self._fill_folder(self._folder, (), None)
            _compare_folders(before, self._folder, "", changes)
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
        folder = self._folder_at(above)
        return folder.files.get(last) if folder is not None else None

    def is_folder(self, name: str) -> bool:
        """Return whether this path below the top is an included folder."""
        return self._folder_at(name) is not None

    def _folder_at(self, name: str) -> _FolderNode | None:
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
        self._fill_folder(folder, parts, before)
        prefix = "".join(f"{part}/" for part in parts)
        _compare_folders(before, folder, prefix, changes)

    def _fill_folder(self, folder: _FolderNode, parts: tuple[str, ...], before: _FolderNode | None) -> None:
        """Read a folder. Folders below it are taken from ``before`` if the same rules apply to them."""
        path = os.path.join(self.top, *parts)
        try:
            entries = list(os.scandir(path))
        except OSError as error:
            if not parts:
                raise
            self._report_error(path, error)
            return
        names = {entry.name for entry in entries}
        if names >= _OF_A_HOME:
            self._listener(path, say("this is a home of Tabane, whose files can contain secrets"))
            return
        if parts and not _MARKS.isdisjoint(names):
            return
        above = folder.levels if before is None or before.rules is None else folder.levels[:-1]
        folder.levels, folder.rules = self._with_rules(above, parts, entries)
        scanned = before.folders if before is not None and before.rules == folder.rules else {}
        for entry in entries:
            self._take_entry(folder, parts, entry, scanned)
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

    def _take_entry(
        self,
        folder: _FolderNode,
        parts: tuple[str, ...],
        entry: os.DirEntry[str],
        scanned: dict[str, _FolderNode],
    ) -> None:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                return  # links, devices, sockets
            below = (*parts, entry.name)
            left_out = self._own.decide(below, is_folder)
            if left_out is None:
                left_out = entry.name.startswith(".") or (
                    entry.name in _PACKAGES if is_folder else entry.name[-1] == "~"
                )
                left_out = left_out or ignored(folder.levels, below, is_folder)
            if left_out:
                return
            if not is_folder:
                folder.files[entry.name] = _file_stat(entry)
                return
        except OSError as error:
            self._report_error(entry.path, error)
            return
        if entry.name in scanned and scanned[entry.name].number == entry.inode():
            folder.folders[entry.name] = scanned[entry.name]
        elif len(parts) >= DEEPEST:
            self._listener(entry.path, say("folders are nested too deeply"))
        else:
            inner = folder.folders[entry.name] = _FolderNode(folder.levels, entry.inode())
            self._fill_folder(inner, below, None)

    def _with_rules(
        self, levels: Levels, parts: tuple[str, ...], entries: Sequence[os.DirEntry[str]]
    ) -> tuple[Levels, FileStat | None]:
        entry = next((entry for entry in entries if entry.name == _GITIGNORE), None)
        if entry is None or not entry.is_file(follow_symlinks=False):
            return levels, None
        try:
            written = _file_stat(entry)
            rules = _rules_in(entry.path)
        except OSError as error:
            self._report_error(entry.path, error)
            return levels, None
        return (*levels, IgnoreLevel(len(parts), rules)), written

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
            self._rules_above(path, names, depth, number) for path, number in paths if os.path.isfile(path)
        )

    def _rules_above(self, path: str, names: tuple[str, ...], depth: int, up: int) -> IgnoreLevel:
        """Return the rules ``up`` folders above the top. They match the folder names in between too."""
        try:
            return IgnoreLevel(0, _ParentRules(_rules_in(path), names[depth - up :]))
        except OSError as error:
            self._report_error(path, error)
            return IgnoreLevel(0, IgnoreRules(()))

    def _report_error(self, path: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a file deleted meanwhile is not an error
            self._listener(path, say("cannot be read: {detail}", detail=error.strerror or str(error)))


class _ParentRules(IgnoreRules):
    """Rules of a folder above the top, for paths below the top."""

    def __init__(self, rules: IgnoreRules, names: tuple[str, ...]) -> None:
        self._inner, self._names = rules, names

    def decide(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        return self._inner.decide((*self._names, *parts), is_folder)


def _file_stat(entry: os.DirEntry[str]) -> FileStat:
    state = entry.stat(follow_symlinks=False)
    return FileStat(state.st_size, state.st_mtime_ns, state.st_ino)


def _rules_in(path: str) -> IgnoreRules:
    with open(path, "rb") as file:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        data = file.read(_MOST_RULES) if regular else b""
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


def _compare_folders(
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
        _compare_folders(old_folders.get(name), new_folders.get(name), f"{prefix}{name}/", changes)
