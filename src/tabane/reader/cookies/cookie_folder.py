"""The imported cookies of a home: a file for each host, in the folder ``cookies``.

Files are written by the command line and read at each request for a page, so that a running hub sees changes
at once. Only their owner can read them. No message names a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from tabane.errors import ConfigurationError, ReadError, StoreError
from tabane.messages import say
from tabane.reader.cookies.imported_cookies import CookieJar, authority, host_of
from tabane.reader.guard import Target
from tabane.settings.files import private_folder, read_private, write_private

FOLDER = "cookies"
LARGEST = 8 << 20
"""Bytes of one file."""

_SUFFIX = ".json"


class CookieFolder:
    """The imported cookies of a home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    @property
    def is_used(self) -> bool:
        """Return whether cookies were ever imported."""
        return self._folder.is_dir()

    def jars(self) -> list[CookieJar]:
        """Return all, by host. Raises ConfigurationError and StoreError."""
        return [jar for name in sorted(self._file_names()) if (jar := self._read_jar(name)) is not None]

    def jar_for(self, at: Target) -> CookieJar | None:
        """Return the cookies of the imported host that a request is to: the longest if several cover it.

        Raises ConfigurationError and StoreError if they cannot be read.
        """
        names = self._file_names()
        for host in _host_and_parents(at):
            if (name := _file_name(host, at.port)) in names:
                return self._read_jar(name)
        return None

    def keep(self, jar: CookieJar) -> None:
        """Replace the cookies of a host. Raises ConfigurationError, and StoreError if they cannot be kept."""
        private_folder(self._folder.parent)
        private_folder(self._folder)
        path = self._folder / _file_name(jar.host, jar.port)
        try:
            os.chmod(self._folder, 0o700)
            # Whoever adds the folder above to documents or to a repository, adds no cookies.
            write_private(self._folder / ".gitignore", b"*\n")
            write_private(path, msgspec.json.encode(jar))
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=str(path), detail=error.strerror or str(error))
            ) from None

    def remove(self, host: str, port: int) -> bool:
        """Remove the cookies of a host. Return whether there were any. Raises StoreError."""
        path = self._folder / _file_name(host, port)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=str(path), detail=error.strerror or str(error))
            ) from None
        return True

    def _file_names(self) -> frozenset[str]:
        try:
            return frozenset(name for name in os.listdir(self._folder) if _is_jar(name))
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be read: {reason}.", path=self._folder, reason=error.strerror or "")
            ) from None

    def _read_jar(self, name: str) -> CookieJar | None:
        """Return one file; None if it was removed meanwhile."""
        path = self._folder / name
        try:
            jar = msgspec.json.decode(read_private(path, LARGEST), type=CookieJar)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, RecursionError):
            # The error of the decoder is left out: it may quote the file.
            raise StoreError(
                say(
                    "{path} is broken. Import the cookies again, or remove them with: tabane reader cookies "
                    "{host} --remove",
                    path=str(path), host=unquote(name.removesuffix(_SUFFIX)),
                )
            ) from None  # fmt: skip
        if _file_name(jar.host, jar.port) != name:
            raise StoreError(
                say("{path} holds the cookies of another host, so it is not used.", path=str(path))
            )
        return jar


def _host_and_parents(at: Target) -> Iterator[str]:
    """Yield the host, then those above it."""
    yield at.host
    rest = at.host
    while at.address is None and "." in rest:
        rest = rest.partition(".")[2]
        yield rest


def _file_name(host: str, port: int) -> str:
    return quote(authority(host, port), safe="") + _SUFFIX


def _is_jar(name: str) -> bool:
    """Return whether a file is one of ours: others, such as parts of files, are ignored."""
    if not name.endswith(_SUFFIX) or name.startswith("."):
        return False
    try:
        found = host_of(unquote(name.removesuffix(_SUFFIX)))
    except ReadError:
        return False
    return _file_name(found.host, found.port) == name
