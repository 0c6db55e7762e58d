"""Variables of a terminal, recorded for hubs that lack them.

A graphical program has little more than ``/usr/bin`` in its PATH, and none of the proxies, certificates and
registries that a user's shell sets. A hub that such an assistant starts would find no npx, and npx no
registry. So `tabane install` and `tabane doctor`, which run in a terminal, record what servers get by
default, and a hub adds what it lacks.

Credentials are never recorded: of an address with a password, and of a registry's token, only the name is.
The hub looks it up among the user's secrets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from tabane.errors import ConfigurationError
from tabane.settings.files import read_private, read_trusted, write_private
from tabane.upstreams.processes.child_environment import has_credentials, is_withheld, passed_value
from tabane.upstreams.processes.variable_names import (
    BASIC,
    CERTIFICATES,
    ON_TERMINAL,
    VariableKind,
    is_proxy,
    kind_of,
)

FILE = "environment"
"""Name of the file in TABANE_HOME, a JSON object with mode 0600."""

PATH_FILE = "path"
"""Name of the file of earlier versions, which recorded the PATH alone."""

LONGEST_PATH = 32 << 10
"""Bytes of a PATH; a longer one is not recorded."""

LONGEST_VALUE = 16 << 10
MOST_NAMES = 300
LARGEST = 512 << 10
"""Bytes of the file."""

_OF_A_SHELL = ("TMPDIR", "TMP", "TEMP", "FNM_MULTISHELL_PATH")
"""Variables that belong to one shell or session, and mean nothing later."""


class RecordedEnvironment(Struct, frozen=True):
    """The variables of a terminal. ``credentials`` are names of variables whose values are not recorded."""

    path: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    credentials: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"RecordedEnvironment({list(self.variables)})"

    def stale(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the recorded names that ``environ`` does not have."""
        names = (*self.variables, *self.credentials)
        return tuple(sorted(name for name in names if name not in environ))


def recorded_environment(home: str | os.PathLike[str]) -> RecordedEnvironment:
    """Return what is recorded; nothing if there is no file, or others may have read or written it."""
    with suppress(FileNotFoundError, ConfigurationError, ValueError, RecursionError):
        found = _parsed(json.loads(read_private(os.path.join(home, FILE), LARGEST)))
        return (
            found if found.path else RecordedEnvironment(_old_path(home), found.variables, found.credentials)
        )
    return RecordedEnvironment(_old_path(home))


def record_environment(home: str | os.PathLike[str], environ: Mapping[str, str]) -> bool:
    """Record what servers get of this environment, for later hubs. Return whether the file was written.

    What the environment lacks stays recorded: a cron job has less than its user. A PATH with less than the
    recorded one is ignored, and its folders that are gone are forgotten. Raises OSError.
    """
    before = recorded_environment(home)
    usable = {name: value for name, value in environ.items() if _is_recordable(name, value)}
    secret = [name for name, value in usable.items() if has_credentials(name, value)]
    plain = {
        name: passed
        for name, value in usable.items()
        if name not in secret
        if (passed := passed_value(name, value)) is not None
    }
    kept = {name: value for name, value in before.variables.items() if not _replaced(name, usable)}
    names = [name for name in before.credentials if not _replaced(name, usable)]
    after = RecordedEnvironment(
        _better_path(environ.get("PATH", ""), before.path),
        dict(list({**kept, **plain}.items())[-MOST_NAMES:]),
        tuple(sorted({*names, *secret}))[:MOST_NAMES],
    )
    return _write(home, before, after)


def forget_recorded(home: str | os.PathLike[str], names: Iterable[str]) -> bool:
    """Remove variables from the recording. Return whether the file was written. Raises OSError."""
    gone = set(names)
    before = recorded_environment(home)
    after = RecordedEnvironment(
        before.path,
        {name: value for name, value in before.variables.items() if name not in gone},
        tuple(name for name in before.credentials if name not in gone),
    )
    return _write(home, before, after)


