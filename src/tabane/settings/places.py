"""Where the platform keeps the data and the configuration of a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

NAME = "tabane"
_MACOS = "Library/Application Support"


def data_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder of Tabane's data where nobody names one (TABANE_HOME)."""
    if platform == "win32":
        from platformdirs import user_data_path

        return user_data_path(NAME, appauthor=False)
    return _folder(environ, "XDG_DATA_HOME", _MACOS if platform == "darwin" else ".local/share")


def config_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder of tabane.toml and mcp-servers.json where nobody names one."""
    if platform == "win32":
        from platformdirs import user_config_path

        return user_config_path(NAME, appauthor=False)
    return _folder(environ, "XDG_CONFIG_HOME", _MACOS if platform == "darwin" else ".config")


def home_folder(environ: Mapping[str, str]) -> str:
    """What ``~`` stands for."""
    return environ.get("HOME") or os.path.expanduser("~")


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    # What platformdirs answers (a test holds it to that), without a tenth of the hub's start-up time.
    given = environ.get(variable, "").strip()
    return Path(given if os.path.isabs(given) else os.path.join(home_folder(environ), default), NAME)
