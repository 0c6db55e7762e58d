"""Files that this process made, known by device and inode. Replacements by other processes are left alone."""

from __future__ import annotations

import contextlib
import os


class OwnFile:
    """The file at ``path`` at the moment this is made. Raises OSError if there is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._status = os.lstat(path)

    @property
    def there(self) -> bool:
        """Return whether the path still leads to this very file."""
        return same_file(self.path, self._status)

    def unlink(self) -> None:
        """Delete the file, if it is still this one. Raises OSError."""
        if self.there:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)


def same_file(path: str, status: os.stat_result) -> bool:
    """Return whether the file at ``path`` is the one of that status; False if there is none."""
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False
