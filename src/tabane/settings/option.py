"""The definition of one setting: its kind, limits and help, and parsing of its value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tabane.messages import Message, say
from tabane.settings.files import home_folder
from tabane.text.nearest_names import nearest

Kind = Literal["path", "choice", "switch", "whole", "number", "bytes", "text", "list"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


class SettingOption(NamedTuple):
    """The definition of a setting.

    ``default`` is the default value, or for a path the words for its default. ``also`` is another environment
    variable, of lower rank. A setting that is not ``in_file`` can be given only by flag and environment.
    """

    kind: Kind
    default: Any
    help: Message
    unit: Message | None = None
    lowest: float = 0
    highest: float = 0
    choices: tuple[str, ...] = ()
    in_file: bool = True
    also: str = ""
    name: str = ""

    @property
    def environment(self) -> str:
        """The environment variable, such as TABANE_HTTP_PORT."""
        return f"TABANE_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The flag, such as ``--http-port``."""
        return f"--{self.name.replace('_', '-')}"


def path(default: Message, help: Message, *, in_file: bool = True) -> Any:
    """Return a path."""
    return field(metadata={"option": SettingOption("path", default, help, in_file=in_file)})


def optional_path(help: Message) -> Any:
    """Return a path that is None by default."""
    return field(default=None, metadata={"option": SettingOption("path", "", help)})


def choice(default: str, choices: tuple[str, ...], help: Message, *, also: str = "") -> Any:
    """Return one of the choices. ``also``: a variable of other programs that is read too."""
    option = SettingOption("choice", default, help, choices=choices, also=also)
    return field(default=default, metadata={"option": option})


def switch(default: bool, help: Message) -> Any:
    """Return true or false."""
    return field(default=default, metadata={"option": SettingOption("switch", default, help)})


def text(default: str, help: Message) -> Any:
    """Return a text."""
    return field(default=default, metadata={"option": SettingOption("text", default, help)})


def texts(help: Message) -> Any:
    """Return a list of texts."""
    return field(default=(), metadata={"option": SettingOption("list", (), help)})


def chosen(default: tuple[str, ...], choices: tuple[str, ...], help: Message) -> Any:
    """Return a list of which each text is one of the choices."""
    return field(default=default, metadata={"option": SettingOption("list", default, help, choices=choices)})


def limited(kind: Kind, default: float, lowest: float, highest: float, unit: Message, help: Message) -> Any:
    """Return a number within limits, in a unit."""
    option = SettingOption(kind, default, help, unit, lowest, highest)
    return field(default=default, metadata={"option": option})


def whole(default: int, lowest: int, highest: int, unit: Message, help: Message) -> Any:
    """Return a whole number within limits, in a unit."""
    return limited("whole", default, lowest, highest, unit, help)


def seconds(default: float, lowest: float, highest: float, help: Message) -> Any:
    """Return a time within limits, in seconds."""
    return limited("number", default, lowest, highest, say("seconds"), help)


def size(default: int, lowest: int, highest: int, help: Message) -> Any:
    """Return a size within limits, in bytes."""
    return limited("bytes", default, lowest, highest, say("bytes"), help)


_SIZES = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB}
_SAID = {
    "path": say("a path"),
    "text": say("a text without line breaks"),
    "list": say("texts, separated by commas"),
}
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off")


class InvalidSetting(ValueError):
    """A value that its setting does not allow. ``allowed`` describes the allowed values."""

    def __init__(self, allowed: Message) -> None:
        super().__init__(allowed)
        self.allowed = allowed


def value_of(option: SettingOption, given: object, *, typed: bool) -> Any:
    """Return ``given`` as a value of the setting's type. Raises :class:`InvalidSetting`, also beyond limits.

    ``typed`` is for a source with types (TOML), in which a number in quotes is a mistake. Flags and
    environment give text, or a value that has the type already.
    """
    fits = _KINDS[option.kind](option, given, typed)
    if fits is None:
        raise InvalidSetting(_corrected(option, given) or allowed(option))
    return fits


