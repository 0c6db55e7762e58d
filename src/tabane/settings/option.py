"""What one setting is: its kind, its limits and its help; and the fields that the table is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tabane.messages import Message, say

Kind = Literal["path", "choice", "switch", "whole", "number", "bytes", "text", "list"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class SettingOption:
    """What is known of a setting besides its value.

    ``default`` is the value itself, or for a path the sentence that says where it lies. ``also`` is a
    further environment variable that is understood, of lower rank. A setting that is not ``in_file``
    can be given by flag and environment alone.
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
        return f"TABANE_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


def path(default: Message, help: Message, *, in_file: bool = True) -> Any:
    return field(metadata={"option": SettingOption("path", default, help, in_file=in_file)})


def optional_path(help: Message) -> Any:
    """A path that may be left out: None then."""
    return field(default=None, metadata={"option": SettingOption("path", "", help)})


def choice(default: str, choices: tuple[str, ...], help: Message, *, also: str = "") -> Any:
    option = SettingOption("choice", default, help, choices=choices, also=also)
    return field(default=default, metadata={"option": option})


def switch(default: bool, help: Message) -> Any:
    return field(default=default, metadata={"option": SettingOption("switch", default, help)})


def text(default: str, help: Message) -> Any:
    return field(default=default, metadata={"option": SettingOption("text", default, help)})


def texts(help: Message) -> Any:
    return field(default=(), metadata={"option": SettingOption("list", (), help)})


def limited(kind: Kind, default: float, lowest: float, highest: float, unit: Message, help: Message) -> Any:
    option = SettingOption(kind, default, help, unit, lowest, highest)
    return field(default=default, metadata={"option": option})


def whole(default: int, lowest: int, highest: int, unit: Message, help: Message) -> Any:
    return limited("whole", default, lowest, highest, unit, help)


def seconds(default: float, lowest: float, highest: float, help: Message) -> Any:
    return limited("number", default, lowest, highest, say("seconds"), help)


def size(default: int, lowest: int, highest: int, help: Message) -> Any:
    return limited("bytes", default, lowest, highest, say("bytes"), help)
