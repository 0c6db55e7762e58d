"""A server of 2025-11-25 with core tasks over stdio, standard library alone. Some of its tools misbehave.

    [sys.executable, LEGACY_TASKS, FOLDER]

A task ends when a file with the name of its argument ``until`` is in FOLDER; without one, at once. Requests
are added to the file ``asked`` there. Tools: ``job`` (may be a task), ``must`` (has to be one), ``asks``
(asks its client while its result is awaited), ``plain`` (is never one), ``surprise`` (is a task unasked),
``hostile`` (its task says strange things), ``stranger`` (reports another task than the one in the request).
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

Json = dict[str, Any]
FOLDER = sys.argv[1]
NOW = "2026-11-23T10:00:00Z"
SUPPORT = {"job": "optional", "must": "required", "asks": "optional", "plain": "forbidden", "surprise": None,
           "hostile": "optional", "stranger": "optional"}  # fmt: skip

tasks: dict[str, Json] = {}
waiting: list[tuple[Any, str]] = []
questions: dict[str, str] = {}


def tool(name: str, support: str | None) -> Json:
    made: Json = {"name": name, "inputSchema": {"type": "object"}}
    return {**made, "execution": {"taskSupport": support}} if support else made


def send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result_of(task: Json) -> Json:
    text = json.dumps(task["arguments"] | {"answers": task["answers"]}, sort_keys=True)
    related = {"io.modelcontextprotocol/related-task": {"taskId": task["id"]}}
    failed = bool(task["arguments"].get("fail"))
    return {"content": [{"type": "text", "text": text}], "isError": failed, "_meta": related}


def refreshed(task: Json) -> None:
    until = task["arguments"].get("until")
    if task["status"] != "working" and task["status"] != "input_required":
        return
    if task["name"] == "asks" and not task["answers"]:
        task["status"] = "input_required"
    elif not until or os.path.exists(os.path.join(FOLDER, until)):
        task["status"] = "failed" if task["arguments"].get("fail") else "completed"
    else:
        task["status"] = "working"


def shown(task: Json) -> Json:
    refreshed(task)
    state = {
        "taskId": task["id"], "status": task["status"], "createdAt": NOW, "lastUpdatedAt": NOW,
        "ttl": task["ttl"], "pollInterval": 50, "statusMessage": f"it is {task['status']}",
    }  # fmt: skip
    if task["name"] == "hostile":
        state |= {"statusMessage": "\x1b[2J\u202e" + "long " * 100_000, "pollInterval": -1e300, "ttl": "soon"}
    if task["name"] == "stranger":
        state |= {"taskId": "another"}
    return state


def begin(params: Json) -> Json:
    name, arguments = params["name"], params.get("arguments") or {}
    number = f"remote-{len(tasks) + 1}"
    ttl = (params.get("task") or {}).get("ttl", 60_000)
    tasks[number] = {"id": number, "name": name, "arguments": arguments, "status": "working", "ttl": ttl,
                     "answers": []}  # fmt: skip
    return {"task": {**shown(tasks[number]), "taskId": number, "status": "working"}}


def call(params: Json) -> Json:
    name = params["name"]
    if "task" in params or name == "surprise":
        return begin(params)
    if name == "must":
        raise LookupError(-32601)
    return {"content": [{"type": "text", "text": f"{name} at once"}], "isError": False}


def asking(task: Json) -> Json:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    meta = {"io.modelcontextprotocol/related-task": {"taskId": task["id"]}}
    return {"message": "Who?", "requestedSchema": schema, "_meta": meta}


def reply(identity: Any, method: str, params: Json) -> None:
    if method == "initialize":
        able: Json = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        capabilities = {"tools": {}, "tasks": able}
        server = {"name": "legacy-tasks", "version": "1"}
        result: Json = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server}
    elif method == "tools/list":
        result = {"tools": [tool(name, support) for name, support in SUPPORT.items()]}
    elif method == "tools/call":
        result = call(params)
    elif method == "ping":
        result = {}
    elif method.startswith("tasks/"):
        task = tasks.get(params.get("taskId", ""))
        if task is None:
            raise LookupError(-32602)
        if method == "tasks/result":
            waiting.append((identity, task["id"]))
            if task["name"] == "asks" and not task["answers"]:
                question = f"ask-{task['id']}"
                questions[question] = task["id"]
                send({"id": question, "method": "elicitation/create", "params": asking(task)})
            return
        if method == "tasks/cancel":
            task["status"] = "cancelled"
        result = shown(task)
    else:
        raise LookupError(-32601)
    send({"id": identity, "result": result})


def take(message: Json) -> None:
    if "method" not in message:
        task = tasks[questions.pop(message["id"])]
        task["answers"].append(message.get("result") or message.get("error"))
        return
    with open(os.path.join(FOLDER, "asked"), "a") as file:
        file.write(json.dumps([message["method"], message.get("params")]) + "\n")
    if "id" not in message:
        return
    try:
        reply(message["id"], message["method"], message.get("params") or {})
    except LookupError as error:
        send({"id": message["id"], "error": {"code": error.args[0], "message": "no"}})


def answer_waiting() -> None:
    for entry in list(waiting):
        identity, name = entry
        task = tasks[name]
        refreshed(task)
        if task["status"] in ("completed", "failed", "cancelled"):
            waiting.remove(entry)
            if task["status"] == "cancelled":
                send({"id": identity, "error": {"code": -32800, "message": "cancelled"}})
            else:
                send({"id": identity, "result": result_of(task)})


buffer = b""
while True:
    ready, _, _ = select.select([0], [], [], 0.02)
    if ready:
        data = os.read(0, 1 << 16)
        if not data:
            break
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            take(json.loads(line))
    answer_waiting()
