"""Where a browser is installed that can be driven: Chromium, Chrome, or Chrome's shell without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
    "chrome-headless-shell",
)

# A hub that the system started seldom has the PATH that a person has.
PLACES = (
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome-stable",
    "/opt/google/chrome/chrome",
    "/usr/lib/chromium/chromium",
    "/run/current-system/sw/bin/chromium",
    "/opt/homebrew/bin/chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


def browser(named: str | None, environ: Mapping[str, str]) -> str | None:
    """The program: the one that is ``named``, by path or name, and no other; else the first there is."""
    path = environ.get("PATH", os.defpath)
    if named:
        return shutil.which(os.path.expanduser(named), path=path)
    found = (shutil.which(name, path=path) for name in (*NAMES, *PLACES))
    return next((program for program in found if program), None)
