"""Calls of two assistants while others get large answers: python -m benchmarks.neighbors.contents [KIND …]

The answers have the same size and different content: what looks at all of a content must not hold the hub.
One assistant over stdio and one over HTTP call a server that answers at once, with 5 ms between an answer and
the next call. Each kind has its own baseline, measured just before. ``serve`` and ``get`` are parts of this.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.neighbors.__main__ import ChangingHub, ms
from benchmarks.neighbors.caller import INITIALIZE, Caller
from benchmarks.neighbors.neighbor import Bridged, Latency, Neighbor, Posting, measure
from benchmarks.report import machine, publish, table

MIB = 1 << 20
PAUSE = 0.005
GOAL = 0.050
SETTLED = 1.0
ANSWERS = 4
"""Large answers of one measurement."""


def _filled(part: str, size: int) -> str:
    return part * (size // len(part.encode()) + 1)


def _text(part: str) -> Callable[[int], dict[str, Any]]:
    return lambda size: {"content": [{"type": "text", "text": _filled(part, size)}]}


def _blocks(size: int, length: int) -> dict[str, Any]:
    block = {"type": "text", "text": "x" * length}
    return {"content": [block] * (size // (length + 30))}


def _nested(size: int) -> dict[str, Any]:
    deep = "[" * 200 + "]" * 200
    return {"content": [{"type": "text", "text": "[" + ",".join([deep] * (size // 401)) + "]"}]}


def _words(size: int) -> dict[str, Any]:
    dice = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz_-.0123456789ABCDEF/+="
    words = ["".join(dice.choices(letters, k=dice.randint(2, 60))) for _ in range(2_000)]
    return {"content": [{"type": "text", "text": " ".join(dice.choices(words, k=size // 32))}]}


def _blob(size: int, kind: str) -> dict[str, Any]:
    data = base64.b64encode(random.Random(2).randbytes(size * 3 // 4)).decode()
    if kind == "image":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}
    resource = {"uri": "content://blob", "mimeType": "application/x", "blob": data}
    return {"content": [{"type": "resource", "resource": resource}]}


def _structured(size: int) -> dict[str, Any]:
    rows = [{"id": n, "name": f"name {n}", "on": True} for n in range(size // 45)]
    return {"content": [], "structuredContent": {"rows": rows}}


def _keys(size: int) -> dict[str, Any]:
    return {"content": [], "structuredContent": {f"k{n}": n for n in range(size // 16)}}


KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "one letter": _text("a"),
    "alternating letters": _text("ab"),
    "words and marks": _words,
    "prefixes of keys": _text("ghp_"),
    "prefixes of keys apart": _text("ghp_ sk-ant- eyJ AKIA xoxb- "),
    "beginnings of tokens": _text("ghp_abcdefghijklmnopqrstuvwxyz "),
    "beginnings of JWTs": _text("eyJ" + "a" * 1990 + "."),
    "equals signs": _text("="),
    "token =": _text("token = "),
    "authorization": _text("authorization: bearer "),
    "addresses with @": _text("://a:b@"),
    "addresses without @": _text("://" + "a" * 99 + ":" + "b" * 199 + " @ "),
    "beginnings of private keys": _text("-----BEGIN PRIVATE KEY-----"),
    "private keys without an end": _text("-----BEGIN PRIVATE KEY-----" + "A" * 3_000 + " "),
    "ends of private keys": _text("PRIVATE KEY-----" + "A" * 300),
    "base64": lambda size: {
        "content": [{"type": "text", "text": _blob(size, "image")["content"][0]["data"]}]
    },
    "digits": _text("0123456789"),
    "line breaks": _text("\n"),
    "quotation marks": _text('"'),
    "backslashes": _text("\\"),
    "Japanese": _text("日本語の文章です。"),
    "invisible characters": _text("\u200b\u200d\ufe0f"),
    "tag characters": _text("a\U000e0041"),
    "emoji": _text("😀"),
    "control characters": _text("\x01\x1b["),
    "JSON of numbers": _text("1,"),
    "JSON nested deeply": _nested,
    "JSON rows in a text": lambda size: {
        "content": [{"type": "text", "text": json.dumps(_structured(size)["structuredContent"])}]
    },
    "huge number": lambda size: {"content": [], "structuredContent": {"n": 10**1000, "m": "9" * size}},
    "structuredContent": _structured,
    "many keys": _keys,
    "blocks of 32 bytes": lambda size: _blocks(size, 32),
    "blocks of 2 bytes": lambda size: _blocks(size, 2),
    "blocks of 4 KB": lambda size: _blocks(size, 4096),
    "a resource's blob": lambda size: _blob(size, "blob"),
    "an image": lambda size: _blob(size, "image"),
}

WAYS = ("call_tool", "direct", "HTTP", "RPC", "resource", "prompt", "read_more")


# -- the server ----------------------------------------------------------------------------------------


def serve() -> None:
    """Answer over standard input and output; ``kind`` and ``size`` say with what."""
    kept: dict[tuple[str, int], bytes] = {}

    def content(kind: str, size: int) -> bytes:
        if (kind, size) not in kept:
            kept[kind, size] = json.dumps(KINDS[kind](size), ensure_ascii=False).encode("utf-8", "replace")
        return kept[kind, size]

    schema = {"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}}}
    names = [{"name": "kind"}, {"name": "size"}]
    fixed: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "hit", "inputSchema": schema}]},
        "prompts/list": {"prompts": [{"name": "hit", "arguments": names}]},
        "resources/list": {"resources": []},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": "content://{kind}/{size}", "name": "content"}]
        },
    }
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        method, params = asked["method"], asked.get("params", {})
        result = json.dumps(fixed.get(method, {})).encode()
        if method == "resources/read":
            kind, size = params["uri"].removeprefix("content://").split("/")
            whole = json.loads(content(kind.replace("%20", " "), int(size)))
            text = (
                json.dumps(whole)
                if not whole["content"]
                else whole["content"][0].get("text", json.dumps(whole))
            )
            result = json.dumps(
                {"contents": [{"uri": params["uri"], "text": text}]}, ensure_ascii=False
            ).encode()
        elif method in ("tools/call", "prompts/get"):
            given = params["arguments"]
            result = content(given["kind"], int(given["size"]))
            if method == "prompts/get":
                blocks = json.loads(result)["content"] or [{"type": "text", "text": result.decode()}]
                messages = [{"role": "user", "content": block} for block in blocks]
                result = json.dumps({"messages": messages}, ensure_ascii=False).encode()
        out.write(b'{"jsonrpc":"2.0","id":%s,"result":%b}\n' % (json.dumps(asked["id"]).encode(), result))
        out.flush()


# -- who gets the answers ------------------------------------------------------------------------------


def get(way: str, kind: str, size: int, url: str, token: str) -> None:
    """Get ANSWERS large answers, in a process of its own, and print the bytes of the last."""
    arguments = {"kind": kind, "size": size}
    wanted: tuple[str, dict[str, Any]] = ("tools/call", {"name": "odd__hit", "arguments": arguments})
    if way in ("call_tool", "read_more"):
        wanted = (
            "tools/call",
            {"name": "call_tool", "arguments": {"name": "odd__hit", "arguments": arguments}},
        )
    elif way == "resource":
        wanted = ("resources/read", {"uri": f"content://{kind.replace(' ', '%20')}/{size}"})
    elif way == "prompt":
        wanted = ("prompts/get", {"name": "odd__hit", "arguments": {"kind": kind, "size": str(size)}})
    print(_posted(way, wanted, url, token) if way in ("HTTP", "RPC") else _bridged(way, wanted), flush=True)


def _posted(way: str, wanted: tuple[str, dict[str, Any]], url: str, token: str) -> int:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=60)
    headers = {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }  # fmt: skip
    path, (method, params), length = "/mcp", wanted, 0
    if way == "RPC":
        path, method = "/rpc", "call_tool"
        params = {"name": "odd__hit", "arguments": params["arguments"]}
    steps = [(method, params)] * ANSWERS
    for number, (method, params) in enumerate(
        [("initialize", INITIALIZE), *steps] if way == "HTTP" else steps
    ):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        length = len(answer.read())
        assert answer.status == 200, answer.status
        if session := answer.headers.get("Mcp-Session-Id"):
            headers |= {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-06-18"}
    return length


def _bridged(way: str, wanted: tuple[str, dict[str, Any]]) -> int:
    caller, length = Caller(), 0
    stream = os.fdopen(caller.bridge.stdout.fileno(), "rb", closefd=False)  # type: ignore[union-attr]
    number = 0

    def ask(method: str, params: object) -> bytes:
        nonlocal number
        number += 1
        caller.send(number, method, params)
        while b'"method"' in (line := stream.readline())[:256]:
            pass
        return line

    ask("initialize", INITIALIZE)
    for _ in range(ANSWERS):
        line = ask(*wanted)
        length = len(line)
        if way == "read_more":
            found = json.loads(line)["result"].get("_meta", {}).get("io.github.tabane/part", {})
            for _ in range(20):
                if not (cursor := found.get("cursor")):
                    break
                line = ask("tools/call", {"name": "read_more", "arguments": {"cursor": cursor}})
                found = json.loads(line)["result"].get("_meta", {}).get("io.github.tabane/part", {})
    caller.bridge.kill()
    return length


# -- the measurement -----------------------------------------------------------------------------------


async def run(folder: Path, kinds: list[str], ways: list[str], size: int, seconds: float) -> list[Any]:
    hub, rows = ChangingHub(folder), []
    program = [sys.executable, "-m", "benchmarks.neighbors.contents", "serve"]
    hub.add({"odd": {"command": program[0], "args": program[1:], "env": {"PYTHONPATH": os.getcwd()}}})
    hub.begin("odd")
    try:
        neighbors: list[Neighbor] = [
            await Bridged.connect(hub.environment), await Posting.connect(hub.url, hub.token)
        ]  # fmt: skip
        await measure(neighbors, 1, PAUSE)
        for kind in kinds:
            for way in ways:
                await asyncio.sleep(SETTLED)  # what the last content is still looked at for
                idle = await measure(neighbors, seconds, PAUSE)
                command = [*program[:3], "get", way, kind, str(size), hub.url, hub.token]
                getter = await asyncio.create_subprocess_exec(
                    *command, env=hub.environment | {"PYTHONPATH": os.getcwd()}, stdout=subprocess.PIPE
                )
                beside = await measure(neighbors, 60, PAUSE, until=getter.wait())
                assert getter.stdout is not None
                got = int((await getter.stdout.read()).strip() or -1)
                rows.append((kind, way, idle, beside, got))
                print(" | ".join(cells(rows[-1])), got, file=sys.stderr, flush=True)
        return rows
    finally:
        hub.stop()


def cells(row: tuple[str, str, Latency, Latency, int]) -> tuple[str, ...]:
    kind, way, idle, beside, _ = row
    shown = [ms(each) for each in (idle.p99, idle.longest, beside.p99, beside.longest)]
    return kind, way, *shown, "met" if beside.p99 <= GOAL else "missed"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="put the table into the performance page")
    arguments.add_argument("--seconds", type=float, default=2.0, help="of each baseline")
    arguments.add_argument("--size", type=int, default=8 * MIB, help="bytes of a content")
    arguments.add_argument("--ways", default="call_tool,direct", help=", ".join(WAYS))
    arguments.add_argument("kinds", nargs="*")
    given = arguments.parse_args()
    kinds = [kind for kind in KINDS if not given.kinds or kind in given.kinds]
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(run(Path(folder), kinds, given.ways.split(","), given.size, given.seconds))
    head = ("content", "way", "idle p99", "idle longest", "p99", "longest", "goal of p99 ≤ 50")
    page = [
        "## Beside large answers of any content",
        machine("python -m benchmarks.neighbors.contents"),
        f"One assistant gets {ANSWERS} answers of {given.size / MIB:g} MiB. Meanwhile, one over stdio and "
        "one over HTTP call a server that answers at once. Times are of the calls of these two, in ms.",
        table(head, [cells(row) for row in rows]),
    ]
    publish("contents", page, write=given.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve()
    elif sys.argv[1:2] == ["get"]:
        get(sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:7])
    else:
        main()