def _corrected(option: SettingOption, given: object) -> Message | None:
    """Return the allowed values with those that were probably meant; None if the list has no near ones."""
    if option.kind != "list" or not option.choices:
        return None
    texts = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    unknown = [text.strip() for text in texts if isinstance(text, str) and text.strip() not in option.choices]
    near = dict.fromkeys(name for text in unknown for name in nearest(text, option.choices)[:1])
    if not near:
        return None
    return say(
        "any of {choices}, separated by commas (did you mean {near}?)",
        choices=", ".join(option.choices),
        near=", ".join(near),
    )


def allowed(option: SettingOption) -> Message:
    """Return the allowed values as a part of a sentence: "a whole number from 1 to 100 (files)"."""
    if option.kind == "choice":
        return say("one of {choices}", choices=", ".join(option.choices))
    if option.kind == "switch":
        return say("true or false")
    if option.kind == "list" and option.choices:
        return say("any of {choices}, separated by commas", choices=", ".join(option.choices))
    if option.kind in _SAID:
        return _SAID[option.kind]
    limits = {"lowest": shown(option, option.lowest), "highest": shown(option, option.highest)}
    if option.kind == "bytes":
        return say("a size from {lowest} to {highest}", **limits)
    if option.kind == "whole":
        return say("a whole number from {lowest} to {highest} ({unit})", **limits, unit=option.unit)
    return say("a number from {lowest} to {highest} ({unit})", **limits, unit=option.unit)


def shown(option: SettingOption, value: object) -> str:
    """Return a value as a person writes it: 64 MiB, not 67108864."""
    if option.kind == "bytes" and isinstance(value, int):
        for name, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
            if value and value % size == 0:
                return f"{value // size} {name}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:.15g}" if isinstance(value, int | float) else str(value)


def expanded(path: str, environ: Mapping[str, str], folder: str) -> Path:
    """Return the absolute path, with ``~`` as the home of ``environ``. Relative paths begin at ``folder``."""
    if path == "~" or path.startswith("~/"):
        path = home_folder(environ) + path[1:]
    return Path(os.path.normpath(os.path.join(folder, path)))


def _path(option: SettingOption, given: object, typed: bool) -> str | None:
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    return text if text and "\0" not in text else None


def _choice(option: SettingOption, given: object, typed: bool) -> str | None:
    text = given if typed else str(given).lower()
    return text if isinstance(text, str) and text in option.choices else None


def _switch(option: SettingOption, given: object, typed: bool) -> bool | None:
    if isinstance(given, bool) or typed:
        return given if isinstance(given, bool) else None
    text = str(given).lower()
    return True if text in _YES else False if text in _NO else None


def _whole(option: SettingOption, given: object, typed: bool) -> int | None:
    if isinstance(given, str) and not typed:
        given = _parsed(int, given)
    if isinstance(given, bool) or not isinstance(given, int):
        return None
    return given if option.lowest <= given <= option.highest else None


def _number(option: SettingOption, given: object, typed: bool) -> float | None:
    if isinstance(given, str) and not typed:
        given = _parsed(float, given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    # NaN and infinity fail both comparisons.
    return float(given) if option.lowest <= given <= option.highest else None


def _bytes(option: SettingOption, given: object, typed: bool) -> int | None:
    if isinstance(given, str):
        digits = given.strip().rstrip("BGKMibgkm ")
        size = _SIZES.get(given.strip()[len(digits) :].strip().lower())
        number = _parsed(int, digits)
        given = number * size if number is not None and size else None
    return _whole(option, given, True)


def _text(option: SettingOption, given: object, typed: bool) -> str | None:
    return given if isinstance(given, str) and given.isprintable() else None


def _list(option: SettingOption, given: object, typed: bool) -> tuple[str, ...] | None:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple):
        return None
    texts = tuple(part.strip() for part in parts if isinstance(part, str) and part.isprintable())
    if len(texts) != len(parts) or (
        option.choices and not set(option.choices).issuperset(filter(None, texts))
    ):
        return None
    return tuple(text for text in texts if text)


def _parsed(kind: Callable[[str], Any], text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


_KINDS = {
    "path": _path,
    "choice": _choice,
    "switch": _switch,
    "whole": _whole,
    "number": _number,
    "bytes": _bytes,
    "text": _text,
    "list": _list,
}
