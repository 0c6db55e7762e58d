"""Parts of the hub's answers that an agent reads: names of tools, and the parameters of a tool; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_NAME = re.compile(r"^\W*(?:\d+(?:\.\d+)?\W+)?(?P<name>[^\W\d][\w.\-/]*)\(")
_ALSO = re.compile(r"^\w+[:：] ?(?P<names>[^\s,]+(?:, [^\s,]+)*)$")
_PARAMETER = re.compile(
    r"^(?P<indent> *)(?P<name>[^\s:?(→…\[]+)(?P<optional>\?)?(?:: (?P<type>\S.*)| — .*)?$"
)
_TYPED = re.compile(r"^ *[^\s:?]+\??: (?:string|number|integer|boolean|object|array|any|null|[\"{\[(\d-])")
_TYPE_END = re.compile(r" = | — | \(>=| \(<=| <|\d?\.\.| [>≥<≤]")
_HEAD = re.compile(r"[\s:]*(?:\[[^\]]*\])?[\s:]*")
_STRING = "string"
"""The type that is meant if a parameter has none."""


def names_in(answer: str) -> list[str]:
    """Return the tools that an answer of search_tools names, best first.

    They are at the start of a line, before their parameters; others may follow in one line.
    """
    lines = answer.splitlines()
    found = [each["name"] for line in lines if (each := _NAME.match(line))]
    if found:
        more = (each["names"].split(", ") for line in lines if (each := _ALSO.match(line)))
        found += [name for names in more for name in names]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class ReadParameter:
    """A parameter as describe_tools shows it. ``members`` are those of an object, or of objects in a list."""

    name: str
    type: str
    required: bool
    members: Sequence[ReadParameter] = field(default_factory=tuple)


def parameters_in(page: str, name: str) -> list[ReadParameter]:
    """Return the parameters in an answer of describe_tools to this one name.

    The first line is the name or the description. If it is the name alone, the description follows.
    """
    lines = page.splitlines()
    if lines and _HEAD.sub("", lines[0].removeprefix(name)) == "":
        lines = lines[1:]
    if lines and not _TYPED.match(lines[0]):
        lines = lines[1:]
    found = (_PARAMETER.match(line) for line in lines)
    return _level([each for each in found if each], 0)


def _level(lines: Sequence[re.Match[str]], indent: int) -> list[ReadParameter]:
    found = []
    for number, line in enumerate(lines):
        if len(line["indent"]) != indent:
            if len(line["indent"]) < indent:
                break
            continue
        inner = lines[number + 1 :]
        deeper = len(inner[0]["indent"]) if inner and len(inner[0]["indent"]) > indent else 0
        end = next((n for n, each in enumerate(inner) if len(each["indent"]) <= indent), len(inner))
        members = _level(inner[:end], deeper) if deeper else ()
        kind = _TYPE_END.split(line["type"] or _STRING, maxsplit=1)[0].strip()
        found.append(ReadParameter(line["name"], kind, not line["optional"], tuple(members)))
    return found
