"""Tabane's folders and the user's private files.

A private file is written with mode 0600, and refused if another user can have written it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.messages import say

LIMIT = 4 * 1024 * 1024
"""Most bytes of a settings, servers or secrets file: far more than anyone writes by hand."""

Pathlike = str | os.PathLike[str]


def private_folder(path: Pathlike, *, parents: bool = True) -> None:
    """Create the folder with mode 0700, or check that an existing one is safe to use.

    Without ``parents``, the folder above has to exist: a home that was deleted is not created again. Raises
    ConfigurationError if it is another user's, others may write in it, or it cannot be created.
    """
    try:
        if parents:
            os.makedirs(path, mode=0o700, exist_ok=True)
        elif not os.path.isdir(path):
            os.mkdir(path, 0o700)
        status = os.stat(path)
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be used as a folder: {reason}.", path=path, reason=error.strerror)
        ) from None
    _check_owner(path, status)
    if status.st_mode & 0o022:
        raise ConfigurationError(
            say(
                "Other users can write to the folder {path}. Make it private with: chmod 700 {quoted}",
                path=path,
                quoted=_quoted(path),
            )
        )


def write_private(path: Pathlike, data: bytes, mode: int = 0o600, *, synced: bool = True) -> None:
    """Replace the content of the file by ``data`` in one step, with mode 0600. It is on disk at the return.

    If it is not ``synced``, it may get lost if the machine fails, and the caller need not wait for the disk.

    A reader sees the old content or the new one, never a part. If ``path`` is a symbolic link, the file that
    it points to is replaced. ``mode`` is for files of other programs. Raises OSError.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    part = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    try:
        with open(part, "xb", opener=_owner_only) as file:
            file.write(data)
            if mode != 0o600:
                os.fchmod(file.fileno(), mode)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        _forget(part)
        raise
    if synced:
        _sync_folder(folder)


def read_trusted(path: Pathlike, limit: int = LIMIT) -> bytes:
    """Return the content of a file that only its owner or root can have written.

    Raises FileNotFoundError if there is none. Raises ConfigurationError if group or others may write it, it
    belongs to another user, it is longer than ``limit`` bytes, or it cannot be read.
    """
    return _read(path, limit, _check_trusted)


def read_owned(path: Pathlike, limit: int = LIMIT) -> bytes:
    """Return the content of a file of the user, which others may be able to write.

    It is for content that a person checks. Raises the errors of :func:`read_trusted`.
    """
    return _read(path, limit, lambda path, mode: None)


def read_private(path: Pathlike, limit: int = LIMIT) -> bytes:
    """Return the content of a file that only its owner can read. Raises as :func:`read_trusted`."""
    return _read(path, limit, _check_private)


def read_in_folder(folder: Pathlike, name: str, limit: int = LIMIT) -> bytes:
    """Return the content of a file below a folder, reached without following a symbolic link.

    ``name`` is relative, with ``/`` between its parts. Raises FileNotFoundError if there is none. Raises
    ConfigurationError if a part of the name is a link, the file belongs to another user, is longer than
    ``limit`` bytes, or cannot be read.
    """
    path = os.path.join(folder, name)
    try:
        with open(_unlinked(folder, name), "rb") as file:
            status = os.fstat(file.fileno())
            _check_kind(path, status, limit)
            _check_owner(path, status)
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        if _has_link(folder, name):
            raise _linked(path) from None
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _linked(path) from None
        raise ConfigurationError(
            say("{path} cannot be read: {reason}.", path=path, reason=error.strerror)
        ) from None
    _check_length(path, len(data), limit)
    return data


def _unlinked(folder: Pathlike, name: str) -> int:
    """Return a descriptor of a file, opened part by part so that no link can lead elsewhere."""
    *folders, last = name.split("/")
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in folders:
            inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inside
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)


def _has_link(folder: Pathlike, name: str) -> bool:
    path = os.fspath(folder)
    for part in name.split("/"):
        path = os.path.join(path, part)
        if os.path.islink(path):
            return True
    return False


def _linked(path: Pathlike) -> ConfigurationError:
    return ConfigurationError(
        say(
            "{path} is or is behind a symbolic link, so it is not used. Put the file itself there.", path=path
        )
    )


