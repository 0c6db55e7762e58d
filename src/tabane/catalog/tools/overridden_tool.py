"""Tools as the user's overrides show them: their names, texts and parameters, and the faults of overrides.

Single parameters are withheld, described or given a default in the schema of the arguments; pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw, Struct, structs

from tabane.catalog.tools.aliases import SEPARATOR, other_names
from tabane.catalog.tools.tool import ArgumentOverrides, Tool, original_name, read_tool
from tabane.messages import Message, say
from tabane.text.nearest_names import nearest
from tabane.wire.json import decode, encode, fields, join, member
from tabane.wire.mirrored_arguments import mirrors

if TYPE_CHECKING:
    from tabane.servers.server import Server
    from tabane.servers.tool_overrides import ParameterOverride, ToolOverride

MOST_STEPS = 20_000
MOST_DEPTH = 64

Schema = dict[str, Any] | bool


class UnchangeableSchema(Exception):
    """A schema that is too deep, too large or refers to itself, or that nothing would fit."""


class ParameterChange(Struct, frozen=True):
    """A parameter, and what becomes of it. ``value`` is the fixed one, if there is one.

    ``optional``: a value is sent if the caller gives none. ``default`` is what the schema says of it.
    """

    name: str
    withheld: bool = False
    sent: bool = False
    value: Any = None
    description: str | None = None
    optional: bool = False
    shows_default: bool = False
    default: Any = None


def has_parameter(schema: Mapping[str, Any], name: str) -> bool:
    """Return whether the schema names the parameter, also in an alternative or behind a reference."""
    return any(
        isinstance(named := part.get("properties"), dict) and name in named for part in _in_place(schema)
    )


def requires(schema: Mapping[str, Any], name: str) -> bool:
    """Return whether no call is valid without the parameter, as far as the schema says so by itself."""
    return any(_holds(part.get("required"), name) for part in _in_place(schema, all_apply=True))


def changed_schema(schema: dict[str, Any], parameter: ParameterChange) -> dict[str, Any]:
    """Return the schema with the change of one parameter. Raises UnchangeableSchema."""
    change = _Withheld(schema, parameter) if parameter.withheld else _Shown(schema, parameter)
    found = change.changed(schema, 0, ())
    if found is False:
        raise UnchangeableSchema
    if found is True:
        return {"type": "object"}
    assert isinstance(found, dict)
    return found if "type" in found else {"type": "object", **found}


def _holds(names: Any, name: str) -> bool:
    return isinstance(names, list) and name in names


def _in_place(root: Mapping[str, Any], *, all_apply: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that apply to the arguments themselves. ``all_apply``: only those that always do."""
    waiting: list[Any] = [root]
    seen: set[int] = set()
    for part in waiting:  # which grows as it is read
        if not isinstance(part, dict) or id(part) in seen or len(seen) > MOST_STEPS:
            continue
        seen.add(id(part))
        yield part
        waiting.append(_target(root, part.get("$ref")))
        keywords = ("allOf",) if all_apply else ("allOf", "anyOf", "oneOf")
        for keyword in keywords:
            if isinstance(part.get(keyword), list):
                waiting.extend(part[keyword])
        if not all_apply:
            waiting.extend(part.get(keyword) for keyword in ("if", "then", "else"))
            for keyword in ("dependentSchemas", "dependencies"):
                if isinstance(part.get(keyword), dict):
                    waiting.extend(part[keyword].values())


