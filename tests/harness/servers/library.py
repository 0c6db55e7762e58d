"""A server over stdio whose prompts, resources and templates have texts in English and Japanese."""

from __future__ import annotations

import json
import sys
from typing import Any


def _prompt(name: str, description: str, *arguments: str) -> dict[str, Any]:
    given = [{"name": each.rstrip("?"), "required": not each.endswith("?")} for each in arguments]
    return {"name": name, "description": description, "arguments": given}


PROMPTS = [
    _prompt("review_code", "Review a change of source code for bugs and style.", "diff", "language?"),
    _prompt("summarize_meeting", "Write minutes of a meeting from its transcript.", "transcript"),
    _prompt("translate_letter", "手紙を丁寧な日本語に翻訳します。", "text"),
    _prompt("plan_trip", "旅行の計画を立てます。目的地と日数を指定してください。", "place", "days?"),
    _prompt("explain_error", "Explain an error message and suggest a fix.", "message"),
]

RESOURCES = [
    ("docs://handbook", "Employee handbook", "Holidays, working hours and expenses.", "text/markdown"),
    ("docs://schema", "Database schema", "Tables and columns of the customer database.", "text/plain"),
    ("docs://menu", "食堂のメニュー", "今週の食堂のメニューと価格です。", "text/plain"),
    (
        "skill://pdf/SKILL.md",
        "Filling in PDF forms",
        "How to fill in the fields of PDF forms.",
        "text/markdown",
    ),
]

TEMPLATES = [
    ("logs://{service}/{day}", "Service logs", "Log lines of a service on one day.", "text/plain"),
    ("weather://{city}", "天気予報", "都市の天気予報を返します。", "application/json"),
]


def _resource(key: str, given: tuple[str, str, str, str]) -> dict[str, Any]:
    uri, name, description, media = given
    return {key: uri, "name": name, "description": description, "mimeType": media}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "library", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "lend", "description": "Lend a book.", "inputSchema": {"type": "object"}}]}
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "resources/list":
        return {"resources": [_resource("uri", each) for each in RESOURCES]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [_resource("uriTemplate", each) for each in TEMPLATES]}
    if method == "prompts/get":
        said = f"{params['name']} {json.dumps(params.get('arguments'), ensure_ascii=False)}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
    if method == "resources/read":
        return read(params["uri"])
    return {}


def read(uri: str) -> dict[str, Any] | None:
    if uri.startswith("docs://none"):
        return None
    content = {"uri": uri, "mimeType": "text/plain", "text": f"content of {uri}"}
    return {"contents": [content, {"uri": uri, "mimeType": "image/png", "blob": "AAAA"}]}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = None
        if message["method"] != "server/discover":
            result = answer(message["method"], message.get("params") or {})
        body = {"error": {"code": -32002, "message": "not here"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
