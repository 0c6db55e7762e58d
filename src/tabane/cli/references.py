"""References of hits as commands that a user can copy and run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tabane.wire import json

_COMMANDS: Mapping[str, tuple[Sequence[str], str]] = {
    "get_post": (("posts", "get"), "post_id"),
    "get_document": (("docs", "get"), "filepath"),
    "get_documentation": (("manual",), "section"),
    "read_url_content": (("read",), "url"),
    "describe_tools": (("tools", "show"), "names"),
}
"""Method: its command, and the parameter that the command takes as arguments."""


def command(reference: Mapping[str, Any]) -> str:
    """Return the command for a reference. A method without its own command is called by `tabane rpc`."""
    method, params = reference["method"], reference["params"]
    if method not in _COMMANDS:
        return shlex.join(["tabane", "rpc", method, "--params", json.encode(params).decode()])
    words, parameter = _COMMANDS[method]
    value = params[parameter]
    values = list(value) if isinstance(value, list) else [value]
    dashed = any(each.startswith("-") for each in values)
    return shlex.join(["tabane", *words, *(["--"] if dashed else []), *values])
