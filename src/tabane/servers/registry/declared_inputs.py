"""Inputs that a server of the registry declares, and the texts that they are put into. Pure.

A publisher's text never reads a variable of the user: ``${`` in it is written as the two characters
(:func:`tabane.servers.variables.escaped`). A user's own answer may be ``${NAME}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from msgspec import Struct, structs

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.servers.registry.registry_text import has_only_visible, items, member, shown_text
from tabane.servers.variables import escaped

InputPlace = Literal["env", "header", "argument", "url"]
InputFormat = Literal["string", "number", "boolean", "filepath"]

MOST_INPUTS = 50
MOST_CHOICES = 50
LONGEST_VALUE = 4_096
"""Characters of a value that a publisher gives, and of a text with placeholders."""

_FORMATS = ("string", "number", "boolean", "filepath")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,99})\}")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


class DeclaredInput(Struct, frozen=True):
    """A value that the user may give, or must give if it is ``required`` and has no ``default``.

    ``name`` distinguishes it from the others of the same server. ``place`` is what it becomes a part of.
    ``nested``: it is a part of a text, such as the token of ``Bearer {token}``.
    """

    name: str
    place: InputPlace
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    example: str = ""
    choices: tuple[str, ...] = ()
    format: InputFormat = "string"
    nested: bool = False

    @property
    def is_missing(self) -> bool:
        """Return whether a user has to be asked: nothing works without an answer."""
        return self.required and self.default is None

    def checked(self, answer: str) -> str:
        """Return an answer as the server gets it. Raises BadArguments if it is not allowed."""
        if _REFERENCE.fullmatch(answer):
            return answer  # a variable, whose value is known when the server starts
        if self.choices and answer not in self.choices:
            raise BadArguments(
                say("{name} must be one of {choices}.", name=self.name, choices=", ".join(self.choices)),
                self.name,
            )
        if self.format == "boolean":
            answer = {"yes": "true", "no": "false"}.get(answer.lower(), answer.lower())
            if answer not in ("true", "false"):
                raise BadArguments(say("{name} must be true or false.", name=self.name), self.name)
        if self.format == "number" and not _NUMBER.fullmatch(answer):
            raise BadArguments(say("{name} must be a number.", name=self.name), self.name)
        if self.required and not answer:
            raise BadArguments(say("{name} may not be empty.", name=self.name), self.name)
        return answer


class InputTemplate(Struct, frozen=True):
    """A text with inputs in it: literal texts, and inputs to put in."""

    parts: tuple[str | DeclaredInput, ...]

    @property
    def inputs(self) -> tuple[DeclaredInput, ...]:
        return tuple(part for part in self.parts if isinstance(part, DeclaredInput))

    def filled(self, answers: Mapping[str, str]) -> str | None:
        """Return the text for the servers file; None if an input has neither answer nor default."""
        words = []
        for part in self.parts:
            word = escaped(part) if isinstance(part, str) else _answer(part, answers)
            if word is None:
                return None
            words.append(word)
        return "".join(words)


def _answer(wanted: DeclaredInput, answers: Mapping[str, str]) -> str | None:
    if wanted.name in answers:
        return answers[wanted.name]
    return None if wanted.default is None else escaped(wanted.default)


def read_template(given: object, name: str, place: InputPlace) -> InputTemplate:
    """Return the template of an input as published: a fixed text, a text with variables, or one input.

    Raises ValueError if it cannot be used.
    """
    value = member(given, "value")
    if value is None:
        return InputTemplate((read_input(given, name, place),))
    return text_template(value, member(given, "variables"), place)


def text_template(text: object, variables: object, place: InputPlace) -> InputTemplate:
    """Return the template of a text. ``{name}`` stays as it is if ``variables`` do not have the name.

    Raises ValueError if it cannot be used.
    """
    text = usable(text)
    parts: list[str | DeclaredInput] = []
    position = 0
    for found in _PLACEHOLDER.finditer(text):
        declared = member(variables, found.group(1))
        if isinstance(declared, Mapping):
            parts.append(text[position : found.start()])
            parts += _fixed_or_input(declared, found.group(1), place)
            position = found.end()
    parts.append(text[position:])
    if len(parts) > 2 * MOST_INPUTS:
        raise ValueError
    return InputTemplate(tuple(part for part in parts if part != ""))


def _fixed_or_input(given: object, name: str, place: InputPlace) -> list[str | DeclaredInput]:
    value = member(given, "value")
    return (
        [structs.replace(read_input(given, name, place), nested=True)] if value is None else [usable(value)]
    )


def read_input(given: object, name: str, place: InputPlace) -> DeclaredInput:
    """Return a declared input. Raises ValueError if it cannot be used."""
    default = member(given, "default")
    choices = tuple(usable(choice) for choice in items(given, "choices", MOST_CHOICES))
    if any("${" in choice for choice in choices):
        raise ValueError  # a person who chooses it would let it read a variable
    form = member(given, "format")
    return DeclaredInput(
        usable(name)[:200],
        place,
        shown_text(member(given, "description")),
        member(given, "isRequired") is True,
        member(given, "isSecret") is True,
        usable(default) if isinstance(default, str) and default else None,
        shown_text(member(given, "placeholder"), 100),
        choices,
        cast("InputFormat", form) if form in _FORMATS else "string",
    )


def usable(value: object) -> str:
    """Return a publisher's text that becomes a part of a command or of a URL.

    Raises ValueError if it has invisible characters: a person could not see what is run.
    """
    if not isinstance(value, str) or len(value) > LONGEST_VALUE or not has_only_visible(value):
        raise ValueError
    return value


def distinct(inputs: Iterable[DeclaredInput]) -> tuple[DeclaredInput, ...]:
    """Return the inputs, each name once. An answer is the same wherever the name occurs."""
    found: dict[str, DeclaredInput] = {}
    for each in inputs:
        found.setdefault(each.name, each)
    return tuple(found.values())


def described(wanted: DeclaredInput) -> dict[str, Any]:
    """Return an input as JSON."""
    return {
        "name": wanted.name,
        "in": wanted.place,
        "required": wanted.required,
        "secret": wanted.secret,
        "description": wanted.description,
        "default": wanted.default,
        "example": wanted.example,
        "choices": list(wanted.choices),
        "format": wanted.format,
    }
