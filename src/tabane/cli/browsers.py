"""Browsers of the user: whether one can be started here, and its start."""

from __future__ import annotations

import os
import sys
import webbrowser

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
"""Variables of which one is set where a browser with windows can be started, on Linux."""


def open_in_browser(url: str) -> bool:
    """Return whether a browser could be started. One in the terminal would not do."""
    if sys.platform == "linux" and not any(os.environ.get(name) for name in _SCREENS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def is_remote() -> bool:
    """Return whether the terminal is that of another computer, where the browser of the user is too."""
    return bool(os.environ.get("SSH_CONNECTION")) and not os.environ.get("BROWSER")
