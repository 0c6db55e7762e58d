"""A server over stdio that misbehaves in one way: `python hostile_stdio.py NAME`.

Most misbehaviors happen in its tool `hit`. A misbehavior is a function, registered in ``ENTRIES`` under its
name with the expected end of a call.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.harness.servers.hostile_entry import Entry
from tests.harness.servers.hostile_schemas import SCHEMAS

Json = dict[str, Any]
HIT: Json = {"name": "hit", "description": "Hit it.", "inputSchema": {"type": "object"}}
TEXT = {"content": [{"type": "text", "text": "done"}], "isError": False}
STORM = 20_000
"""Messages of a storm."""

MB = 1 << 20
ENTRIES: dict[str, Entry] = {}
HOOKS: dict[str, tuple[str, Callable[[Json], Any]]] = {}
IGNORED = object()
"""Returned by a hook that has answered, or will not answer."""


def register(moment: str, **how: Any) -> Callable[[Callable[[Json], Any]], Callable[[Json], Any]]:
    """Register a misbehavior at a moment: start, initialize, initialized, list, call."""

    def take(hook: Callable[[Json], Any]) -> Callable[[Json], Any]:
        ENTRIES[hook.__name__] = Entry(hook.__name__, moment, **how)
        HOOKS[hook.__name__] = moment, hook
        return hook

    return take


def write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def send(value: Any) -> None:
    write(json.dumps(value).encode() + b"\n")


def answer(message: Json, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def done(message: Json) -> None:
    write(answer(message, TEXT) + b"\n")


def around(message: Json, text: bytes) -> bytes:
    """Return an answer with those bytes as the text of a string."""
    head = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % message["id"]
    return head + text + b'"}]}}\n'


def storm(method: str, params: Json, *, asks: bool = False, count: int = STORM) -> None:
    lines = []
    for number in range(count):
        message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
        lines.append(json.dumps({**message, "id": f"q{number}"} if asks else message))
    write("\n".join(lines).encode() + b"\n")


def forever() -> None:
    while True:
        time.sleep(60)


# -- schemas -------------------------------------------------------------------------------------


def _schema(name: str) -> None:
    def hook(message: Json) -> Any:
        return {"tools": [{**HIT, "inputSchema": SCHEMAS[name]()[0]}]}

    hook.__name__ = f"schema_{name}"
    register("list", through=True)(hook)


for _name in SCHEMAS:
    _schema(_name)


# -- lists ---------------------------------------------------------------------------------------


@register("list", ends="either")
def endless_pages(message: Json) -> Any:
    cursor = int((message.get("params") or {}).get("cursor", 0))
    tool = {**HIT, "name": f"hit{cursor}" if cursor else "hit"}
    return {"tools": [tool], "nextCursor": str(cursor + 1)}


@register("list")
def the_same_cursor_again(message: Json) -> Any:
    return {"tools": [HIT], "nextCursor": "again"}


@register("list")
def endless_large_pages(message: Json) -> Any:
    return {"tools": [{**HIT, "description": "x" * (8 * MB)}], "nextCursor": os.urandom(8).hex()}


@register("list")
def one_page_of_48_megabytes(message: Json) -> Any:
    return {"tools": [{**HIT, "description": "x" * (48 * MB)}]}


@register("list")
def a_hundred_thousand_tools(message: Json) -> Any:
    return {"tools": [HIT, *({"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(100_000))]}


@register("list")
def duplicate_names(message: Json) -> Any:
    return {"tools": [HIT] * 1000}


@register("list")
def invalid_names(message: Json) -> Any:
    names: list[Any] = ["", " ", "a b", "é" * 300, 7, None, [], {}, "x" * 100_000, "..", "a/b", "__", "hit"]
    return {"tools": [{**HIT, "name": name} for name in names]}


@register("list")
def names_with_control_characters(message: Json) -> Any:
    bad = ["\x1b[2Jhit", "a\nb", "a\x00b", "\u202ehit", "hit\r", "\ud800"]
    return {"tools": [{**HIT, "name": name, "description": name} for name in [*bad, "hit"]]}


@register("list", ends="failure", shown=True)
def tools_that_are_no_list(message: Json) -> Any:
    return {"tools": 7}


@register("list", ends="failure", shown=True)
def definitions_that_are_none(message: Json) -> Any:
    return {"tools": [None, 1, "x", [], {}, {"name": "x"}]}


@register("list", ends="failure", shown=True)
def a_list_that_is_refused(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "no " * 10_000}})
    return IGNORED


@register("list", ends="failure", shown=True)
def a_list_that_never_comes(message: Json) -> Any:
    return IGNORED


@register("list")
def a_cursor_of_a_megabyte(message: Json) -> Any:
    params = message.get("params") or {}
    return {"tools": [HIT]} if "cursor" in params else {"tools": [HIT], "nextCursor": "c" * MB}


@register("list")
def a_cursor_that_is_no_text(message: Json) -> Any:
    return {"tools": [HIT], "nextCursor": {"a": [1]}}


@register("initialized")
def a_storm_of_changed_lists(message: Json) -> Any:
    storm("notifications/tools/list_changed", {})


@register("call", ends="result")
def a_storm_of_changed_lists_with_each_call(message: Json) -> Any:
    storm("notifications/tools/list_changed", {})
    done(message)
    return IGNORED


# -- answers -------------------------------------------------------------------------------------


@register("call")
def a_lone_surrogate_in_60_megabytes(message: Json) -> Any:
    write(around(message, b"x" * (60 * MB) + rb"\ud800"))
    return IGNORED


@register("call", ends="failure", shown=True, timeout=5)
def an_answer_longer_than_a_message_may_be(message: Json) -> Any:
    write(around(message, b"x" * (66 * MB) + rb"\ud800"))
    return IGNORED


@register("call", ends="result")
def answers_of_8_megabytes(message: Json) -> Any:
    write(around(message, b"done " * (8 * MB // 5)))
    return IGNORED


@register("call")
def a_lone_surrogate_in_8_megabytes(message: Json) -> Any:
    write(around(message, b"x" * (8 * MB) + rb"\ud800"))
    return IGNORED


@register("call", calls=3)
def three_answers_of_50_megabytes(message: Json) -> Any:
    write(around(message, b"x" * (50 * MB)))
    return IGNORED


@register("call", ends="result")
def invalid_utf_8(message: Json) -> Any:
    write(around(message, b"done \xff\xfe\xc3("))
    return IGNORED


@register("call")
def invalid_utf_8_in_20_megabytes(message: Json) -> Any:
    write(around(message, b"\xff\xc3(x" * (5 * MB)))
    return IGNORED


@register("call")
def not_a_number(message: Json) -> Any:
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"n":NaN,"m":-Infinity}}\n' % message["id"])
    return IGNORED


@register("call")
def a_depth_of_100_000(message: Json) -> Any:
    depth = b"[" * 100_000 + b"]" * 100_000
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":%b}}}\n'
          % (message["id"], depth))  # fmt: skip
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def another_id(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"] + 1000, "result": TEXT})
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def an_id_of_another_type(message: Json) -> Any:
    for name in (str(message["id"]) + "x", [message["id"]], {"id": message["id"]}, True, None):
        send({"jsonrpc": "2.0", "id": name, "result": TEXT})
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def an_id_with_a_fraction(message: Json) -> Any:
    write(b'{"jsonrpc":"2.0","id":%d.5,"result":{"content":[]}}\n' % message["id"])
    return IGNORED


@register("call", ends="result", shown=True)
def an_answer_twice(message: Json) -> Any:
    done(message)
    done(message)
    return IGNORED


@register("call", ends="result", shown=True)
def answers_that_nobody_asked_for(message: Json) -> Any:
    write(b"".join(answer({"id": 10**6 + n}, TEXT) + b"\n" for n in range(STORM)))
    done(message)
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def half_a_line(message: Json) -> Any:
    write(answer(message, TEXT)[:-10])
    return IGNORED


@register("call", ends="failure", shown=True, timeout=5)
def seventy_megabytes_without_a_newline(message: Json) -> Any:
    write(b"x" * (70 * MB))
    return IGNORED


@register("call", ends="result")
def a_million_empty_lines(message: Json) -> Any:
    write(b"\n" * 1_000_000)
    done(message)
    return IGNORED


@register("call", ends="result", shown=True)
def lines_of_rubbish(message: Json) -> Any:
    write(b"\x00\xff\x1b[31m rubbish {[\n" * STORM)
    done(message)
    return IGNORED


@register("start", ends="result", shown=True)
def a_banner(message: Json) -> Any:
    write(b"Welcome to my server!\n" * 100 + b"\x1b]0;title\x07\n{\n}\n")


@register("start", ends="either")
def a_byte_order_mark(message: Json) -> Any:
    write(b"\xef\xbb\xbf")


@register("call", ends="result")
def carriage_returns(message: Json) -> Any:
    write(b"\r\n\r\n" + answer(message, TEXT) + b"\r\n")
    return IGNORED


@register("call")
def huge_numbers(message: Json) -> Any:
    huge = b"9" * 100_000
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"n":%b,"e":1e99999}}}\n'
          % (message["id"], huge))  # fmt: skip
    return IGNORED


@register("call", ends="failure", shown=True)
def an_error_of_the_wrong_shape(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"], "error": 7})
    return IGNORED


@register("call", ends="failure", shown=True)
def an_error_without_members(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": "x", "message": {"a": 1}}})
    return IGNORED


@register("call")
def result_and_error(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"], "result": TEXT, "error": {"code": 1, "message": "no"}})
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def neither_result_nor_error(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"]})
    return IGNORED


@register("call", ends="failure", shown=True)
def a_result_that_is_no_object(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"], "result": [1, 2, 3]})
    return IGNORED


@register("call")
def content_of_the_wrong_shape(message: Json) -> Any:
    return {"content": {"type": 7}, "structuredContent": "x", "isError": "maybe", "_meta": []}


@register("call", timeout=5)
def an_answer_in_a_batch(message: Json) -> Any:
    write(b"[" + answer(message, TEXT) + b"]\n")
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def an_answer_in_utf_16(message: Json) -> Any:
    write(answer(message, TEXT).decode().encode("utf-16") + b"\n")
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def an_answer_a_byte_at_a_time(message: Json) -> Any:
    for byte in answer(message, TEXT):
        write(bytes([byte]))
        time.sleep(0.5)
    return IGNORED


@register("call")
def a_long_name_of_a_method(message: Json) -> Any:
    send({"jsonrpc": "2.0", "method": "m" * (4 * MB), "params": {}})
    send({"jsonrpc": "2.0", "id": "q", "method": "m" * (4 * MB), "params": {}})
    done(message)
    return IGNORED


@register("call")
def duplicate_members(message: Json) -> Any:
    write(b'{"jsonrpc":"2.0","id":%d,"id":%d,"result":{},"result":{"content":[]}}\n'
          % (message["id"], message["id"]))  # fmt: skip
    return IGNORED


@register("call")
def a_million_members(message: Json) -> Any:
    return {**TEXT, "structuredContent": {f"m{n}": n for n in range(300_000)}}


@register("call")
def a_hundred_thousand_blocks(message: Json) -> Any:
    return {"content": [{"type": "text", "text": "x"}] * 100_000}


# -- storms --------------------------------------------------------------------------------------


@register("call", ends="result")
def a_storm_of_progress(message: Json) -> Any:
    token = (message["params"].get("_meta") or {}).get("progressToken", message["id"])
    storm("notifications/progress", {"progressToken": token, "progress": 1})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_log_messages(message: Json) -> Any:
    storm("notifications/message", {"level": "error", "data": "x" * 200})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_updates(message: Json) -> Any:
    storm("notifications/resources/updated", {"uri": "test://x"})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_unknown_notifications(message: Json) -> Any:
    storm("notifications/nobody/knows", {"a": [1, 2, 3]})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_elicitations(message: Json) -> Any:
    _asking("elicitation/create", {"message": "Yes?", "requestedSchema": {"type": "object"}})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_sampling(message: Json) -> Any:
    _asking("sampling/createMessage", {"messages": [], "maxTokens": 10})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_roots(message: Json) -> Any:
    _asking("roots/list", {})
    done(message)
    return IGNORED


@register("call", ends="result")
def a_storm_of_pings(message: Json) -> Any:
    _asking("ping", {})
    done(message)
    return IGNORED


@register("call", ends="either", timeout=10)
def questions_whose_answers_are_not_read(message: Json) -> Any:
    storm("ping", {}, asks=True, count=100_000)
    forever()


def _asking(method: str, params: Json) -> None:
    """Ask, and read the answers meanwhile: otherwise the server would only block itself."""
    threading.Thread(target=storm, args=(method, params), kwargs={"asks": True}, daemon=True).start()
    for _ in range(STORM):
        if not sys.stdin.buffer.readline():
            return


@register("call", ends="result")
def cancellations_of_others(message: Json) -> Any:
    for name in range(2000):
        send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}})
    done(message)
    return IGNORED


@register("call", ends="result")
def progress_of_others(message: Json) -> Any:
    for token in [*range(2000), "x", None, [], {}, 1.5, "\ud800"]:
        params = {"progressToken": token, "progress": "x" if token == 7 else 1}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    done(message)
    return IGNORED


@register("call", ends="result")
def notifications_of_the_wrong_shape(message: Json) -> Any:
    deep = b"[" * 50_000 + b"]" * 50_000
    for params in (b"7", b"[]", b"null", b'"x"', deep):
        for method in (b"progress", b"message", b"cancelled", b"resources/updated", b"tools/list_changed"):
            write(b'{"jsonrpc":"2.0","method":"notifications/%b","params":%b}\n' % (method, params))
    done(message)
    return IGNORED


# -- the handshake -------------------------------------------------------------------------------


@register("initialize", ends="failure", shown=True)
def a_protocol_of_the_year_3000(message: Json) -> Any:
    return {"protocolVersion": "3000-01-01", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}


@register("initialize")
def a_protocol_that_is_a_number(message: Json) -> Any:
    return {"protocolVersion": 7, "capabilities": [], "serverInfo": None}


@register("initialize", ends="failure", shown=True)
def a_handshake_that_never_ends(message: Json) -> Any:
    return IGNORED


@register("initialize")
def a_handshake_answered_twice(message: Json) -> Any:
    for _ in range(2):
        write(answer(message, _introduction()) + b"\n")
    return IGNORED


@register("initialize")
def instructions_of_20_megabytes(message: Json) -> Any:
    return {**_introduction(), "instructions": "i" * (20 * MB)}


@register("initialize", ends="failure", shown=True)
def a_handshake_that_is_refused(message: Json) -> Any:
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -1, "message": "go away"}})
    return IGNORED


# -- the process ---------------------------------------------------------------------------------


@register("start", ends="failure", shown=True)
def an_end_at_once(message: Json) -> Any:
    os._exit(3)


@register("call", ends="failure", shown=True)
def an_end_in_the_middle_of_an_answer(message: Json) -> Any:
    write(answer(message, TEXT)[:-10])
    os._exit(0)


@register("call", ends="failure", shown=True)
def a_death_by_signal(message: Json) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


@register("start", ends="result")
def a_deaf_process(message: Json) -> Any:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=forever).start()  # goes on after the end of its input


@register("call", ends="result")
def grandchildren(message: Json) -> Any:
    for _ in range(5):
        command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    done(message)
    return IGNORED


@register("call", ends="failure", shown=True)
def a_closed_output(message: Json) -> Any:
    os.close(1)
    forever()


@register("call", ends="failure", shown=True, timeout=3, bulk=8 * MB)
def an_input_that_is_not_read(message: Json) -> Any:
    forever()


@register("call", ends="failure", shown=True, timeout=3, calls=4, bulk=8 * MB)
def an_input_that_is_not_read_any_more(message: Json) -> Any:
    forever()


@register("call", ends="result")
def a_flood_on_standard_error(message: Json) -> Any:
    chunk = b"flood " * 20 + b"\n"
    os.write(2, b"x" * (8 * MB))
    for _ in range(200):
        os.write(2, chunk * 500)
    done(message)
    return IGNORED


@register("call", ends="failure", shown=True, timeout=3)
def a_stopped_process(message: Json) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)


@register("call", ends="failure", shown=True, timeout=3)
def silence(message: Json) -> Any:
    return IGNORED


# -- well-behaved otherwise ----------------------------------------------------------------------


def _introduction() -> Json:
    capabilities = {"tools": {"listChanged": True}, "logging": {}}
    return {
        "protocolVersion": "2025-06-18",
        "capabilities": capabilities,
        "serverInfo": {"name": "hostile", "version": "1"},
    }


def reply(message: Json) -> Any:
    """Return the result of a request; IGNORED if it was answered otherwise or gets no answer."""
    method = message["method"]
    if method == "initialize":
        return hooked("initialize", message, _introduction())
    if method == "tools/list":
        return hooked("list", message, {"tools": [HIT]})
    if method == "tools/call":
        return hooked("call", message, TEXT)
    if method in ("ping", "logging/setLevel"):
        return {}
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
    return IGNORED


def hooked(moment: str, message: Json, otherwise: Any) -> Any:
    when, hook = HOOKS[sys.argv[1]]
    return hook(message) if when == moment else otherwise


def main() -> None:
    hooked("start", {}, None)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "notifications/initialized":
            hooked("initialized", message, None)
        if "id" in message and "method" in message:
            result = reply(message)
            if result is not IGNORED:
                write(answer(message, result) + b"\n")


if __name__ == "__main__":
    main()
