"""Static files of the page: style sheets joined into one, scripts, and files of others.

Their URLs have a hash of all of them, so that a browser keeps them until the hub is another version.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tabane.web.paths import STATIC

FOLDER = Path(__file__).with_name("static")

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}

_FIRST = ("tokens.css", "base.css", "components.css", "layout.css")
"""Style sheets that the others build on."""

STYLES = "app.css"


class Asset(NamedTuple):
    """A file as it is sent. ``packed`` is its body with gzip; None if that is not smaller."""

    type: str
    body: bytes
    packed: bytes | None


class Assets:
    """The static files, read when they are first asked for."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._read: dict[str, Asset] = {}

    @cached_property
    def version(self) -> str:
        """Return a hash of all files."""
        digest = hashlib.sha256()
        for file in sorted(self._folder.rglob("*")):
            if file.is_file():
                digest.update(file.relative_to(self._folder).as_posix().encode() + b"\0")
                digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{STATIC}/{self.version}/{name}"

    def get(self, name: str) -> Asset | None:
        """Return a file by its path in the folder; None if there is none."""
        if name not in self._read:
            body = self._body(name)
            if body is None:
                return None
            packed = gzip.compress(body, 9, mtime=0)
            type = _TYPES.get(Path(name).suffix, "application/octet-stream")
            self._read[name] = Asset(type, body, packed if len(packed) < len(body) else None)
        return self._read[name]

    def _body(self, name: str) -> bytes | None:
        if name == STYLES:
            return b"\n".join(file.read_bytes() for file in self._styles())
        file = self._folder / name
        # What is not listed in the folder itself is not served, whatever the path says.
        known = file.suffix in _TYPES and ".." not in Path(name).parts and not Path(name).is_absolute()
        return file.read_bytes() if known and file.is_file() else None

    def _styles(self) -> Iterator[Path]:
        folder = self._folder / "css"
        yield from (folder / name for name in _FIRST)
        yield from sorted(file for file in folder.glob("*.css") if file.name not in _FIRST)
