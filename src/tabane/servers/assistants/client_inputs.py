"""Inputs of VS Code's files: what its entries ask a person for as ``${input:ID}``. Pure.

Source: "Input variables" in the variables reference of VS Code. ``inputs`` lists objects with ``id`` and
``type``: promptString (``description``, ``default``, ``password``), pickString (``options``, ``default``) or
command, which runs a command of the editor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from tabane.servers.plain_secrets import variable_name, words_of
from tabane.servers.secrets_file import NAME
from tabane.servers.variables import each_text

InputType = Literal["promptString", "pickString", "command"]

MOST_INPUTS = 200
MOST_OPTIONS = 200
LONGEST = 300
"""Characters of a description or label that are shown."""

_TYPES = ("promptString", "pickString", "command")
_INPUT = re.compile(r"\$\{input:([^{}]*)\}")


class ClientInput(Struct, frozen=True):
    """An input of a file. ``options`` are the choices of pickString: labels and values.

    ``origin`` is the file: the same id in another file is another input. An id that the file does not declare
    is asked for as text.
    """

    id: str
    origin: str = ""
    type: InputType = "promptString"
    description: str = ""
    default: str | None = None
    password: bool = False
    options: tuple[tuple[str, str], ...] = ()
    command: str = ""

    @property
    def title(self) -> str:
        """Return what it asks for, for people."""
        return self.description or self.id


def inputs_of(value: object, origin: str) -> dict[str, ClientInput]:
    """Return the inputs of a file by id. ``value`` is its member ``inputs``. What is no input is left out."""
    found: dict[str, ClientInput] = {}
    for item in value[:MOST_INPUTS] if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            found.setdefault(item["id"], _input(item, origin))
    return found


def input_ids(definition: Any) -> tuple[str, ...]:
    """Return the ids of the inputs that a definition asks for, each once."""
    return tuple(dict.fromkeys(found[1] for text in _texts(definition) for found in _INPUT.finditer(text)))


def with_inputs(definition: Any, answer: Callable[[str], str]) -> Any:
    """Return a definition with each ``${input:ID}`` replaced by the text that ``answer`` gives for the id."""
    return each_text(definition, lambda text: _INPUT.sub(lambda found: answer(found[1]), text))


def input_variable(wanted: ClientInput, server: str, definition: Mapping[str, Any]) -> str:
    """Return a name for the variable of an input.

    That is the variable of ``env`` that it fills, if it fills only one, else its id.
    """
    whole = f"${{input:{wanted.id}}}"
    env = definition.get("env")
    names = [name for name, text in env.items() if text == whole] if isinstance(env, dict) else []
    if len(names) == 1 and NAME.fullmatch(names[0]):
        return str(names[0])
    own = words_of(wanted.id)
    return own if NAME.fullmatch(own) and "_" in own else variable_name(server, wanted.id)


def agrees(written: object, found: object) -> bool:
    """Return whether a text of ours is one of a client's, with any text in the place of an input."""
    if not isinstance(found, str) or not isinstance(written, str) or "${input:" not in found:
        return written == found
    first, *middle, last = _INPUT.split(found)[::2]
    position, end = len(first), len(written) - len(last)
    if not written.startswith(first) or not written.endswith(last):
        return False
    for part in middle:
        at = written.find(part, position, end)
        if at < 0:
            return False
        position = at + len(part)
    return position <= end


def _input(item: Mapping[str, Any], origin: str) -> ClientInput:
    kind = item.get("type")
    default = item.get("default")
    command = item.get("command")
    return ClientInput(
        item["id"],
        origin,
        cast("InputType", kind) if kind in _TYPES else "promptString",
        _shown(item.get("description")),
        default if isinstance(default, str) and default else None,
        item.get("password") is True,
        tuple(_options(item.get("options"))),
        _shown(command),
    )


def _options(value: object) -> Iterator[tuple[str, str]]:
    for option in value[:MOST_OPTIONS] if isinstance(value, list) else ():
        if isinstance(option, str):
            yield _shown(option), option
        elif isinstance(option, dict) and isinstance(option.get("value"), str):
            yield _shown(option.get("label")) or _shown(option["value"]), option["value"]


def _shown(value: object) -> str:
    """Return a text of a file for a terminal: one line without control characters."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in value[:LONGEST]).split())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