def _target(root: Mapping[str, Any], reference: Any) -> Any:
    """Return the schema that a reference within the document leads to; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return root if reference == "#" else None
    found: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdigit() and len(step) < 6 and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


class _Change:
    """One change, applied to each schema that applies to the arguments themselves."""

    def __init__(self, root: Mapping[str, Any], parameter: ParameterChange) -> None:
        self._root, self._parameter = root, parameter
        self._steps = 0

    def changed(self, schema: Any, depth: int, followed: tuple[str, ...]) -> Schema:
        """Return the changed schema; True and False for one that fits always or never."""
        self._steps += 1
        if self._steps > MOST_STEPS or depth > MOST_DEPTH:
            raise UnchangeableSchema
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else True
        found = dict(schema)
        return self._edited(found, depth + 1, followed)

    def _edited(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> Schema:
        raise NotImplementedError

    def _inlined(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> Schema:
        """Remove a reference whose target has to change. Return the changed copy."""
        reference = found.get("$ref")
        target = _target(self._root, reference)
        if not isinstance(target, dict) or not isinstance(reference, str):
            return True
        if reference in followed:
            raise UnchangeableSchema
        copy = self.changed(target, depth, (*followed, reference))
        if copy == target:
            return True
        del found["$ref"]
        return copy


_BESIDE = frozenset(("$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "type"))
"""Keywords that mean the same beside those of another schema."""


def _with_also(found: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return the schema with another one that applies too."""
    if schema is True:
        return found
    if isinstance(schema, dict) and schema.keys() == {"required"}:
        before = found.get("required")
        names = [*(before if isinstance(before, list) else ()), *schema["required"]]
        return {**found, "required": list(dict.fromkeys(names))}
    if (
        isinstance(schema, dict)
        and found.keys() <= _BESIDE
        and all(found[key] == schema[key] for key in found.keys() & schema.keys())
    ):
        return found | schema
    before = found.get("allOf")
    return {**found, "allOf": [*(before if isinstance(before, list) else ()), schema]}


