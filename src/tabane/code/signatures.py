"""Tools as typed functions of Python: their names and signature, and how arguments become JSON; pure.

A name of MCP may have any characters. Its identifier keeps letters, digits and underscores; each run of other
characters becomes one underscore. Keywords get an underscore at the end. No identifier begins with an
underscore, because a script cannot import such a name.

Types come from JSON Schema, and are hints. What cannot be said shortly becomes ``Any``: schemas come from
servers, and may be large.
"""

from __future__ import annotations

import itertools
import json
import keyword
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from tabane.search.snippets import first_sentence, one_line
from tabane.text.cutting import shortened
from tabane.text.nearest_names import nearest

LONGEST = 80
"""Characters of an identifier, without its suffix."""


def identifier(name: str, prefix: str) -> str:
    """Return the identifier of one name. One that would begin with a digit, or be empty, gets ``prefix_``."""
    plain = unicodedata.normalize("NFKC", name)
    kept = "".join(each if f"a{each}".isidentifier() else " " for each in plain)
    found = "_".join(kept.split()).strip("_")[:LONGEST]
    if not found.isidentifier():
        found = f"{prefix}_{found}".rstrip("_")
    return f"{found}_" if keyword.iskeyword(found) else found


def identifiers(
    names: Iterable[str], prefix: str, taken: Iterable[str] = (), reserved: Collection[str] = ()
) -> dict[str, str]:
    """Return a different identifier for each name.

    A name that is an identifier already keeps it. Names that collide get a number as a suffix, in the order
    of the names: the answer depends on the set of names alone. No name gets an identifier of ``taken``.
    One of ``reserved`` gets an underscore at the end, as a keyword does.
    """
    used, found = set(taken), dict[str, str]()
    for name in sorted(set(names), key=lambda name: (identifier(name, prefix) != name, name)):
        wanted = identifier(name, prefix)
        wanted = free = f"{wanted}_" if wanted in reserved else wanted
        number = 1
        while free in used:
            number += 1
            free = f"{wanted}_{number}"
        used.add(free)
        found[name] = free
    return found


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
            return self._referred_type(reference, depth)
        if "const" in schema:
            return _literal_type([schema["const"]]) or "Any"
        if isinstance(values := schema.get("enum"), list) and (found := _literal_type(values)):
            return found
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                return self._union_type(options, name, depth)
        parts = schema.get("allOf")
        if isinstance(parts, list) and len(parts) == 1 and "properties" not in schema:
            return self.type_of(parts[0], name, depth)
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union_type([{**schema, "type": each} for each in kind], name, depth)
        if isinstance(kind, str) and kind in _PLAIN:
            return _PLAIN[kind] + (" | None" if schema.get("nullable") is True and kind != "null" else "")
        if kind == "array" or (kind is None and "items" in schema):
            return f"list[{self.type_of(schema.get('items'), name + 'Item', depth + 1)}]"
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object_type(schema, name, depth)
        return "Any"

    def _object_type(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        members = schema.get("properties")
        if isinstance(members, dict) and 0 < len(members) <= _MOST_MEMBERS:
            if len(self.classes) < _MOST_CLASSES:
                return self._class_type(schema, members, self._free_name(name), depth)
        elif isinstance(rest := schema.get("additionalProperties"), dict) and not members:
            return f"dict[str, {self.type_of(rest, name + 'Value', depth + 1)}]"
        return "dict[str, Any]"

    def _class_type(
        self, schema: Mapping[str, Any], members: Mapping[str, Any], name: str, depth: int
    ) -> str:
        place = len(self.classes)
        self.classes.append("")  # counted before its members are: they may need classes too
        listed = schema.get("required")
        required = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()
        lines: list[tuple[str, str]] = []
        for key, member in members.items():
            of = self.type_of(member, name + _capital_words(key), depth + 1)
            lines.append((key, of if key in required else f"NotRequired[{of}]"))
        inline = _inline_type(lines)
        if len(self.classes) == place + 1 and len(inline) <= _INLINE:
            self.classes.pop()
            return inline
        self.classes[place] = _declare_class(name, lines)
        return name

    def _union_type(self, options: list[Any], name: str, depth: int) -> str:
        if not 0 < len(options) <= _MOST_OPTIONS:
            return "Any"
        found = [self.type_of(option, name, depth + 1) for option in options]
        # Unions are taken apart, but not inside brackets.
        parts = (of.split(" | ") if "[" not in of and "{" not in of else [of] for of in found)
        different = list(dict.fromkeys(itertools.chain.from_iterable(parts)))
        if "Any" in different:
            return "Any"
        return " | ".join(sorted(different, key=lambda of: of == "None"))

    def _referred_type(self, reference: str, depth: int) -> str:
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
        found = self._by_reference[reference] = self.type_of(target, _capital_words(key), depth)
        return found

    def _free_name(self, name: str) -> str:
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
    return identifier(_capital_words(name), "Type")


def _literal_type(values: list[Any]) -> str | None:
    """Return a type of a few constants; without constants of JSON that are no literals in Python."""
    if not values or len(values) > _MOST_CONSTANTS:
        return None
    found = [literal(value) for value in values if not isinstance(value, float | list | dict)]
    known = [each for each in found if each is not None]
    if len(known) != len(values) or sum(map(len, known)) > _LONGEST_CONSTANTS:
        return None
    return f"Literal[{', '.join(dict.fromkeys(known))}]"


def _declare_class(name: str, members: list[tuple[str, str]]) -> str:
    if all(key and identifier(key, "_") == key for key, _ in members):
        return f"class {name}(TypedDict):\n" + "\n".join(f"    {key}: {of}" for key, of in members)
    return f"{name} = TypedDict({literal(name)}, {_inline_type(members)})"


def _inline_type(members: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{literal(key) or ascii(key)}: {of}" for key, of in members) + "}"


def _capital_words(name: str) -> str:
    words = identifier(name, "x").replace("-", "_").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words if word)


