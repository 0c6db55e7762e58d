"""Kinds of the files of an import: posts, results, or vectors.

A FILE is a twilog.csv, X's archive (zip, or the folder where it was unpacked), results of a model (.jsonl), a
folder of vectors, or the folder of an installation of the original twilog, with all of these in its layout.
Blocks; raises :class:`~tabane.errors.BadArguments` that names the problem of a file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.importing.vector_folder import METADATA, VectorMetadata, metadata, metadata_path
from tabane.posts.importing.x_archive import has_lists
from tabane.posts.post import SPACES

PLACES = {"content": "embeddings", "reasoning": "batch/reasoning", "summary": "batch/summary"}
"""The original twilog's folders for the vectors of each text. The options -e, -r and -s name others."""

SAMPLE = ("twilog.csv", "results.jsonl")
"""Files of the sample archive: a few hundred posts by people who do not exist."""

_CSV = "twilog.csv"
_RESULTS = "batch/results.jsonl"


def sample_files() -> list[str]:
    """Return the paths of the sample archive."""
    folder = resources.files("tabane.posts") / "sample"
    return [str(folder / name) for name in SAMPLE]


@dataclass(frozen=True, slots=True)
class PostSources:
    """The sources of an import: absolute paths, each once. ``folders`` is space → folder of its vectors.

    If two sources have the same post, the first counts. All CSV files come before all archives.
    """

    csvs: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    folders: dict[str, str] = field(default_factory=dict)

    @property
    def posts(self) -> bool:
        """Return whether any of the sources has posts."""
        return bool(self.csvs or self.archives)


@dataclass(slots=True)
class _FoundFiles:
    csvs: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)
    described: dict[str, VectorMetadata] = field(default_factory=dict)

    def folder(self, space: str, path: str) -> None:
        if self.folders.setdefault(space, path) != path:
            raise BadArguments(
                say(
                    "{first} and {second} both contain vectors of {space}. Give only one of them.",
                    first=self.folders[space],
                    second=path,
                    space=space,
                ),
                "files",
            )
        self.described[space] = metadata(path)


def plan(
    files: Sequence[str] = (),
    *,
    embeddings: str | None = None,
    reasoning: str | None = None,
    summary: str | None = None,
) -> PostSources:
    """Return the sources that the arguments name, and the CSV and results that folder metadata refer to.

    The three options name folders of vectors. The metadata of all folders must agree on the model.
    """
    try:
        found = _planned(files, (embeddings, reasoning, summary))
    except OSError as error:
        raise unreadable(error) from error
    if not (found.csvs or found.archives or found.results or found.folders):
        raise BadArguments(say("Give at least one file to import."), "files")
    return PostSources(_once(found.csvs), _once(found.archives), _once(found.results), found.folders)


def unreadable(error: OSError) -> BadArguments:
    """Return the error for a file that cannot be read, or a report that cannot be written."""
    return BadArguments(
        say("{path}: {reason}", path=error.filename or "–", reason=error.strerror or str(error)), "files"
    )


def _planned(files: Sequence[str], folders: tuple[str | None, ...]) -> _FoundFiles:
    found = _FoundFiles()
    for space, path in zip(SPACES, folders, strict=True):
        if path is not None:
            found.folder(space, _absolute(path))
    for path in files:
        _add(found, _absolute(path))
    _follow(found, csv_wanted=folders[0] is not None)
    _check_agreement(found)
    return found


def _absolute(path: str) -> str:
    path = os.path.abspath(os.path.expanduser(path))
    if "\0" in path or not os.path.exists(path):
        raise BadArguments(say("{path} does not exist.", path=path), "files")
    return path


def _once(paths: list[str]) -> tuple[str, ...]:
    return tuple({os.path.realpath(path): path for path in reversed(paths)}.values())[::-1]


