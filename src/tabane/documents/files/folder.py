"""A folder whose files are documents: how those are called, and what a pass over it is to do; pure."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass

from tabane.documents.naming import checked_filepath
from tabane.errors import BadArguments
from tabane.messages import say


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """A folder, or a file, to be kept in step. ``path`` is absolute.

    A document is called by the path of its file, or with ``relative`` by the path below the folder; before
    that stands ``prefix``. ``encoding`` is meant by texts that are not Unicode.
    """

    path: str
    prefix: str = ""
    relative: bool = False
    file_type: str | None = None
    ignore: tuple[str, ...] = ()
    encoding: str | None = None

    def key(self, name: str) -> str:
        """The name of the document of the file ``name`` below the folder ("" for the folder itself).

        Raises :class:`~tabane.errors.BadArguments` where that can be no name.
        """
        path = os.path.join(self.path, name) if name else self.path
        named = (name or os.path.basename(self.path)) if self.relative else path
        try:
            named.encode()
        except UnicodeEncodeError:
            raise BadArguments(say("its name is not UTF-8. Rename it.")) from None
        return checked_filepath(joined(self.prefix, named))

    @property
    def common(self) -> str:
        """What the names of all of its documents begin with."""
        named = "" if self.relative else self.path
        return unicodedata.normalize("NFC", joined(self.prefix, named))


def joined(prefix: str, name: str) -> str:
    """Join a prefix and a name with a slash, unless the prefix ends with a separator.

    After a colon the name stays unchanged, as semche named documents: ``abc:/home/user/notes.md``.
    """
    if not prefix:
        return name
    if prefix[-1] == ":":
        return prefix + name
    return prefix + ("" if prefix[-1] == "/" else "/") + name.lstrip("/")


def with_colon(prefix: str) -> str:
    """Return a prefix in the form that semche put before a path."""
    return prefix if not prefix or prefix[-1] in "/:" else prefix + ":"


@dataclass(frozen=True, slots=True)
class PassOptions:
    """What a pass is to do beside. ``since``: files older than that (seconds since 1970) are passed over.

    ``again``: files are put that are as they were. ``sure``: that a file looks the same is not enough.
    """

    since: float | None = None
    prune: bool = False
    again: bool = False
    sure: bool = False
