"""The settings file, changed in one step: a change with which no hub could start is refused."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from tabane.access.profiles import profiles_in
from tabane.errors import ConfigurationError
from tabane.messages import Message, say
from tabane.servers.editing import folder_lock
from tabane.settings import Settings, load_settings
from tabane.settings.editing import UnsafeTextEdit
from tabane.settings.files import read_trusted, write_private

Edit = Callable[[str], str]
"""Changes the text of the settings file."""


def change_file(settings: Settings, environment: Mapping[str, str], edit: Edit, by_hand: Message) -> bool:
    """Change the file while nobody else does, and save the previous content. Return whether it changed.

    ``by_hand`` is what a person does if ``edit`` cannot. Raises TabaneError, also if no hub could start with
    the changed file.
    """
    path = Path(os.path.realpath(settings.config))
    try:
        os.makedirs(path.parent, mode=0o700, exist_ok=True)
        with folder_lock(path):
            return _replace_file(path, settings, environment, edit, by_hand)
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from None


def _replace_file(
    path: Path, settings: Settings, environment: Mapping[str, str], edit: Edit, by_hand: Message
) -> bool:
    try:
        previous = read_trusted(path)
    except FileNotFoundError:
        previous = None
    try:
        text = (previous or b"").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None
    try:
        changed = edit(text)
    except (UnsafeTextEdit, tomllib.TOMLDecodeError):
        settings_with(settings, environment, text)  # says what is wrong with the file
        raise ConfigurationError(
            say(
                "{path} cannot be changed without loss. Edit it yourself: {change}", path=path, change=by_hand
            )
        ) from None
    if changed == text:
        return False
    settings_with(settings, environment, changed)  # raises if no hub could start with this file
    profiles_in(settings.config, changed)
    if previous is not None:
        write_private(f"{path}.bak", previous)
    mark = b"\xef\xbb\xbf" if previous is not None and previous.startswith(b"\xef\xbb\xbf") else b""
    write_private(path, mark + changed.encode())
    return True


def settings_with(current: Settings, environment: Mapping[str, str], text: str | None) -> Settings:
    """Return the settings that a restarted hub has. Raises ConfigurationError."""
    flags = {
        name: getattr(current, name) for name, source in current.sources.items() if source.kind == "flag"
    }
    return load_settings(flags, environment, text=text)
