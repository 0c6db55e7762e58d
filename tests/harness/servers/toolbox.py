"""The child's tools. Each answers with text unless it says otherwise.

echo {…}                 its arguments as JSON, in text and as structuredContent
meta                     the ``_meta`` that came with the call
session                  era, what initialize said, log level
environment, cwd, pid    of the process
count                    1, 2, 3 …: a state that a restart loses
wait {seconds}           answers after that time, or when canceled not at all
hang                     never answers
progress {steps, pause}  so many notifications/progress, ``pause`` seconds apart, then an answer
huge {bytes}             a text of that length
raw {json}               that JSON as the whole result, unchecked: NaN, big integers, anything
surrogate                half an emoji, escaped; surrogate_bytes: the same as bytes that are no UTF-8
big_integer, nan         numbers that JSON readers disagree about
image                    an image, a resource link, unknown fields; hologram: an unknown kind of content
fail {text}              a result with isError
refuse {code}            a JSON-RPC error
crash {signal?, code?, words?}  dies in the middle of the call, after a word on stderr
crash_in_answer          dies with half an answer written
ask {method, params}     asks its client and answers with the response: a request (legacy),
                         ``input_required`` (modern)
notify {method, params}  sends a notification first
change_tools {names}     offers those tools alone from now on, and says so
log {text}               a line on stderr
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from tests.harness.servers.answers import KEY, Json, Raw, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.harness.servers.protocol import Server

READ_ONLY: Json = {"annotations": {"readOnlyHint": True}}
CAPABILITY = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}


class Tool:
    """``run`` takes the params of tools/call and an event that is set when the call is canceled."""

    __slots__ = ("definition", "run", "slow")

    def __init__(
        self, definition: Json, run: Callable[[Json, threading.Event], Any], slow: bool = False
    ) -> None:
        self.definition, self.run, self.slow = definition, run, slow


def text(value: object, **fields: Any) -> Json:
    said = value if isinstance(value, str) else json.dumps(value)
    return {"content": [{"type": "text", "text": said}], **fields}


class Toolbox:
    """What the server lists and calls."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._count = 0
        self._offered: list[str] | None = None
        self._tools = {tool.definition["name"]: tool for tool in self._all()}

    def definitions(self) -> list[Json]:
        names = self._tools if self._offered is None else self._offered
        listed = [self._tools[name].definition for name in names]
        if self._server.options.duplicate:
            listed.append(self._tools["echo"].definition | {"description": "Another echo."})
        return listed

    def find(self, name: str | None) -> Tool | None:
        if self._offered is not None and name not in self._offered:
            return None
        return self._tools.get(name or "")

    def _all(self) -> list[Tool]:
        tools = [
            _tool("echo", "Gives back its arguments.", self._echo, {"text": "string"}, fields=READ_ONLY),
            _tool("meta", "Gives back the _meta of the call.", self._meta, fields=READ_ONLY),
            _tool("session", "What the client said of itself.", self._session, fields=READ_ONLY),
            _tool("environment", "Its environment.", lambda *_: text(dict(os.environ)), fields=READ_ONLY),
            _tool("cwd", "Its working directory.", lambda *_: text(os.getcwd()), fields=READ_ONLY),
            _tool("pid", "Its process id.", lambda *_: text(str(os.getpid())), fields=READ_ONLY),
            _tool("count", "Counts its calls.", self._counted),
            _tool("wait", "Waits.", self._wait, {"seconds": "number"}, slow=True, fields=READ_ONLY),
            _tool("hang", "Never answers.", self._hang, slow=True, fields=READ_ONLY),
            _tool(
                "progress",
                "Reports progress.",
                self._progress,
                {"steps": "integer", "pause": "number"},
                slow=True,
            ),
            _tool("huge", "A long text.", self._huge, {"bytes": "integer"}, fields=READ_ONLY),
            _tool("raw", "Any JSON as its result.", self._raw, {"json": "string"}),
            _tool("surrogate", "Half an emoji.", lambda *_: self._json('"\\ud83d!"')),
            _tool("surrogate_bytes", "Half an emoji as bytes.", lambda *_: text("\ud83d!")),
            _tool("big_integer", "A long number.", lambda *_: self._json('"n"', str(10**400 + 7))),
            _tool("nan", "No number.", lambda *_: self._json('"n"', "NaN")),
            _tool("image", "Content of other kinds.", lambda *_: IMAGE),
            _tool("hologram", "Content of no kind.", lambda *_: {"content": [{"type": "hologram", "n": 3}]}),
            _tool(
                "fail", "Fails.", lambda p, _: text(_given(p, "text", "no"), isError=True), {"text": "string"}
            ),
            _tool("refuse", "Answers with an error.", self._refuse, {"code": "integer"}),
            _tool("crash", "Dies.", self._crash, {"signal": "integer", "code": "integer", "words": "string"}),
            _tool("crash_in_answer", "Dies while answering.", self._crash_in_answer),
            _tool("ask", "Asks its client.", self._ask, {"method": "string", "params": "object"}, slow=True),
            _tool("notify", "Notifies.", self._notify, {"method": "string", "params": "object"}),
            _tool("change_tools", "Offers other tools.", self._change, {"names": "array"}),
            _tool("log", "Writes to stderr.", self._log, {"text": "string"}),
        ]
        extras = range(self._server.options.tools)
        if self._server.options.offers:
            offers = self._server.offers
            tools += [
                _tool("offer", "Offers others.", offers.offer, {"kind": "string", "names": "array"}),
                _tool("touch", "Changes a resource.", offers.touch, {"uri": "string"}),
                _tool("subscriptions", "What is told to whom.", offers.state, fields=READ_ONLY),
                _tool("end_listens", "Ends subscriptions.", offers.end_listens),
            ]
        for name, schema in self._schemas().items():
            tools.append(Tool({"name": name, "inputSchema": schema, **READ_ONLY}, self._echo))
        return tools + [
            _tool(f"extra_{n}", f"Extra number {n}.", self._echo, {"text": "string"}) for n in extras
        ]

    def _schemas(self) -> Json:
        if self._server.options.schemas is None:
            return {}
        with open(self._server.options.schemas, encoding="utf-8") as file:
            schemas: Json = json.load(file)
        return schemas

    def _echo(self, params: Json, _: threading.Event) -> Json:
        arguments = params.get("arguments") or {}
        return text(arguments, structuredContent=arguments)

    def _meta(self, params: Json, _: threading.Event) -> Json:
        return text(params.get("_meta"))

    def _session(self, params: Json, _: threading.Event) -> Json:
        return text(self._server.session())

    def _counted(self, params: Json, _: threading.Event) -> Json:
        self._count += 1
        return text(str(self._count))

    def _wait(self, params: Json, cancelled: threading.Event) -> Json:
        seconds = _given(params, "seconds", 0.0)
        stopped = (
            cancelled.wait(seconds) if not self._server.options.deaf else threading.Event().wait(seconds)
        )
        return text("cancelled" if stopped else "waited")

    def _hang(self, params: Json, cancelled: threading.Event) -> Json:
        (threading.Event() if self._server.options.deaf else cancelled).wait()
        return text("cancelled")

    def _progress(self, params: Json, cancelled: threading.Event) -> Json:
        steps, token = _given(params, "steps", 3), (params.get("_meta") or {}).get("progressToken")
        for step in range(1, steps + 1):
            cancelled.wait(_given(params, "pause", 0.0))
            if token is not None:
                progress = {"progressToken": token, "progress": step, "total": steps}
                self._server.notify("notifications/progress", progress)
        return text("done")

    def _huge(self, params: Json, _: threading.Event) -> Json:
        return text("x" * _given(params, "bytes", 1 << 20))

    def _raw(self, params: Json, _: threading.Event) -> Any:
        return Raw(_given(params, "json", "{}"))

    def _json(self, said: str, number: str = "0") -> Any:
        complete = '"resultType": "complete", ' if self._server.modern else ""
        content = f'"content": [{{"type": "text", "text": {said}}}]'
        return Raw(f'{{{complete}{content}, "structuredContent": {{"n": {number}}}}}')

    def _refuse(self, params: Json, _: threading.Event) -> Any:
        raise Refused(_given(params, "code", -31000), "it does not want to", {"why": "told so"})

    def _crash(self, params: Json, _: threading.Event) -> Any:
        print(_given(params, "words", "I die."), file=sys.stderr, flush=True)
        if (code := _given(params, "code", None)) is not None:
            os._exit(code)
        os.kill(os.getpid(), _given(params, "signal", signal.SIGKILL))

    def _crash_in_answer(self, params: Json, _: threading.Event) -> Any:
        os.write(1, b'{"jsonrpc": "2.0", "id": ')
        os._exit(9)

    def _ask(self, params: Json, cancelled: threading.Event) -> Any:
        if self._server.modern:
            return self._ask_by_result(params)
        answered, response = threading.Event(), list[Json]()

        def take(message: Json) -> None:
            response.append({key: message[key] for key in ("result", "error") if key in message})
            answered.set()

        self._server.ask(_given(params, "method", "ping"), _given(params, "params", {}), take)
        seconds = _given(params, "seconds", 100)
        answer = answered.wait(seconds)
        return text(response[0]) if answer else text(f"no answer in {seconds} s", isError=True)

    def _ask_by_result(self, params: Json) -> Json:
        method = _given(params, "method", "roots/list")
        if "inputResponses" in params:
            return text({key: params.get(key) for key in ("inputResponses", "requestState")})
        capability = CAPABILITY.get(method, method)
        if capability not in params["_meta"][KEY + "clientCapabilities"]:
            wanted: Json = {"requiredCapabilities": {capability: {}}}
            raise Refused(-32021, f"the client does not offer {capability}", wanted)
        question = {"method": method, "params": _given(params, "params", {})}
        return {
            "resultType": "input_required",
            "inputRequests": {"q": question},
            "requestState": "state of q",
        }

    def _notify(self, params: Json, _: threading.Event) -> Json:
        self._server.notify(_given(params, "method", "notifications/message"), _given(params, "params", {}))
        return text("notified")

    def _change(self, params: Json, _: threading.Event) -> Json:
        self._offered = list(dict.fromkeys([*_given(params, "names", []), "change_tools"]))
        self._server.offers.changed("tools")
        return text("changed")

    def _log(self, params: Json, _: threading.Event) -> Json:
        print(_given(params, "text", ""), file=sys.stderr, flush=True)
        return text("logged")


def _given(params: Json, name: str, default: Any) -> Any:
    return (params.get("arguments") or {}).get(name, default)


def _tool(
    name: str,
    description: str,
    run: Callable[[Json, threading.Event], Any],
    arguments: dict[str, str] | None = None,
    *,
    slow: bool = False,
    fields: Json | None = None,
) -> Tool:
    properties = {key: {"type": kind} for key, kind in (arguments or {}).items()}
    schema = {"type": "object", "properties": properties}
    return Tool(
        {"name": name, "description": description, "inputSchema": schema, **(fields or {})}, run, slow
    )


IMAGE: Json = {
    "content": [
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "annotations": {"priority": 0.5}},
        {"type": "resource_link", "uri": "memo://one", "name": "one", "x-unknown": [1, {"deep": None}]},
    ],
    "_meta": {"example.com/seen": True},
    "x-unknown": {"kept": True},
}