def _read(path: Pathlike, limit: int, check: Callable[[Pathlike, int], None]) -> bytes:
    try:
        with open(path, "rb", opener=_never_waiting) as file:
            # Check the open file, not the path, which may lead to another file by now.
            status = os.fstat(file.fileno())
            _check_kind(path, status, limit)
            _check_owner(path, status)
            check(path, stat.S_IMODE(status.st_mode))
            return file.read(limit)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # nothing can be below a file
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be read: {reason}.", path=path, reason=error.strerror)
        ) from None


def _check_kind(path: Pathlike, status: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(say("{path} is not a file.", path=path))
    _check_length(path, status.st_size, limit)


def _check_length(path: Pathlike, size: int, limit: int) -> None:
    if size > limit:
        raise ConfigurationError(
            say(
                "{path} has {size} {size:byte|bytes}, more than the limit of {limit}.",
                path=path,
                size=size,
                limit=limit,
            )
        )


def _check_trusted(path: Pathlike, mode: int) -> None:
    if mode & 0o022:
        raise ConfigurationError(
            say(
                "{path} is not used, because other users can write to it (mode {mode}). Fix it "
                "with: chmod go-w {quoted}",
                path=path,
                mode=f"{mode:04o}",
                quoted=_quoted(path),
            )
        )


def _check_private(path: Pathlike, mode: int) -> None:
    if mode & 0o077:
        raise ConfigurationError(
            say(
                "{path} is not used, because other users can read it (mode {mode}). Make it "
                "private with: chmod 600 {quoted}",
                path=path,
                mode=f"{mode:04o}",
                quoted=_quoted(path),
            )
        )


def refuse_foreign_home(home: Pathlike, environ: Mapping[str, str]) -> None:
    """Raise ConfigurationError if root would work in the home of another user.

    What root writes there is root's, and the user could not use it any more. A home that does not exist yet
    would be made in the folder ``~``, whose owner then counts.
    """
    if os.geteuid() != 0:
        return
    folder = home_folder(environ)
    path = folder if not os.path.exists(home) and _is_within(home, folder) else home
    with suppress(OSError):
        _check_owner(path, os.stat(path))


def _is_within(path: Pathlike, folder: str) -> bool:
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(os.path.realpath(folder), ""))


def _check_owner(path: Pathlike, status: os.stat_result) -> None:
    if status.st_uid in (0, os.geteuid()):
        return
    if os.geteuid() == 0:
        import pwd  # needed only for a refusal

        try:
            user = pwd.getpwuid(status.st_uid).pw_name
        except KeyError:
            user = f"#{status.st_uid}"
        raise ConfigurationError(
            say(
                "You are root, but {path} belongs to {user}. What root writes there would lock {user} out, "
                "so nothing was done. Run the command as that user: sudo -u {quoted} tabane … For a hub of "
                "root, set TABANE_HOME to a folder of root.",
                path=path,
                user=user,
                quoted=_quoted(user),
            )
        )
    raise ConfigurationError(
        say(
            "{path} belongs to another user (uid {owner}), so it is not used. To make it "
            "yours: chown {uid} {quoted}",
            path=path,
            quoted=_quoted(path),
            owner=status.st_uid,
            uid=os.geteuid(),
        )
    )


def _quoted(path: Pathlike) -> str:
    import shlex  # needed only for a refusal

    return shlex.quote(os.fspath(path))


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _never_waiting(path: str, flags: int) -> int:
    # Opening a named pipe would otherwise wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


NAME = "tabane"
_MACOS = "Library/Application Support"


def data_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the default folder of Tabane's data. TABANE_HOME overrides it."""
    if platform == "win32":
        from platformdirs import user_data_path

        return user_data_path(NAME, appauthor=False)
    return _folder(environ, "XDG_DATA_HOME", _MACOS if platform == "darwin" else ".local/share")


def config_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the default folder of tabane.toml and mcp-servers.json."""
    if platform == "win32":
        from platformdirs import user_config_path

        return user_config_path(NAME, appauthor=False)
    return _folder(environ, "XDG_CONFIG_HOME", _MACOS if platform == "darwin" else ".config")


def home_folder(environ: Mapping[str, str]) -> str:
    """Return the folder that ``~`` means."""
    return environ.get("HOME") or os.path.expanduser("~")


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    # The result of platformdirs (a test compares them), without importing it: a tenth of the start-up time.
    given = environ.get(variable, "").strip()
    return Path(given if os.path.isabs(given) else os.path.join(home_folder(environ), default), NAME)
