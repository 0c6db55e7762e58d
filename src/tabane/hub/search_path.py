"""The PATH that servers are started with, even if the hub was started by a program with a short one.

Graphical programs have little more than ``/usr/bin`` in it, and a hub that such an assistant started would
not find npx or uvx. So `tabane install` and `tabane doctor`, which run in a terminal, leave the PATH they
see in TABANE_HOME/path, and the hub adds what it lacks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tabane.errors import ConfigurationError
from tabane.settings.files import read_trusted, write_private

NAME = "path"
LONGEST = 32 * 1024
"""Bytes of a PATH; a longer one is not recorded."""


def recorded_path(home: str | os.PathLike[str]) -> str:
    """Return the recorded PATH; empty if there is none, or others may have written it."""
    try:
        return os.fsdecode(read_trusted(os.path.join(home, NAME), LONGEST)).strip("\n")
    except (FileNotFoundError, ConfigurationError):
        return ""


def record_path(home: str | os.PathLike[str], environ: Mapping[str, str]) -> bool:
    """Record the PATH of this environment for later hubs. Return whether anything was written.

    A PATH with less than the recorded one is ignored: a cron job has less than its user.
    Raises OSError.
    """
    here, there = _folders(environ.get("PATH", "")), _folders(recorded_path(home))
    there = [folder for folder in there if os.path.isdir(folder)]
    text = os.fsencode(os.pathsep.join(here))
    if not here or set(here) <= set(there) or len(text) > LONGEST:
        return False
    write_private(os.path.join(home, NAME), text + b"\n")
    return True


def with_recorded_path(environ: Mapping[str, str], home: str | os.PathLike[str]) -> Mapping[str, str]:
    """Return the environment with the recorded folders added to its PATH, if any is missing.

    Folders that only the environment has come first: they were set on purpose.
    """
    there = _folders(recorded_path(home))
    here = environ.get("PATH", "").split(os.pathsep)
    if set(there) <= set(here):
        return environ
    own = [folder for folder in here if folder and folder not in there]
    return {**environ, "PATH": os.pathsep.join([*own, *there])}


def _folders(path: str) -> list[str]:
    # A relative folder would be another one for each server.
    return [folder for folder in dict.fromkeys(path.split(os.pathsep)) if os.path.isabs(folder)]