class _Shown(_Change):
    """Another description of a parameter, or a default for it."""

    def _edited(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> Schema:
        also = self._inlined(found, depth, followed)
        given = self._parameter
        named = found.get("properties")
        if isinstance(named, dict) and given.name in named:
            found["properties"] = {**named, given.name: self._describe_parameter(named[given.name])}
        if given.optional and _holds(found.get("required"), given.name):
            _set_or_drop(found, "required", [name for name in found["required"] if name != given.name])
        for keyword in ("allOf", "anyOf", "oneOf"):
            if isinstance(found.get(keyword), list):
                found[keyword] = [self.changed(part, depth, followed) for part in found[keyword]]
        for keyword in ("then", "else"):
            if keyword in found:
                found[keyword] = self.changed(found[keyword], depth, followed)
        return _with_also(found, also)

    def _describe_parameter(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            if schema is not True:
                return schema
            schema = {}
        given = self._parameter
        found = dict(schema)
        if given.description is not None:
            found["description"] = given.description
        if given.optional:
            found.pop("default", None)
        if given.shows_default:
            found["default"] = given.default
        return found


class _Withheld(_Change):
    """A parameter that callers neither see nor give: it has a fixed value, or is never sent."""

    def __init__(self, root: Mapping[str, Any], parameter: ParameterChange) -> None:
        super().__init__(root, parameter)
        self._unsure = False
        """Whether a result accepts more than the schema, because a value was not checked."""

    def _edited(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> Schema:
        also = [self._inlined(found, depth, followed)]
        self._data(found)
        if not (self._properties(found) and self._required(found) and self._counts(found)):
            return False
        also += self._dependent(found, depth, followed)
        fits = self._alternatives(found, depth, followed) and self._negation(found, depth, followed)
        if not fits:
            return False
        also.append(self._condition(found, depth, followed))
        for schema in also:
            if schema is False:
                return False
            found = _with_also(found, schema)
        return found or True

    def _surely(self, schema: Any, depth: int, followed: tuple[str, ...]) -> tuple[Schema, bool]:
        """Return the changed schema, and whether it accepts exactly what it should."""
        before, self._unsure = self._unsure, False
        decided = self.changed(schema, depth, followed)
        sure = not self._unsure
        self._unsure = before or not sure
        return decided, sure

    def _properties(self, found: dict[str, Any]) -> bool:
        """Remove the parameter. Return whether its value may be one that the schema allows."""
        given, named = self._parameter, found.get("properties")
        there = isinstance(named, dict) and given.name in named
        if isinstance(named, dict) and there:
            left = {key: part for key, part in named.items() if key != given.name}
            _set_or_drop(found, "properties", left)
        if not given.sent:
            return True
        if _UNJUDGED & found.keys():
            self._unsure = True
        for keyword in ("const", "enum"):  # of all arguments together
            found.pop(keyword, None)
        if isinstance(named, dict) and there:
            fits = _may_fit(named[given.name], given.value)
            self._unsure = self._unsure or fits is None
            return fits is not False
        return not (found.get("additionalProperties") is False and "patternProperties" not in found)

    def _required(self, found: dict[str, Any]) -> bool:
        """Take the parameter out of those that are required. Return whether it can be there."""
        name = self._parameter.name
        if not _holds(found.get("required"), name):
            return True
        if not self._parameter.sent:
            return False
        _set_or_drop(found, "required", [each for each in found["required"] if each != name])
        return True

    def _counts(self, found: dict[str, Any]) -> bool:
        """Count the parameter that is always sent. Return whether there is room for it."""
        if not self._parameter.sent:
            return True
        for keyword in ("minProperties", "maxProperties"):
            count = found.get(keyword)
            if isinstance(count, int | float) and not isinstance(count, bool):
                if keyword == "maxProperties" and count < 1:
                    return False
                found[keyword] = max(0, count - 1)
        return True

    def _data(self, found: dict[str, Any]) -> None:
        """Remove the parameter from defaults and examples of all arguments."""
        name = self._parameter.name
        if isinstance(found.get("default"), dict):
            found["default"] = {key: part for key, part in found["default"].items() if key != name}
        if isinstance(found.get("examples"), list):
            found["examples"] = [
                {key: part for key, part in each.items() if key != name} if isinstance(each, dict) else each
                for each in found["examples"]
            ]

    def _dependent(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> list[Schema]:
        """Decide what depends on the parameter. Return the schemas that apply because of it."""
        also: list[Schema] = []
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            rules = found.get(keyword)
            if isinstance(rules, dict):
                left = dict(rules)
                rule = left.pop(self._parameter.name, True)
                if self._parameter.sent:
                    if isinstance(rule, list):
                        names = [name for name in rule if name != self._parameter.name]
                        also.append({"required": names} if names else True)
                    else:
                        also.append(self.changed(rule, depth, followed))
                _set_or_drop(found, keyword, self._rules(left, depth, followed))
        return also

    def _rules(self, rules: dict[str, Any], depth: int, followed: tuple[str, ...]) -> dict[str, Any]:
        """Return what other parameters demand. One that demands what is never sent cannot be given."""
        left: dict[str, Any] = {}
        for key, rule in rules.items():
            if not isinstance(rule, list):
                left[key] = self.changed(rule, depth, followed)
            else:
                sent = self._parameter.sent
                left[key] = [name for name in rule if not (sent and name == self._parameter.name)]
        return left

    def _alternatives(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> bool:
        """Decide the parts that combine schemas. Return whether anything can fit."""
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = found.pop(keyword, None)
            if not isinstance(parts, list):
                continue
            pairs = [self._surely(part, depth, followed) for part in parts]
            left = [part for part, _ in pairs if part is not (keyword == "allOf")]
            if False in left or (keyword != "allOf" and not left):
                return False
            # Of several that may fit, not exactly one has to, if it is not known which do.
            one = keyword == "oneOf" and all(sure for _, sure in pairs)
            always = left == [True] or (not one and True in left)
            if left and not always:
                self._add(found, keyword if keyword != "oneOf" or one else "anyOf", left)
        return True

    @staticmethod
    def _add(found: dict[str, Any], keyword: str, parts: list[Schema]) -> None:
        if keyword in found:
            found.setdefault("allOf", []).append({keyword: parts})
        else:
            found[keyword] = parts

    def _negation(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> bool:
        """Decide "not". Return whether anything can fit. What may not fit is not excluded."""
        if "not" not in found:
            return True
        decided, sure = self._surely(found.pop("not"), depth, followed)
        if not sure or decided is False:
            return True
        found["not"] = decided
        return decided is not True

    def _condition(self, found: dict[str, Any], depth: int, followed: tuple[str, ...]) -> Schema:
        """Decide "if". Return the schema that applies because of it."""
        condition = found.pop("if", None)
        branches = found.pop("then", True), found.pop("else", True)
        if condition is None:  # then the branches mean nothing
            return True
        decided, sure = self._surely(condition, depth, followed)
        then, otherwise = (self.changed(branch, depth, followed) for branch in branches)
        if not sure:
            return True
        if isinstance(decided, bool):
            return then if decided else otherwise
        return {"if": decided, "then": then, "else": otherwise}


_UNJUDGED = frozenset(
    ("const", "enum", "patternProperties", "propertyNames", "unevaluatedProperties", "$dynamicRef")
)
"""Keywords that say something of a parameter whose value is not checked for that."""


def _set_or_drop(found: dict[str, Any], keyword: str, value: Any) -> None:
    if value:
        found[keyword] = value
    else:
        found.pop(keyword, None)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
    "number": (int, float),
    "integer": (int, float),
}


_JUDGED = frozenset(("type", "const", "enum", "title", "description", "default", "examples", "x-mcp-header"))


def _may_fit(schema: Any, value: Any) -> bool | None:
    """Return whether a value fits, by keywords that cost nothing (type, const, enum); None if unknown."""
    if not isinstance(schema, dict):
        return schema is not False
    if "const" in schema and not _same(schema["const"], value):
        return False
    if isinstance(schema.get("enum"), list) and not any(_same(each, value) for each in schema["enum"]):
        return False
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(kinds, list) and not any(_is_a(kind, value) for kind in kinds):
        return False
    return True if schema.keys() <= _JUDGED else None


def _same(one: Any, other: Any) -> bool:
    """Compare values of JSON: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _is_a(kind: Any, value: Any) -> bool:
    if kind not in _TYPES:
        return True
    if isinstance(value, bool):
        return bool(kind == "boolean")
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


class OverriddenTool(NamedTuple):
    """A tool with its override applied, and what of the override could not be."""

    tool: Tool
    faults: tuple[Message, ...]


def shown_names(server: Server, originals: Iterable[str]) -> dict[str, str]:
    """Return the name that each tool of the server is shown with, by the server's own name.

    A new name that another tool of the server has is not used.
    """
    names = {name: name for name in originals}
    renamed = {each.tool: each.name for each in server.overrides if each.name and each.tool in names}
    names |= renamed
    while twice := [name for name in renamed if Counter(names.values())[names[name]] > 1]:
        for name in twice:
            names[name] = name
            del renamed[name]
    return names


def read_overridden(
    definition: bytes, server: Server, alias: str, override: ToolOverride, shown: str
) -> OverriddenTool | None:
    """Return the tool under its public name, as its override shows it. None if it has no usable name.

    ``shown`` is the name that the alias was made of.
    """
    plain = read_tool(definition, server, alias)
    if plain is None:
        return None
    schema, parameters, faults, refused = _ParameterChanges(plain.schema, override).result()
    changes: dict[str, Any] = {
        key: value
        for key, value in (("title", override.title), ("description", override.description))
        if value is not None
    }
    if schema is not plain.schema:
        changes["inputSchema"] = schema
    members = fields(definition)
    if override.annotations:
        hints = member(members, "annotations")
        changes["annotations"] = {**(hints if isinstance(hints, dict) else {}), **override.annotations}
    members |= {key: Raw(encode(value)) for key, value in changes.items()}
    tool = read_tool(join(members), server, alias) or plain
    others = (*tool.target.others, *_original_names(server, plain.name, alias, shown))
    return OverriddenTool(
        structs.replace(
            tool,
            renamed=shown if shown != plain.name else "",
            mirrored=mirrors(definition),
            target=structs.replace(tool.target, others=tuple(dict.fromkeys(others))),
            arguments=structs.replace(parameters, refused=override.refused or refused),
        ),
        (*faults, *_name_fault(override, shown)),
    )


def _original_names(server: Server, original: str, alias: str, shown: str) -> tuple[str, ...]:
    """Return what the tool was called before it was renamed: permissions with that name still hold."""
    if shown == original:
        return ()
    namespace = server.namespace
    plain = namespace + SEPARATOR + original if namespace else original
    return (plain, *other_names(server.name, namespace, original, alias))


def _name_fault(override: ToolOverride, shown: str) -> tuple[Message, ...]:
    if not override.name or override.name == shown:
        return ()
    return (say('another tool has the name "{name}", so it keeps its own.', name=override.name),)


def override_faults(server: Server, definitions: Iterable[bytes]) -> list[tuple[ToolOverride, Message]]:
    """Return what of the server's overrides has no effect on the tools that it listed, and why."""
    listed = {name: bytes(each) for each in definitions if (name := original_name(bytes(each)))}
    shown = shown_names(server, listed)
    found: list[tuple[ToolOverride, Message]] = []
    for override in server.overrides:
        if not override.tool:
            continue
        if override.tool not in listed:
            fault = say("the server has no tool of that name.")
            if near := nearest(override.tool, list(listed), 1):
                fault = say("the server has no tool of that name. Did you mean {near}?", near=near[0])
            found.append((override, fault))
            continue
        read = read_overridden(listed[override.tool], server, "tool", override, shown[override.tool])
        found += [(override, fault) for fault in (read.faults if read else ())]
    return found


class _ParameterChanges:
    """The overrides of a tool's parameters, applied to its schema one after the other."""

    def __init__(self, schema: dict[str, Any], override: ToolOverride) -> None:
        self._original, self._schema, self._override = schema, schema, override
        self._faults: list[Message] = []
        self._refused: Message | None = None
        self._fixed: dict[str, bytes] = {}
        self._defaults: dict[str, bytes] = {}
        self._withheld: set[str] = set()

    def result(self) -> tuple[dict[str, Any], ArgumentOverrides, tuple[Message, ...], Message | None]:
        """Return the schema as shown, what is sent, the faults, and why the tool cannot be called."""
        for each in self._override.parameters:
            value = each.fixed if each.fixed is not None else each.default if each.hidden else None
            if each.withheld:
                self._withheld.add(each.name)
            if each.fixed is not None or (each.hidden and value is not None):
                self._fixed[each.name] = value or b"null"
            elif each.default is not None:
                self._defaults[each.name] = each.default
            missing = self._missing(each.name)
            if missing is not None:
                self._fail(missing, required=value is not None)
            elif each.hidden and value is None and requires(self._original, each.name):
                self._withheld.discard(each.name)
                self._fail(
                    say(
                        'the tool requires the parameter {name}, so it is hidden only with "fixed" or '
                        '"default".',
                        name=each.name,
                    )
                )
            elif not self._changed(each, value):
                what = say("the schema of the tool allows no call with that for {name}.", name=each.name)
                self._fail(what, required=value is not None)
        sent = ArgumentOverrides(self._fixed, self._defaults, frozenset(self._withheld))
        return self._schema, sent, tuple(self._faults), self._refused

    def _missing(self, name: str) -> Message | None:
        """Return that the tool has no such parameter; None if it has."""
        if has_parameter(self._original, name):
            return None
        named = self._original.get("properties")
        if near := nearest(name, (list(named) if isinstance(named, dict) else []), 1):
            return say("the tool has no parameter {name}. Did you mean {near}?", name=name, near=near[0])
        return say("the tool has no parameter {name}.", name=name)

    def _changed(self, given: ParameterOverride, value: bytes | None) -> bool:
        """Change the schema. Return whether that is possible."""
        change = ParameterChange(
            given.name,
            given.withheld,
            value is not None,
            None if value is None else decode(value),
            given.description,
            given.default is not None,
            given.default is not None and given.shown_default,
            None if given.default is None else decode(given.default),
        )
        try:
            self._schema = changed_schema(self._schema, change)
        except UnchangeableSchema:
            return False
        return True

    def _fail(self, why: Message, *, required: bool = False) -> None:
        """Note a fault. ``required``: a value has to be sent, so the tool is not called without it."""
        self._faults.append(why)
        if required:
            self._refused = self._refused or why
