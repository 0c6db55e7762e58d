"""What the operations on files take."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]
Pattern = Annotated[str, Meta(min_length=1, max_length=1000)]
Patterns = Annotated[list[Pattern], Meta(max_length=1000)]
FileType = Annotated[str, Meta(min_length=1, max_length=100)]
Prefix = Annotated[str, Meta(max_length=500)]
Encoding = Annotated[str, Meta(min_length=1, max_length=40)]


class AddDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """Absolute paths where the hub runs. A document is called by its file's path; ``relative``: by the path
    below the one given. ``since``: a date; older files are passed over. ``ignore``: patterns as in a
    .gitignore. ``prune`` removes documents of files of these folders that are gone. ``again`` puts files
    that are unchanged, too. ``encoding`` is meant by texts that are not Unicode."""

    paths: Annotated[list[FilePath], Meta(min_length=1, max_length=1000)]
    id_prefix: Prefix = ""
    relative: bool = False
    file_type: FileType | None = None
    since: Annotated[str, Meta(min_length=1, max_length=40)] | None = None
    ignore: Patterns = []
    encoding: Encoding | None = None
    prune: bool = False
    again: bool = False


class WatchDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """The folder at an absolute path. Files that are added, changed and removed are followed from then on."""

    path: FilePath
    id_prefix: Prefix = ""
    relative: bool = False
    file_type: FileType | None = None
    ignore: Patterns = []
    encoding: Encoding | None = None


class UnwatchDocuments(Struct, frozen=True, forbid_unknown_fields=True):
    """``remove`` takes the documents of the folder's files out, too."""

    path: FilePath
    remove: bool = False


class ListWatched(Struct, frozen=True, forbid_unknown_fields=True):
    pass
