"""Tools as typed functions of Python: their signature, and how arguments of a call become JSON; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from tabane.code.identifiers import identifiers
from tabane.code.json_types import TypeScope, class_name, literal
from tabane.search.snippets import first_sentence, one_line
from tabane.text.cutting import shortened
from tabane.text.nearest_names import nearest

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
        """Return the function as a script names it after its import: ``github.search_issues``."""
        return f"{self.module}.{self.function}" if self.module else self.function

    @cached_property
    def parameters(self) -> tuple[ToolParameter, ...]:
        """Return the parameters, those that are required first."""
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
        """Return whether results are wrapped, because they are no objects."""
        return self.result is not None and self.result.get("x-fastmcp-wrap-result") is True

    @property
    def takes_more(self) -> bool:
        """Return whether the tool says that it takes arguments that it does not declare, or says nothing."""
        return self.schema.get("additionalProperties", "properties" not in self.schema) is not False

    @property
    def closed(self) -> bool:
        """Return whether the tool says that it takes no arguments that it does not declare."""
        return self.schema.get("additionalProperties") is False

    def arguments(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as the tool gets them. Raises WrongArguments."""
        known = {each.identifier: each.name for each in self.parameters}
        if len(given) > len(self.parameters):
            raise WrongArguments(self._say(f"takes {len(self.parameters)} arguments at most"))
        found = {each.name: value for each, value in zip(self.parameters, given, strict=False)}
        for key, value in named.items():
            name = known.get(key, key)
            if name in found:
                raise WrongArguments(self._say(f"got the argument {key} twice"))
            if key not in known:
                self._check_unknown(key, list(known))
            found[name] = value
        missing = [each.identifier for each in self.parameters if each.required and each.name not in found]
        if missing:
            raise WrongArguments(self._say(f"needs {', '.join(missing)}"))
        # As for any call of Python, None is how a script says that it has no value for an optional argument.
        optional = {each.name for each in self.parameters if not each.required}
        return {key: value for key, value in found.items() if value is not None or key not in optional}

    def _check_unknown(self, key: str, known: list[str]) -> None:
        """Raise WrongArguments for a name that the tool does not take, or that looks misspelled."""
        near = nearest(key, known)
        if near or self.closed:
            hint = f" Did you mean {near[0]}?" if near else ""
            raise WrongArguments(self._say(f"has no parameter {key}.{hint}"))

    def _say(self, what: str) -> str:
        return f"{self.path} {what.rstrip('.')}. {_head(self, None).rstrip(':')}"


def signature(tool: ScriptTool) -> str:
    """Return a tool as a typed function with the classes of its types, and the first sentence about it."""
    scope = TypeScope({**tool.schema}, taken=(class_name(tool.function),))
    head = _head(tool, scope)
    text = _with_doc(tool, [*scope.classes, *_origin(tool), head])
    if len(text) <= _LONGEST:
        return text
    return _with_doc(tool, [*_origin(tool), shortened(_head(tool, None), _LONGEST)])


def _origin(tool: ScriptTool) -> list[str]:
    """Return what a model has to know of a type that no server declares."""
    if not tool.learned:
        return []
    return [f"# The type of the result was learned from {tool.learned} results. Others may differ."]


def _head(tool: ScriptTool, scope: TypeScope | None) -> str:
    """Return the line of the function. Without ``scope``, types of objects have no classes."""
    shown = tool.parameters[:_MOST_PARAMETERS]
    written = [_parameter(each, tool, scope) for each in shown]
    if tool.takes_more or len(tool.parameters) > len(shown):
        written.append("**more: Any")
    result = _result(tool, scope)
    return f"async def {tool.function}({', '.join(written)}) -> {result}:"


def _parameter(each: ToolParameter, tool: ScriptTool, scope: TypeScope | None) -> str:
    if scope is None:
        of = _without_classes(each.schema, tool.schema)
    else:
        of = scope.type_of(each.schema, class_name(f"{tool.function}_{each.identifier}"))
    if each.required:
        return f"{each.identifier}: {of}"
    usual = each.schema.get("default") if isinstance(each.schema, dict) else None
    written = literal(usual) if usual is not None else None
    return f"{each.identifier}: {of} = {written if written and len(written) <= _CONSTANT else '...'}"


def _result(tool: ScriptTool, scope: TypeScope | None) -> str:
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
