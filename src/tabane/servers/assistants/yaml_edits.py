"""Edits of YAML text that preserve every other character; pure.

A library would change indentation, quotes and folding. So only the lines of one entry are added, changed and
removed. The text is parsed before and after: a change that would mean anything else is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tabane.messages import say
from tabane.settings.editing import FormatSyntaxError, UnsafeTextEdit

LONGEST = 256 * 1024
"""Characters of a file that is read or edited: PyYAML takes about a second for them."""

MOST_VALUES = 50_000
"""Values of a document with its aliases written out: a few lines of aliases can stand for billions."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class TooManyAliases(yaml.YAMLError):
    """The document would be too large with its aliases written out."""


class YamlFormat:
    """YAML as the format of a client's file: see :class:`tabane.servers.assistants.formats.FileFormat`."""

    def value(self, text: str) -> Any:
        """Return the value of the whole text, an empty mapping if it is empty. Raises FormatSyntaxError."""
        try:
            found = read(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            raise FormatSyntaxError(line, column, say("expected valid {format}", format="YAML")) from None
        return {} if found is None else found

    def with_entry(self, text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """Return the text with the entry added or updated. Raises FormatSyntaxError and UnsafeTextEdit."""
        self.value(text)
        return with_mapping(text, path, entry)

    def without_entry(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the entry. Raises FormatSyntaxError and UnsafeTextEdit."""
        self.value(text)
        return without_mapping(text, path)

    def snippet(self, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """Return the lines that a person can add to such a file."""
        return snippet(path, entry)


def read(text: str) -> Any:
    """Return the value of a document; None if it is empty. Raises yaml.YAMLError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _size(root, {}, set())
        return loader.construct_document(root)
    except (ValueError, TypeError, RecursionError) as error:  # such as a date that does not exist
        raise yaml.YAMLError(str(error)) from None
    finally:
        loader.dispose()


def with_mapping(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text with the values in the mapping at ``path``; its other values stay.

    Raises UnsafeTextEdit, and yaml.YAMLError if the text is no YAML.
    """
    table = wanted = _parse_mapping(text)
    for name in path:
        inner = table.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise UnsafeTextEdit
        # a copy: an anchor may stand for the same mapping elsewhere
        table[name] = dict(inner or {})
        table = table[name]
    table.update(values)
    return _check_meaning(_with_values(text, path, values), wanted)


def without_mapping(text: str, path: Sequence[str]) -> str:
    """Return the text without the mapping at ``path``, and unchanged if there is none. Raises as above."""
    wanted = _parse_mapping(text)
    table: Any = wanted
    for name in path[:-1]:
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict) or path[-1] not in table:
        return text
    del table[path[-1]]
    above = _found(_compose_root(text), path[:-2])
    found = _find_pair(above, path[-2]) if isinstance(above, MappingNode) else None
    if found is None or not isinstance(found[1], MappingNode):
        raise UnsafeTextEdit
    return _check_meaning(_remove_pair(text, found[0], found[1], path[-1]), wanted)


def snippet(path: Sequence[str], values: Mapping[str, Any], indent: int = 0, newline: str = "\n") -> str:
    """Return the mapping as it is written into a file, its first key indented by ``indent`` columns."""
    lines = [f"{' ' * (indent + 2 * depth)}{_yaml_scalar(name)}:" for depth, name in enumerate(path)]
    inner = " " * (indent + 2 * len(path))
    lines += [f"{inner}{_yaml_scalar(key)}: {_yaml_scalar(part)}" for key, part in values.items()]
    return "".join(line + newline for line in lines)


# -- adding --------------------------------------------------------------------------------------


def _with_values(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    place = _compose_root(text)
    if place is None:
        return _insert_lines(text, len(text), snippet(path, values, 0, _line_end(text)))
    for depth, name in enumerate(path):
        if not isinstance(place, MappingNode):
            raise UnsafeTextEdit
        found = _find_pair(place, name)
        if found is None:
            return _add_lines(text, place, path[depth:], values, root=depth == 0)
        key, value = found
        if isinstance(value, ScalarNode) and value.tag.endswith(":null"):
            return _instead_of_null(text, key, value, path[depth + 1 :], values)
        place = value
    if not isinstance(place, MappingNode):
        raise UnsafeTextEdit
    for name, part in values.items():
        text = _with_value(text, path, name, part)
    return text


def _add_lines(
    text: str, place: MappingNode, path: Sequence[str], values: Mapping[str, Any], *, root: bool
) -> str:
    """Add to a mapping that does not have the first key of ``path``."""
    if place.flow_style:
        inside = _json({path[0]: _nest_values(path[1:], values)})[1:-1]
        at = place.start_mark.index + 1
        return text[:at] + inside + (", " if place.value else "") + text[at:]
    indent = place.start_mark.column
    lines = snippet(path, values, indent, _line_end(text))
    if root:
        found = re.search(r"(?m)^\.\.\.[ \t\r]*$", text)  # the end of the document
        return _insert_lines(text, (found.start() if found else len(text)), lines)
    first = place.value[0][0].start_mark.index
    begin = text.rfind("\n", 0, first) + 1
    if text[begin:first].strip(" "):
        raise UnsafeTextEdit
    return text[:begin] + lines + text[begin:]


def _instead_of_null(
    text: str, key: Node, value: ScalarNode, path: Sequence[str], values: Mapping[str, Any]
) -> str:
    begin, end = value.start_mark.index, value.end_mark.index
    if value.style or path == ():
        raise UnsafeTextEdit
    lines = snippet(path, values, key.start_mark.column + 2, _line_end(text))
    text = text[:begin].rstrip(" ") + text[end:] if end > begin else text
    at = text.find("\n", key.end_mark.index) + 1 or len(text)
    return _insert_lines(text, at, lines)


def _insert_lines(text: str, at: int, lines: str) -> str:
    """Insert lines at the start of a line, or at the end of a text."""
    glue = "" if not text[:at] or text[:at].endswith("\n") else _line_end(text)
    return text[:at] + glue + lines + text[at:]


# -- changing and removing -----------------------------------------------------------------------


def _with_value(text: str, path: Sequence[str], name: str, value: Any) -> str:
    place = _found(_compose_root(text), path)
    assert isinstance(place, MappingNode)
    found = _find_pair(place, name)
    if found is None and place.flow_style:
        at = place.start_mark.index + 1
        return text[:at] + f"{_json(name)}: {_json(value)}" + (", " if place.value else "") + text[at:]
    if found is None:
        begin = text.rfind("\n", 0, place.value[0][0].start_mark.index) + 1
        line = f"{' ' * place.start_mark.column}{_yaml_scalar(name)}: {_yaml_scalar(value)}{_line_end(text)}"
        return text[:begin] + line + text[begin:]
    key, node = found
    if yaml.SafeLoader("").construct_object(node, deep=True) == value:
        return text
    begin, end = node.start_mark.index, _last(node)
    if isinstance(node, SequenceNode | MappingNode) and not node.flow_style:
        between = text[key.end_mark.index : begin]
        if "#" in between or "#" in text[begin:end]:
            raise UnsafeTextEdit
        return text[: key.end_mark.index] + ": " + _json(value) + text[end:]
    return text[:begin] + _yaml_scalar(value) + text[end:]


def _remove_pair(text: str, above: Node, parent: MappingNode, name: str) -> str:
    at = next(index for index, (key, _) in enumerate(parent.value) if _text(key) == name)
    key, value = parent.value[at]
    if parent.flow_style:
        begin, end = key.start_mark.index, value.end_mark.index
        if at + 1 < len(parent.value):
            end = parent.value[at + 1][0].start_mark.index
        elif at:
            begin = parent.value[at - 1][1].end_mark.index
        if "#" in text[begin:end]:
            raise UnsafeTextEdit
        return text[:begin] + text[end:]
    begin = text.rfind("\n", 0, key.start_mark.index) + 1
    if text[begin : key.start_mark.index].strip(" "):
        raise UnsafeTextEdit
    end = text.find("\n", max(_last(value), key.end_mark.index)) + 1 or len(text)
    shorter = text[:begin] + text[end:]
    if len(parent.value) > 1:
        return shorter
    colon = text.index(":", above.end_mark.index) + 1
    return shorter[:colon] + " {}" + shorter[colon:]


def _compose_root(text: str) -> Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _found(place: Node | None, path: Sequence[str]) -> Node | None:
    for name in path:
        found = _find_pair(place, name) if isinstance(place, MappingNode) else None
        place = found[1] if found else None
    return place


def _find_pair(place: MappingNode, name: str) -> tuple[Node, Node] | None:
    pairs = [(key, value) for key, value in place.value if _text(key) == name]
    if len(pairs) > 1:
        raise UnsafeTextEdit
    return pairs[0] if pairs else None


def _text(key: Node) -> str | None:
    return key.value if isinstance(key, ScalarNode) else None


def _last(node: Node) -> int:
    """Return the offset behind the last character of a value: marks of blocks are behind what follows."""
    if isinstance(node, SequenceNode | MappingNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(last, tuple):
            return max(_last(last[1]), int(last[0].end_mark.index))
        return _last(last)
    return int(node.end_mark.index)


def _size(node: Node, known: dict[int, int], above: set[int]) -> int:
    """Return the number of values, each as often as aliases repeat it. Raises TooManyAliases."""
    if id(node) in above:
        raise TooManyAliases("a value contains itself")
    if id(node) not in known:
        above.add(id(node))
        parts = node.value if isinstance(node, SequenceNode | MappingNode) else ()
        inner = (part for pair in parts for part in (pair if isinstance(pair, tuple) else (pair,)))
        known[id(node)] = 1 + sum(_size(part, known, above) for part in inner)
        above.discard(id(node))
    if known[id(node)] > MOST_VALUES:
        raise TooManyAliases("it has too many values")
    return known[id(node)]


# -- values --------------------------------------------------------------------------------------


def _parse_mapping(text: str) -> dict[str, Any]:
    if len(text) > LONGEST:
        raise UnsafeTextEdit
    value = read(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnsafeTextEdit
    return value


def _check_meaning(text: str, wanted: Mapping[str, Any]) -> str:
    try:
        if _is_same(read(text) or {}, wanted):
            return text
    except yaml.YAMLError:
        pass
    raise UnsafeTextEdit


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(part, other[key]) for key, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    # nan is the value that differs from itself
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _nest_values(path: Sequence[str], values: Mapping[str, Any]) -> Any:
    value: Any = dict(values)
    for name in reversed(path):
        value = {name: value}
    return value


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _yaml_scalar(value: Any) -> str:
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return str(value) if plain else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
