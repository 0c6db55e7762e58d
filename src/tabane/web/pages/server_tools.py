"""The tools of a server, and their parameters as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tabane.web.page import Fragment, PageRequest

PER_PAGE = 50
MOST_PARAMETERS = 200
DEEPEST = 4
LONGEST = 200
"""Characters of a default or a list of allowed values."""


async def tools_of(request: PageRequest, name: str, offset: int = 0) -> dict[str, Any]:
    """Return some tools of a server as the template has them. ``text`` narrows them."""
    found = await request.call("list_tools", server=name)
    text = request.query.get("q", "").strip().casefold()
    rows = [row for row in found["results"] if text in row["signature"].casefold()]
    shown = rows[offset : offset + PER_PAGE]
    return {
        "name": name,
        "tools": [row | _named(row) for row in shown],
        "total": len(found["results"]),
        "found": len(rows),
        "tokens": sum(row.get("tokens", 0) for row in rows),
        "next": offset + PER_PAGE if offset + PER_PAGE < len(rows) else None,
        "q": request.query.get("q", ""),
    }


async def tool_detail(request: PageRequest) -> Fragment:
    """Show the description and the parameters of one tool."""
    found = await request.call("get_tool", name=request.query.get("tool", ""))
    tool = found["tool"]
    schema = tool.get("inputSchema")
    context = {
        "tool": tool,
        "parameters": list(parameters_of(schema if isinstance(schema, Mapping) else {})),
        "raw": json.dumps(tool, indent=2, ensure_ascii=False)[:100_000],
    }
    return Fragment("servers/tool.html", context)


def _named(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments and the purpose of a signature ``name {args} [marks]: purpose``."""
    rest = str(row["signature"]).removeprefix(str(row["name"])).strip()
    end = _closing(rest)
    return {"arguments": rest[:end], "purpose": rest[end:].partition(": ")[2]}


def _closing(text: str) -> int:
    """Return the position behind the parenthesis that closes the first one; 0 if there is none."""
    depth = 0
    for position, sign in enumerate(text, 1):
        depth += (sign in "({[") - (sign in ")}]")
        if depth <= 0:
            return position if position > 1 else 0
    return 0


def parameters_of(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of a JSON Schema, each before what is inside it; at most 200, 4 deep."""
    for count, row in enumerate(_rows(schema, "", 0)):
        if count >= MOST_PARAMETERS:
            return
        yield row


def _rows(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[dict[str, Any]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or depth >= DEEPEST:
        return
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    for name, part in properties.items():
        part = part if isinstance(part, Mapping) else {}
        place = f"{path}{name}"
        yield {
            "name": place,
            "depth": depth,
            "type": type_of(part),
            "required": name in needed,
            "description": part.get("description") if isinstance(part.get("description"), str) else "",
            "allowed": _allowed(part),
            "default": _short(part["default"]) if "default" in part else None,
        }
        items = part.get("items")
        inner, mark = (items, "[].") if isinstance(items, Mapping) else (part, ".")
        yield from _rows(inner, f"{place}{mark}", depth + 1)


def type_of(part: Mapping[str, Any]) -> str:
    """Return the type of a schema in a few words: string, array of integer, string or null."""
    kind = part.get("type")
    if isinstance(kind, list):
        return " | ".join(str(one) for one in kind[:6])
    if kind == "array" and isinstance(part.get("items"), Mapping):
        return f"array of {type_of(part['items'])}"
    if isinstance(kind, str):
        return kind
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            kinds = [type_of(one) for one in part[key][:6] if isinstance(one, Mapping)]
            return " | ".join(dict.fromkeys(kinds))
    if "enum" in part or "const" in part:
        return "value"
    return str(part["$ref"]).rpartition("/")[2] if "$ref" in part else "any"


def _allowed(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("enum"), list):
        return _short(part["enum"])[1:-1]
    low, high = part.get("minimum", ""), part.get("maximum", "")
    if low != "" or high != "":
        return f"{low} … {high}"
    return str(part["format"]) if isinstance(part.get("format"), str) else ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