_LONGEST = 4_000
"""Characters of a signature with its classes. A longer one is written without classes."""

_MOST_PARAMETERS = 60
_SENTENCE = 120
_CONSTANT = 24
_FULL_SHARE = 0.6
"""Share of the found tools that get a signature. The others are only named, as in mode search."""


class WrongArguments(Exception):
    """Arguments of a call in a script that do not fit. Its text is for the script."""


class ToolParameter(Struct, frozen=True):
    """A parameter: its identifier, its name in JSON, and its schema."""

    identifier: str
    name: str
    schema: Any
    required: bool


class ScriptTool(Struct, frozen=True, dict=True):
    """A tool as a function: ``module`` is empty for one that is imported from ``tools`` itself.

    ``name`` is the public name of the tool, ``schema`` that of its arguments, ``result`` that of its results
    (None if it declares none). ``changes`` is False if the tool is marked read-only. ``learned``: the tool
    declares no schema of its results. This one was learned from so many.
    """

    module: str
    function: str
    name: str
    description: str = ""
    schema: Mapping[str, Any] = {}
    result: Mapping[str, Any] | None = None
    changes: bool = True
    learned: int = 0

    @property
    def path(self) -> str:
        """The function as a script names it after its import: ``github.search_issues``."""
        return f"{self.module}.{self.function}" if self.module else self.function

    @cached_property
    def parameters(self) -> tuple[ToolParameter, ...]:
        """The parameters, those that are required first."""
        members = self.schema.get("properties")
        if not isinstance(members, dict):
            return ()
        listed = self.schema.get("required")
        required = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()
        named = identifiers(members, "arg")
        found = [ToolParameter(named[key], key, of, key in required) for key, of in members.items()]
        return tuple(sorted(found, key=lambda each: not each.required))

    @property
    def wrapped(self) -> bool:
        """Whether results are wrapped, because they are no objects."""
        return self.result is not None and self.result.get("x-fastmcp-wrap-result") is True

    @property
    def takes_more(self) -> bool:
        """Whether the tool says that it takes arguments that it does not declare, or says nothing."""
        return self.schema.get("additionalProperties", "properties" not in self.schema) is not False

    @property
    def closed(self) -> bool:
        """Whether the tool says that it takes no arguments that it does not declare."""
        return self.schema.get("additionalProperties") is False

    def arguments(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as the tool gets them. Raises WrongArguments."""
        known = {each.identifier: each.name for each in self.parameters}
        if len(given) > len(self.parameters):
            raise WrongArguments(self._call_problem(f"takes {len(self.parameters)} arguments at most"))
        found = {each.name: value for each, value in zip(self.parameters, given, strict=False)}
        for key, value in named.items():
            name = known.get(key, key)
            if name in found:
                raise WrongArguments(self._call_problem(f"got the argument {key} twice"))
            if key not in known:
                self._check_unknown(key, list(known))
            found[name] = value
        missing = [each.identifier for each in self.parameters if each.required and each.name not in found]
        if missing:
            raise WrongArguments(self._call_problem(f"needs {', '.join(missing)}"))
        # As for any call of Python, None is how a script says that it has no value for an optional argument.
        optional = {each.name for each in self.parameters if not each.required}
        return {key: value for key, value in found.items() if value is not None or key not in optional}

    def _check_unknown(self, key: str, known: list[str]) -> None:
        """Raise WrongArguments for a name that the tool does not take, or that looks misspelled."""
        near = nearest(key, known)
        if near or self.closed:
            hint = f" Did you mean {near[0]}?" if near else ""
            raise WrongArguments(self._call_problem(f"has no parameter {key}.{hint}"))

    def _call_problem(self, what: str) -> str:
        return f"{self.path} {what.rstrip('.')}. {_function_line(self, None).rstrip(':')}"


def signature(tool: ScriptTool) -> str:
    """Return a tool as a typed function with the classes of its types, and the first sentence about it."""
    scope = TypeScope({**tool.schema}, taken=(class_name(tool.function),))
    head = _function_line(tool, scope)
    text = _with_doc(tool, [*scope.classes, *_origin_lines(tool), head])
    if len(text) <= _LONGEST:
        return text
    return _with_doc(tool, [*_origin_lines(tool), shortened(_function_line(tool, None), _LONGEST)])


def _origin_lines(tool: ScriptTool) -> list[str]:
    """Return what a model has to know of a type that no server declares."""
    if not tool.learned:
        return []
    return [f"# The type of the result was learned from {tool.learned} results. Others may differ."]


def _function_line(tool: ScriptTool, scope: TypeScope | None) -> str:
    """Return the line of the function. Without ``scope``, types of objects have no classes."""
    shown = tool.parameters[:_MOST_PARAMETERS]
    written = [_parameter_text(each, tool, scope) for each in shown]
    if tool.takes_more or len(tool.parameters) > len(shown):
        written.append("**more: Any")
    result = _result_type(tool, scope)
    return f"async def {tool.function}({', '.join(written)}) -> {result}:"


def _parameter_text(each: ToolParameter, tool: ScriptTool, scope: TypeScope | None) -> str:
    if scope is None:
        of = _without_classes(each.schema, tool.schema)
    else:
        of = scope.type_of(each.schema, class_name(f"{tool.function}_{each.identifier}"))
    if each.required:
        return f"{each.identifier}: {of}"
    usual = each.schema.get("default") if isinstance(each.schema, dict) else None
    written = literal(usual) if usual is not None else None
    return f"{each.identifier}: {of} = {written if written and len(written) <= _CONSTANT else '...'}"


def _result_type(tool: ScriptTool, scope: TypeScope | None) -> str:
    if tool.result is None:
        return "Any"
    schema = unwrapped(tool.result)
    if scope is None:
        return _without_classes(schema, tool.result)
    inner = TypeScope(tool.result, taken=(class_name(tool.function),))
    found = inner.type_of(schema, class_name(f"{tool.function}_result"))
    scope.classes.extend(inner.classes)
    return found


def unwrapped(result: Mapping[str, Any]) -> Any:
    """Return the schema of the value that a script gets: of one that FastMCP has wrapped, the inside."""
    members = result.get("properties")
    if result.get("x-fastmcp-wrap-result") is True and isinstance(members, dict):
        return members.get("result", result)
    return result


def _without_classes(schema: Any, root: Mapping[str, Any]) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "object" or (kind is None and isinstance(schema, dict) and "properties" in schema):
        return "dict[str, Any]"
    if kind == "array":
        return "list[Any]"
    scope = TypeScope(root)
    found = scope.type_of(schema, "T")
    return "Any" if scope.classes or len(found) > _LONGEST // 20 else found


def _with_doc(tool: ScriptTool, parts: list[str]) -> str:
    sentence = shortened(one_line(first_sentence(tool.description)), _SENTENCE)
    doc = "".join(each for each in sentence if each.isprintable()).replace("\\", "/").replace('"""', "'''")
    if not doc.strip("'"):
        return "\n".join(parts) + " ..."
    return "\n".join([*parts, f'    """{doc.strip(chr(34))}"""'])


def signatures_text(tools: Sequence[ScriptTool]) -> str:
    """Return tools, the best first, for a model: one line that imports them, then signatures by module.

    Those that are imported from ``tools`` itself come first. The last tools are only named.
    """
    if not tools:
        return ""
    full = max(1, round(len(tools) * _FULL_SHARE))
    by_module: dict[str, list[ScriptTool]] = {"": []}
    for tool in tools[:full]:
        by_module.setdefault(tool.module, []).append(tool)
    imports = dict.fromkeys(tool.module or tool.function for tool in tools[:full])
    lines = [f"from tools import {', '.join(imports)}"]
    for module, found in by_module.items():
        if module:
            lines.append(f"# await {module}.{found[0].function}(…)")
        lines.extend(signature(tool) for tool in found)
    if others := ", ".join(tool.path for tool in tools[full:]):
        lines.append(f"# Also: {others}")
    return "\n".join(lines)