def with_recorded(
    environ: Mapping[str, str],
    home: str | os.PathLike[str],
    secret: Callable[[str], str | None] = lambda name: None,
) -> Mapping[str, str]:
    """Return the environment with the recorded variables that it lacks, and the folders of the PATH.

    The environment wins, and in its PATH, folders that only it has come first. Proxies come from one place:
    if the environment names any, none is added. A certificate file that is gone is not added. ``secret``
    returns the value of a variable whose value is not recorded. A hub that was started in a terminal gets
    the PATH alone: what its user has unset there stays unset.
    """
    found = recorded_environment(home)
    added = {} if environ.get(ON_TERMINAL) else _lacking(found, environ, secret)
    path = _joined_path(environ.get("PATH", ""), found.path)
    if path is not None:
        added["PATH"] = path
    return {**environ, **added} if added else environ


def _lacking(
    found: RecordedEnvironment, environ: Mapping[str, str], secret: Callable[[str], str | None]
) -> dict[str, str]:
    here = {name.upper() for name in environ}
    proxied = any(is_proxy(name) for name in environ)
    lacking = [
        name
        for name in (*found.variables, *found.credentials)
        if name.upper() not in here and not (proxied and is_proxy(name))
    ]
    values = {name: found.variables.get(name) or secret(name) for name in lacking}
    return {
        name: value
        for name, value in values.items()
        if value and not (name in CERTIFICATES and os.path.isabs(value) and not os.path.exists(value))
    }


def _is_recordable(name: str, value: str) -> bool:
    if name in BASIC or name in _OF_A_SHELL or len(os.fsencode(value)) > LONGEST_VALUE:
        return False
    kind = kind_of(name)
    if kind is VariableKind.CREDENTIAL:
        return True
    known = kind in (VariableKind.PLAIN, VariableKind.ADDRESS, VariableKind.DOWNLOAD)
    return known and not is_withheld(name, value)


def _replaced(name: str, usable: Mapping[str, str]) -> bool:
    """Return whether another spelling of that name is in the environment: of a proxy or an option of npm."""
    return name in usable or any(name.upper() == other.upper() for other in usable)


def _parsed(data: Any) -> RecordedEnvironment:
    """Return the content of the file, without what cannot be used in it."""
    if not isinstance(data, dict):
        return RecordedEnvironment()
    variables, credentials = data.get("variables"), data.get("credentials")
    path = data.get("path")
    # A file that was edited is checked like an environment: it opens no way around the rules.
    usable = {
        name: value
        for name, value in (variables.items() if isinstance(variables, dict) else ())
        if isinstance(value, str) and _is_recordable(name, value) and not has_credentials(name, value)
    }
    names = credentials if isinstance(credentials, list) else ()
    return RecordedEnvironment(
        path if isinstance(path, str) else "",
        usable,
        tuple(
            name
            for name in names
            if isinstance(name, str) and (name not in BASIC and has_credentials(name, "http://user@host"))
        ),
    )


def _write(home: str | os.PathLike[str], before: RecordedEnvironment, after: RecordedEnvironment) -> bool:
    if before == after:
        return False
    content = {"path": after.path, "variables": dict(after.variables), "credentials": list(after.credentials)}
    data = json.dumps(content, indent=2).encode("ascii")
    if len(data) > LARGEST:
        return False
    write_private(os.path.join(home, FILE), data + b"\n")
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(home, PATH_FILE))
    return True


# -- PATH ------------------------------------------------------------------------------------------


def _old_path(home: str | os.PathLike[str]) -> str:
    try:
        return os.fsdecode(read_trusted(os.path.join(home, PATH_FILE), LONGEST_PATH)).strip("\n")
    except (FileNotFoundError, ConfigurationError):
        return ""


def _better_path(path: str, recorded: str) -> str:
    """Return ``path`` without relative folders, or the recorded one if that has all of its folders."""
    here, there = _folders(path), _folders(recorded)
    there = [folder for folder in there if os.path.isdir(folder)]
    text = os.pathsep.join(here)
    if not here or set(here) <= set(there) or len(os.fsencode(text)) > LONGEST_PATH:
        return recorded
    return text


def _joined_path(path: str, recorded: str) -> str | None:
    """Return both PATHs as one; None if the recorded one adds nothing."""
    there = _folders(recorded)
    here = path.split(os.pathsep)
    if set(there) <= set(here):
        return None
    own = [folder for folder in here if folder and folder not in there]
    return os.pathsep.join([*own, *there])


def _folders(path: str) -> list[str]:
    # A relative folder would be a different one for each server.
    return [folder for folder in dict.fromkeys(path.split(os.pathsep)) if os.path.isabs(folder)]