def _add(found: _FoundFiles, path: str) -> None:
    if os.path.isdir(path):
        _add_folder(found, path)
        return
    if not os.path.isfile(path):
        raise BadArguments(say("{path} is neither a file nor a folder.", path=path), "files")
    with open(path, "rb") as file:
        start = file.read(4096)
    name = os.path.basename(path).lower()
    if start.startswith((b"PK\3\4", b"PK\5\6")):
        found.archives.append(path)
    elif name.endswith(".safetensors") or name in METADATA:
        raise BadArguments(say("{path} is part of a folder of vectors. Give the folder.", path=path), "files")
    elif name.endswith(".js") or start.lstrip().startswith((b"window.", b"Grailbird.")):
        raise BadArguments(
            say(
                "{path} is part of an archive of X. Give the zip, or the folder it was unpacked to.",
                path=path,
            ),
            "files",
        )
    elif start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        found.results.append(path)
    else:
        found.csvs.append(path)  # opening it raises an error if it has another format


def _add_folder(found: _FoundFiles, path: str) -> None:
    if metadata_path(path):
        found.folder(_space(path), path)
        return
    lists = has_lists(path)
    if lists:
        found.archives.append(path)
    if not _add_setup(found, path) and not lists:
        raise BadArguments(
            say(
                "{path} is not a folder that can be imported: it has no meta.json (vectors), no "
                "data/tweets.js (archive of X) and no twilog.csv.",
                path=path,
            ),
            "files",
        )


def _add_setup(found: _FoundFiles, path: str) -> bool:
    """Add the files of an original installation. Return False if it has none."""
    csv, results = os.path.join(path, _CSV), os.path.join(path, _RESULTS)
    folders = {space: os.path.join(path, place) for space, place in PLACES.items()}
    there = {space: folder for space, folder in folders.items() if metadata_path(folder)}
    if os.path.isfile(csv):
        found.csvs.append(csv)
    elif not there:
        return False
    if os.path.isfile(results):
        found.results.append(results)
    for space, folder in there.items():
        found.folder(space, folder)
    return True


def _space(folder: str) -> str:
    """Return the space of a folder: reasoning or summary if its metadata or its name say so, else content."""
    described = metadata(folder).source_type.lower()
    name = os.path.basename(folder).lower()
    return next((space for space in SPACES[1:] if space in (described, name)), SPACES[0])


def _follow(found: _FoundFiles, *, csv_wanted: bool) -> None:
    """Add the CSV from which the content vectors were made, and the results beside other folders."""
    source = found.described["content"].source if "content" in found.described else None
    if not found.csvs and not found.archives:
        if source is not None and not source.endswith(".jsonl"):
            found.csvs.append(source)
        elif csv_wanted:
            raise BadArguments(
                say(
                    "The metadata in {path} name no existing twilog.csv (source_path, csv_path). Give "
                    "the file together with the folder.",
                    path=found.folders["content"],
                ),
                "files",
            )
    if not found.results:
        found.results += [
            path for space in SPACES[1:] if space in found.folders if (path := _results_beside(found, space))
        ]


def _results_beside(found: _FoundFiles, space: str) -> str | None:
    source = found.described[space].source
    if source is not None and source.endswith(".jsonl"):
        return source
    beside = os.path.join(os.path.dirname(found.folders[space]), os.path.basename(_RESULTS))
    return beside if os.path.isfile(beside) else None


def _check_agreement(found: _FoundFiles) -> None:
    first: tuple[str, VectorMetadata] | None = None
    for space, described in found.described.items():
        folder = found.folders[space]
        if first is None:
            first = folder, described
        elif described.model != first[1].model:
            raise disagreeing(first[0], first[1].model, folder, described.model)


def disagreeing(first: str, of_first: object, second: str, of_second: object) -> BadArguments:
    """Return the error for folders of vectors with different models or dimensions."""
    return BadArguments(
        say(
            "{first} has vectors of {of_first}, but {second} of {of_second}. All vectors of an "
            "archive must have the same model and dimension.",
            first=first,
            of_first=of_first,
            second=second,
            of_second=of_second,
        ),
        "files",
    )
