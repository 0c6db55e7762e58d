"""What is written of a type: names, order, types, defaults and tags of its members, not its own name."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from tabane.messages import Message

PLAIN: dict[type[inspect.Type], str] = {
    inspect.AnyType: "anything",
    inspect.NoneType: "null",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.RawType: "raw",
}
ARRAYS = (
    inspect.ListType,
    inspect.VarTupleType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.CollectionType,
)
OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType)


class Unnamed(AssertionError):
    """A type that is written has no logical name: give it one in formats.py."""


class Descriptions:
    """Describes types. ``named`` are the formats by their logical names, which stand for them in others."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._names = {id(each): name for name, each in named.items() if isinstance(each, type)}

    def of(self, kind: Any) -> Any:
        """Return what is written for a type: an object of its members, or a text."""
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            # Plain enums are written by value; numbers mean nothing without their names.
            return {member.name: member.value for member in kind} if issubclass(kind, int) else _values(kind)
        info = inspect.type_info(kind)
        if not isinstance(info, OBJECTS):
            return self._text(info)
        found: dict[str, Any] = {"as": _form(info)}
        if isinstance(info, inspect.StructType):
            if info.tag_field is not None:
                found["tag"] = {info.tag_field: info.tag}
            if info.forbid_unknown_fields:
                found["refuses unknown members"] = True
            if info.cls.__struct_config__.omit_defaults:
                found["leaves out defaults"] = True
        found["members"] = [self._member(field) for field in info.fields]
        return found

    def _member(self, field: inspect.Field) -> str:
        default = ""
        if not field.required:
            value = field.default
            if value is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
                value = field.default_factory()
            default = f" = {_written(value)}"
        return f"{field.encode_name}: {self._text(field.type)}{default}"

    def _text(self, info: inspect.Type) -> str:
        if type(info) in PLAIN:
            return PLAIN[type(info)]
        if isinstance(info, inspect.Metadata):
            return self._text(info.type)
        if isinstance(info, inspect.UnionType):
            return " | ".join(sorted(self._text(each) for each in info.types))
        if isinstance(info, inspect.LiteralType):
            return " | ".join(sorted(json.dumps(value) for value in info.values))
        if isinstance(info, ARRAYS):
            return f"[{self._text(info.item_type)}, …]"
        if isinstance(info, inspect.TupleType):
            return f"[{', '.join(self._text(each) for each in info.item_types)}]"
        if isinstance(info, inspect.DictType):
            return f"{{{self._text(info.key_type)}: {self._text(info.value_type)}}}"
        return self._name(info.cls)  # type: ignore[attr-defined]  # what is left has a class

    def _name(self, kind: type) -> str:
        if kind is Message:
            return "<message in transit>"
        if id(kind) not in self._names:
            raise Unnamed(f"{kind.__module__}.{kind.__qualname__} has no logical name")
        return f"<{self._names[id(kind)]}>"


def _form(info: Any) -> str:
    if isinstance(info, inspect.NamedTupleType):
        return "array"
    return "array" if isinstance(info, inspect.StructType) and info.array_like else "object"


def _values(kind: type[enum.Enum]) -> list[Any]:
    return [member.value for member in kind]


def _written(value: object) -> str:
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode() or "nothing"
    if isinstance(value, Message):
        return value.template
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
