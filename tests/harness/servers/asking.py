"""An MCP server over stdio that asks its client what a call says, in either era; standard library alone.

    [sys.executable, ASKING, "legacy", "--version", "2025-11-25"]

The tool ``ask`` takes ``steps``, which it does one after the other:

    {"ask": [{"method": …, "params": …}, …]}   asks all of these at once, and waits for the answers;
                                               a legacy server asks under "id", if there is one
    {"progress": N}                            tells of progress
    {"done": ID}                               tells that the elicitation ID is complete
    {"urls": [{…}]}                            fails with -32042 and these elicitations, once (legacy)
    {"error": {…}}                             ends with that error
    {"note": FILE}                             adds a line to a file
    {"again": true}                            asks for nothing but to be called again (modern)
    {"long": BYTES}                            has a text of so many bytes in its result
    {"flood": COUNT, "question": {…}}          asks the same COUNT times and waits for no answer (legacy);
                                               all under "id", if there is one

The result has the answers of all steps. The tool ``look`` does the same and is read-only, ``told`` shows what
it was told of its client. The prompt ``ask`` and the resource ``ask:steps`` ask one form.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

Json = dict[str, Any]

KEY = "io.modelcontextprotocol/"
FORM: Json = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
OWN_STEPS = [{"ask": [{"method": "elicitation/create", "params": FORM}]}]


class Refused(Exception):
    def __init__(self, error: Json) -> None:
        super().__init__(str(error))
        self.error = error


class AskingServer:
    """The server. ``urls`` are the elicitations that a call was refused for once."""

    def __init__(self, modern: bool, version: str) -> None:
        self.modern, self.version = modern, version
        self.writing = threading.Lock()
        self.waiting: dict[Any, tuple[threading.Event, list[Json]]] = {}
        self.urls: set[str] = set()
        self.count = 0
        self.initialized: Json = {}

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                event, answers = self.waiting.pop(message["id"], (threading.Event(), []))
                answers.append({key: message[key] for key in ("result", "error") if key in message})
                event.set()
            elif "id" in message:
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()

    def write(self, **message: Any) -> None:
        with self.writing:
            sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            sys.stdout.buffer.flush()

    def answer(self, message: Json) -> None:
        try:
            result = self.handle(message["method"], message.get("params") or {})
        except Refused as refused:
            self.write(id=message["id"], error=refused.error)
            return
        if self.modern:
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        self.write(id=message["id"], result=result)

    def handle(self, method: str, params: Json) -> Json:
        if (self.modern and method == "initialize") or (not self.modern and method == "server/discover"):
            raise Refused({"code": -32601, "message": f"Method not found: {method}"})
        found = getattr(self, "do_" + method.replace("/", "_"), None)
        if found is None:
            raise Refused({"code": -32601, "message": f"Method not found: {method}"})
        result: Json = found(params)
        return result

    capabilities: Json = {"tools": {}, "prompts": {}, "resources": {}}

    def do_initialize(self, params: Json) -> Json:
        self.initialized = params
        info = {"name": "asking", "version": "1"}
        return {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": info}

    def do_server_discover(self, params: Json) -> Json:
        return {"supportedVersions": ["2026-07-28"], "capabilities": self.capabilities}

    def do_ping(self, params: Json) -> Json:
        return {}

    def do_tools_list(self, params: Json) -> Json:
        plain: Json = {"inputSchema": {"type": "object"}}
        return {
            "tools": [
                {"name": "ask", **plain},
                {"name": "look", **plain, "annotations": {"readOnlyHint": True}},
                {"name": "told", **plain},
            ]
        }

    def do_prompts_list(self, params: Json) -> Json:
        return {"prompts": [{"name": "ask"}]}

    def do_resources_list(self, params: Json) -> Json:
        return {"resources": [{"uri": "ask:steps", "name": "ask"}]}

    def do_resources_templates_list(self, params: Json) -> Json:
        return {"resourceTemplates": []}

    def do_tools_call(self, params: Json) -> Json:
        if params["name"] == "told":
            told = params["_meta"] if self.modern else self.initialized
            return {"content": [{"type": "text", "text": json.dumps(told)}]}
        done = self.run(params.get("arguments", {}).get("steps", []), params)
        if "inputRequests" in done or "requestState" in done:
            return {"resultType": "input_required", **done}
        return {"content": [{"type": "text", "text": json.dumps(done["answers"])}]}

    def do_prompts_get(self, params: Json) -> Json:
        done = self.run(OWN_STEPS, params)
        if "inputRequests" in done:
            return {"resultType": "input_required", **done}
        text = {"type": "text", "text": json.dumps(done["answers"])}
        return {"messages": [{"role": "user", "content": text}]}

    def do_resources_read(self, params: Json) -> Json:
        done = self.run(OWN_STEPS, params)
        if "inputRequests" in done:
            return {"resultType": "input_required", **done}
        return {"contents": [{"uri": params["uri"], "text": json.dumps(done["answers"])}]}

    # -- steps -------------------------------------------------------------------------------------

    def run(self, steps: list[Json], params: Json) -> Json:
        """Do the steps. A modern server goes on where ``requestState`` says, with the answers in it."""
        state: Json = {"at": 0, "answers": []}
        if "requestState" in params:
            state = json.loads(params["requestState"])
        answers: list[Any] = state["answers"]
        if self.modern and "inputResponses" in params:
            given = params["inputResponses"]
            answers.append([given.get(key) for key in sorted(given)])
        for at, step in list(enumerate(steps))[state["at"] :]:
            if self.modern and ("ask" in step or "again" in step):
                now = json.dumps({"at": at + 1, "answers": answers})
                if "again" in step:
                    return {"requestState": now}
                asked = {f"q{n}": question for n, question in enumerate(step["ask"])}
                return {"inputRequests": asked, "requestState": now}
            self.do(step, answers, params)
        return {"answers": answers}

    def do(self, step: Json, answers: list[Any], params: Json) -> None:
        if "ask" in step:
            answers.append(self.ask_all(step["ask"]))
        if "progress" in step:
            token = params.get("_meta", {}).get("progressToken")
            self.write(
                method="notifications/progress", params={"progressToken": token, "progress": step["progress"]}
            )
        if "done" in step:
            self.write(method="notifications/elicitation/complete", params={"elicitationId": step["done"]})
        if "urls" in step and step["urls"][0]["elicitationId"] not in self.urls:
            self.urls.add(step["urls"][0]["elicitationId"])
            message = "open these first"
            raise Refused({"code": -32042, "message": message, "data": {"elicitations": step["urls"]}})
        if "error" in step:
            raise Refused(step["error"])
        if "note" in step:
            with open(step["note"], "a") as file:
                file.write("here\n")
        if "long" in step:
            answers.append("x" * step["long"])
        for number in range(step.get("flood", 0)):
            self.write(**{"id": f"flood-{number}", **step["question"]})

    def ask_all(self, questions: list[Json]) -> list[Any]:
        asked = []
        for question in questions:
            event, answers = threading.Event(), list[Json]()
            with self.writing:
                self.count += 1
                name = question.get("id", f"q{self.count}")
                self.waiting[name] = event, answers
            self.write(**{"id": name, **question})
            asked.append((event, answers))
        for event, _ in asked:
            event.wait()
        return [answers[0].get("result", answers[0].get("error")) for _, answers in asked]


if __name__ == "__main__":
    given = sys.argv[1:]
    AskingServer(given[0] == "modern", given[2] if len(given) > 2 else "2025-11-25").serve()
