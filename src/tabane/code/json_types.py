"""JSON Schema as types of Python, for signatures that a model reads; pure.

Types are hints. What cannot be said shortly becomes ``Any``: schemas come from servers, and may be large.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tabane.code.identifiers import identifier

_MOST_DEPTH = 5
_MOST_NODES = 300
_MOST_MEMBERS = 40
_MOST_OPTIONS = 6
_MOST_CONSTANTS = 20
_LONGEST_CONSTANTS = 300
_MOST_CLASSES = 12
_INLINE = 200
"""Characters of an object's type up to which it is written where it is used, without a class."""

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_REFERENCES = ("#/$defs/", "#/definitions/")


class TypeScope:
    """The types of one schema, and the classes that they need.

    ``root`` is the whole schema, which has its definitions.
    """

    def __init__(self, root: Mapping[str, Any], taken: Iterable[str] = ()) -> None:
        self._root = root
        self._names = set(taken)
        self._by_reference: dict[str, str] = {}
        self._nodes = 0
        self.classes: list[str] = []

    def type_of(self, schema: Any, name: str, depth: int = 0) -> str:
        """Return the type of values that a schema allows. ``name`` is for a class, if it needs one."""
        self._nodes += 1
        if not isinstance(schema, dict) or depth > _MOST_DEPTH or self._nodes > _MOST_NODES:
            return "Any"
        if isinstance(reference := schema.get("$ref"), str):
            return self._referred(reference, depth)
        if "const" in schema:
            return _literal([schema["const"]]) or "Any"
        if isinstance(values := schema.get("enum"), list) and (found := _literal(values)):
            return found
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                return self._union(options, name, depth)
        parts = schema.get("allOf")
        if isinstance(parts, list) and len(parts) == 1 and "properties" not in schema:
            return self.type_of(parts[0], name, depth)
        return self._by_type(schema, name, depth)

    def _by_type(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union([{**schema, "type": each} for each in kind], name, depth)
        if isinstance(kind, str) and kind in _PLAIN:
            return _PLAIN[kind] + (" | None" if schema.get("nullable") is True and kind != "null" else "")
        if kind == "array" or (kind is None and "items" in schema):
            return f"list[{self.type_of(schema.get('items'), name + 'Item', depth + 1)}]"
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, name, depth)
        return "Any"

    def _object(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        members = schema.get("properties")
        if isinstance(members, dict) and 0 < len(members) <= _MOST_MEMBERS:
            if len(self.classes) < _MOST_CLASSES:
                return self._class(schema, members, self._free(name), depth)
        elif isinstance(rest := schema.get("additionalProperties"), dict) and not members:
            return f"dict[str, {self.type_of(rest, name + 'Value', depth + 1)}]"
        return "dict[str, Any]"

    def _class(self, schema: Mapping[str, Any], members: Mapping[str, Any], name: str, depth: int) -> str:
        place = len(self.classes)
        self.classes.append("")  # counted before its members are: they may need classes too
        listed = schema.get("required")
        required = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()
        lines: list[tuple[str, str]] = []
        for key, member in members.items():
            of = self.type_of(member, name + _capitals(key), depth + 1)
            lines.append((key, of if key in required else f"NotRequired[{of}]"))
        inline = _inline(lines)
        if len(self.classes) == place + 1 and len(inline) <= _INLINE:
            self.classes.pop()
            return inline
        self.classes[place] = _declared(name, lines)
        return name

    def _union(self, options: list[Any], name: str, depth: int) -> str:
        if not 0 < len(options) <= _MOST_OPTIONS:
            return "Any"
        found = [self.type_of(option, name, depth + 1) for option in options]
        different = list(dict.fromkeys(part for of in found for part in _parts(of)))
        if "Any" in different:
            return "Any"
        return " | ".join(sorted(different, key=lambda of: of == "None"))

    def _referred(self, reference: str, depth: int) -> str:
        known = self._by_reference.get(reference)
        if known is not None:
            return known
        start = next((each for each in _REFERENCES if reference.startswith(each)), None)
        if start is None:
            return "Any"
        key = reference[len(start) :].replace("~1", "/").replace("~0", "~")
        definitions = self._root.get(start[2:-1])
        target = definitions.get(key) if isinstance(definitions, dict) else None
        # A definition that needs itself is Any there: a type cannot be written in parts that have no end.
        self._by_reference[reference] = "Any"
        found = self._by_reference[reference] = self.type_of(target, _capitals(key), depth)
        return found

    def _free(self, name: str) -> str:
        wanted = name = identifier(name, "Type")
        number = 1
        while name in self._names:
            number += 1
            name = f"{wanted}{number}"
        self._names.add(name)
        return name


def literal(value: Any) -> str | None:
    """Return a short constant of JSON in Python, in characters that print; None for any other value."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int | float) and value == value and abs(value) < 1e15:
        return repr(value)
    if isinstance(value, str) and len(value) <= _LONGEST_CONSTANTS:
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else ascii(value)
    return None


def class_name(name: str) -> str:
    """Return the name of a tool as the name of a class."""
    return identifier(_capitals(name), "Type")


def _literal(values: list[Any]) -> str | None:
    """Return a type of a few constants; without constants of JSON that are no literals in Python."""
    if not values or len(values) > _MOST_CONSTANTS:
        return None
    found = [literal(value) for value in values if not isinstance(value, float | list | dict)]
    known = [each for each in found if each is not None]
    if len(known) != len(values) or sum(map(len, known)) > _LONGEST_CONSTANTS:
        return None
    return f"Literal[{', '.join(dict.fromkeys(known))}]"


def _declared(name: str, members: list[tuple[str, str]]) -> str:
    if all(key and identifier(key, "_") == key for key, _ in members):
        return f"class {name}(TypedDict):\n" + "\n".join(f"    {key}: {of}" for key, of in members)
    return f"{name} = TypedDict({literal(name)}, {_inline(members)})"


def _inline(members: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{literal(key) or ascii(key)}: {of}" for key, of in members) + "}"


def _capitals(name: str) -> str:
    words = identifier(name, "x").replace("-", "_").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words if word)


def _parts(of: str) -> list[str]:
    """Return the options of a union, without looking inside brackets."""
    return of.split(" | ") if "[" not in of and "{" not in of else [of]
