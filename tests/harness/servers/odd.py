"""An MCP server whose definitions are odd: each differs from a good one in one place, and some in several."""

from __future__ import annotations

import copy
import json
import random
import sys
from typing import Any

Json = dict[str, Any]

ROW = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z-]+$"}}, "required": ["a"]}
GOOD: dict[str, Json] = {
    "tools": {
        "name": "t",
        "title": "Title",
        "description": "Does it.",
        "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            "required": ["text"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
            "$defs": {"Row": ROW},
        },
        "annotations": {"title": "T", "readOnlyHint": True, "destructiveHint": False},
        "icons": [{"src": "https://example.com/a.png", "sizes": ["48x48"], "theme": "light"}],
        "execution": {"taskSupport": "optional"},
        "_meta": {"a": 1},
    },
    "prompts": {
        "name": "p",
        "title": "Title",
        "description": "Asks.",
        "arguments": [{"name": "who", "title": "Who", "description": "Name.", "required": True}],
        "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
        "_meta": {"a": 1},
    },
    "resources": {
        "uri": "odd://r",
        "name": "r",
        "title": "Title",
        "description": "Text.",
        "mimeType": "text/plain",
        "size": 12,
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
        "_meta": {"a": 1},
    },
    "resourceTemplates": {
        "uriTemplate": "odd://t/{x}",
        "name": "r",
        "title": "Title",
        "description": "Text.",
        "mimeType": "text/plain",
        "annotations": {"audience": ["assistant"], "priority": 1},
    },
}
NAMED = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


def deep(levels: int) -> Any:
    value: Any = {"type": "string"}
    for _ in range(levels):
        value = {"type": "array", "items": value}
    return value


VALUES: list[Any] = [
    *(None, True, False, 0, 1.5, -1, 10**400, float("1e999"), float("nan"), float("-inf")),
    *("", "true", "False", "text", "object", "\ud83d", "2025-01-12", "2025-13-45T00:00:00Z", "48x48"),
    *([], {}, [None], ["a", 1], [{}], {"type": "string"}, {"type": "object"}, {"type": ["object", "null"]}),
    *({"$ref": "#/$defs/Gone"}, {"$ref": "https://example.com/a.json"}, {"anyOf": []}, {"properties": []}),
    *(deep(60), deep(300), {"type": "object", "properties": {"a": True, "b": None, "c": "string", "d": []}}),
]
KEYWORDS: list[Json] = [
    *({"pattern": text} for text in ("(?P<n>a)", "(?i)a", r"\@", "[", "a{,", "]", r"\Aa\Z", "a++")),
    *({"pattern": text} for text in (r"^[\w.-]+@\w+$", "^(?=a)a", "a{2,3}", r"\p{L}+", "(?<n>a)", r"[^\s]*")),
    *({"pattern": text} for text in ("{2}", "a|{2}", "(?=a)*", "^*", r"\b+", r"[\w-z]", r"\1", "[z-a]")),
    *({"patternProperties": {text: {}}} for text in ("^x-", "(?i)x", "*")),
    *({"id": "a"}, {"$id": "a"}, {"$id": "https://example.com/s"}, {"$id": 1}, {"$anchor": "a"}, {"$ref": 1}),
    *({"nullable": True}, {"type": "null", "nullable": False}, {"enum": []}, {"enum": "a"}),
    *({"required": "a"}, {"$defs": 1}),
    *({"type": "dict"}, {"type": []}, {"type": "str"}, {"items": 1}, {"items": []}, {"items": [{}]}),
    *({"maximum": "1"}, {"exclusiveMaximum": True}, {"format": 1}, {"format": "uuid"}, {"uniqueItems": 1}),
    *({"not": 1}, {"allOf": {}}, {"anyOf": [1]}, {"additionalProperties": 1}, {"dependencies": {"a": 1}}),
    *({"$async": True}, {"formatMinimum": "a"}, {"$dynamicRef": "#a"}, {"const": None}, {"title": 1}),
    *({"multipleOf": 0}, {"maxLength": -1}, {"minLength": 1.5}, {"if": {}}, {"discriminator": {}}),
    *({"$comment": 1}, {"contains": None}, {"prefixItems": {}}, {"propertyNames": []}, {"definitions": []}),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value, from the outside in."""
    found = [at] if at else []
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(part, (*at, key))
    return found


def changed(good: Json, place: tuple[Any, ...], value: Any) -> Json:
    definition = copy.deepcopy(good)
    at: Any = definition
    for key in place[:-1]:
        at = at[key]
    if value is KeyError:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return definition


def keyword_tools() -> list[Json]:
    """A tool for each odd keyword at the root of its outputSchema, and one for it in a property."""
    found = []
    for keyword in KEYWORDS:
        for place in (("outputSchema",), ("outputSchema", "properties", "rows")):
            tool = copy.deepcopy(GOOD["tools"])
            at: Any = tool
            for key in place:
                at = at[key]
            at.update(keyword)
            found.append(tool)
    return found


def catalog(kind: str, count: int, seed: int = 38) -> list[Any]:
    """``count`` odd definitions, always the same ones; the first is good."""
    chosen, good = random.Random(seed), GOOD[kind]
    odd = [changed(good, place, value) for place in places(good) for value in (KeyError, *VALUES)]
    chosen.shuffle(odd)
    found: list[Any] = [good, *(keyword_tools() if kind == "tools" else []), *odd][:count]
    key = NAMED[kind]
    for number, definition in enumerate(found):
        if isinstance(definition.get(key), str) and definition[key]:
            definition[key] = f"{definition[key]}{number}"
    return [*found, None, 1, "text", [], {}, found[0]]


def listed() -> dict[str, Json]:
    return {
        "tools/list": {"tools": catalog("tools", 500)},
        "prompts/list": {"prompts": catalog("prompts", 150)},
        "resources/list": {"resources": catalog("resources", 150)},
        "resources/templates/list": {"resourceTemplates": catalog("resourceTemplates", 150)},
    }


def main() -> None:
    lists = listed()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        capabilities: Json = {"tools": {}, "prompts": {}, "resources": {}}
        about = {"name": "odd", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}
        if message["method"] != "initialize":
            result = lists.get(message["method"], {"content": [{"type": "text", "text": "done"}]})
        if message["method"] == "server/discover":
            answer: Json = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            answer = {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
