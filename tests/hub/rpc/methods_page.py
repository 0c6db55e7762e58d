"""The methods in docs/rpc.md, written from the table of operations.

``python -m tests.hub.rpc.methods_page docs/rpc.md`` renews the page.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from tabane.hub.process.administration import whole_table
from tabane.hub.rpc.permission import OF_THE_USER
from tabane.operations import Face, Operation, OperationTable, Privilege
from tabane.operations.parameter_errors import describe_range

MARK = (
    "<!-- Made of the operations by `python -m tests.hub.rpc.methods_page docs/rpc.md`; tests see to it. -->"
)
"""The line in the page before the methods; all above it is written by hand."""

_ACCESS = {
    Privilege.READ: "token",
    Privilege.CALL: "token; calls tools",
    Privilege.WRITE: "token; changes data",
    Privilege.ADMIN: "token; administration",
}

_KINDS = {"stream": "answers in parts", "job": "begins a job: [`follow_job`](#follow_job)"}


def rpc_page(page: str, table: OperationTable) -> str:
    """Return the page with a section for each current method, by name. Raises ValueError without the mark."""
    head, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page has no line {MARK}")
    methods = sorted(table.with_face(Face.RPC), key=lambda operation: operation.name)
    return f"{head}{MARK}\n\n" + "\n".join(_section(method) for method in methods)


def _section(method: Operation) -> str:
    facts = [_access(method), *([_KINDS[method.kind]] if method.kind in _KINDS else [])]
    parts = [f"### {method.name}", method.description, f"*{'; '.join(facts)}*"]
    rows = _rows(method)
    if rows:
        parts.append("| parameter | type | default | allowed |\n|---|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def _access(method: Operation) -> str:
    if method.public:
        return "open"
    return "token, or a process of the same user" if method.name in OF_THE_USER else _ACCESS[method.privilege]


def _rows(method: Operation) -> list[str]:
    """Return a row for each parameter, the required ones first."""
    (schema,), parts = msgspec.json.schema_components([method.params], ref_template="{name}")
    body = parts[schema["$ref"]]
    required = set(body.get("required", ()))
    names = sorted(body.get("properties", {}), key=lambda name: name not in required)
    return [_row(name, body["properties"][name], name in required) for name in names]


def _row(name: str, part: dict[str, Any], required: bool) -> str:
    options = [option for option in part.get("anyOf", [part]) if option.get("type") != "null"]
    kinds = " or ".join(dict.fromkeys(_kind(option) for option in options))
    default = "required" if required else _default(_usual(part, options))
    fits = "; ".join(str(fits) for fits in map(describe_range, options) if fits is not None)
    what = next((each["description"] for each in (part, *options) if each.get("description")), "")
    said = ". ".join(filter(None, (fits, what.replace("|", "\\|"))))
    return f"| `{name}` | {kinds} | {default} | {said} |"


def _usual(part: dict[str, Any], options: list[dict[str, Any]]) -> Any:
    """Return the default of a parameter; if it may be null, the default is beside its type."""
    return next((each["default"] for each in (part, *options) if each.get("default") is not None), None)


def _default(value: Any) -> str:
    return "" if value in (None, {}, []) else f"`{msgspec.json.encode(value).decode()}`"


def _kind(part: dict[str, Any]) -> str:
    """Return the type of a value in the terms of JSON."""
    if "enum" in part:
        return "string"
    if "$ref" in part:
        return "object"
    if part.get("type") == "array":
        inner = _kind(part["items"]) if part.get("items") else "value"
        return f"list of {inner}s" if inner != "value" else "list"
    return str(part.get("type", "value"))


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    docs.write_text(rpc_page(docs.read_text(), asyncio.run(whole_table())))
