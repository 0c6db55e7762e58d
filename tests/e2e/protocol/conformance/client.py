"""The hub as the suite's client: run as the command of a client scenario, with the server's URL.

A hub is started in front of that server. A person's part in a login is done here: the URL is followed without
a browser. Then the tools are listed and called, through the hub, as the scenario wants it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from tabane.errors import TabaneError
from tabane.operations import Caller, Face
from tabane.wire.era import META_CAPABILITIES
from tests.harness.patience import LONG
from tests.harness.running_hub import Client, Json, RunningHub, SocketClient, running_hub

SERVER = "suite"
METADATA_DOCUMENT = "https://conformance-test.local/client-metadata.json"
MOST_LOGINS = 4
MOST_ROUNDS = 8
CAPABILITIES: Json = {"elicitation": {"form": {"applyDefaults": True}}}
_REDIRECTS = 5


def main() -> int:
    url = sys.argv[-1]
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28")
    try:
        asyncio.run(asyncio.wait_for(_drive(url, scenario, context, revision), LONG))
    except (TabaneError, AssertionError, TimeoutError) as failure:
        print(f"{type(failure).__name__}: {failure}", file=sys.stderr)
        return 1
    return 0


async def _drive(url: str, scenario: str, context: Json, revision: str) -> None:
    definition: Json = (
        {"url": url, "oauth": _oauth(scenario, context)} if "auth/" in scenario else {"url": url}
    )
    version: Client = "2026-07-28" if revision == "2026-07-28" else "2025-11-25"
    with tempfile.TemporaryDirectory(prefix="tabane-client-") as folder:
        async with running_hub(Path(folder, "home"), {SERVER: definition}, start_servers="on_demand") as here:
            line = await here.connect(version, mode="full", capabilities=CAPABILITIES)
            line.answer = _answered
            await _Driver(here, line, context).run()


def _oauth(scenario: str, context: Json) -> Json:
    oauth: Json = {"clientMetadataUrl": METADATA_DOCUMENT}
    if "client_id" in context:
        oauth["clientId"] = context["client_id"]
    if "client_secret" in context:
        oauth["clientSecret"] = context["client_secret"]
    if "private_key_pem" in context:
        oauth |= {"privateKey": context["private_key_pem"], "algorithm": context["signing_algorithm"]}
    if "client-credentials" in scenario:
        oauth["grant"] = "client_credentials"
    return oauth


def _answered(question: Json) -> Json:
    """Accept a form with the defaults of its fields, as a host does whose user only confirms it."""
    properties = question["params"].get("requestedSchema", {}).get("properties", {})
    content = {name: field["default"] for name, field in properties.items() if "default" in field}
    return {"result": {"action": "accept", "content": content}}


def _responses(result: Json) -> Json:
    """What the repeated request carries to answer the questions in a result."""
    asked = result.get("inputRequests", {})
    answers = {key: _answered(question)["result"] for key, question in asked.items()}
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return {"inputResponses": answers, **state}


class _Driver:
    def __init__(self, here: RunningHub, line: SocketClient, context: Json) -> None:
        self._here, self._line, self._context = here, line, context
        self._logins = 0

    async def run(self) -> None:
        gateway = self._here.hub.gateway
        await self._started()
        tools = {tool.name: tool for tool in gateway.catalog.of_server(SERVER)}
        calls = self._context.get("toolCalls") or [{"name": name} for name in tools]
        await asyncio.gather(*(self._call(call) for call in calls if call["name"] in tools))

    async def _started(self) -> None:
        """Start the server, logging in as often as it wants."""
        gateway = self._here.hub.gateway
        logins = gateway.logins
        assert logins is not None
        while True:
            try:
                await gateway.start(SERVER)
            except TabaneError:
                if logins.needed(SERVER) is None:
                    raise
            if logins.needed(SERVER) is None:
                return
            await self._log_in()

    async def _call(self, call: Json) -> None:
        name = f"{SERVER}__{call['name']}"
        given = call["arguments"] if "arguments" in call else await self._arguments(name)
        params = {"name": name, "arguments": given}
        for _ in range(MOST_LOGINS + 1):
            answer = await self._asked(params)
            if "servers login" not in json.dumps(answer):
                return
            await self._log_in()
        raise AssertionError(f"the call of {name} wants one login after another")

    async def _asked(self, params: Json) -> Json:
        """The response to a call, after its questions were answered."""
        if self._line.modern:
            params = {**params, "_meta": {META_CAPABILITIES: CAPABILITIES}}
        again: Json = {}
        for _ in range(MOST_ROUNDS):
            answer = await self._line.request("tools/call", {**params, **again})
            result = answer.get("result", {})
            if result.get("resultType") != "input_required":
                return answer
            again = _responses(result)
        raise AssertionError(f"the call of {params['name']} asks one question after another")

    async def _arguments(self, tool: str) -> Json:
        """Arguments that the schema of a tool accepts."""
        listed = await self._line.result("tools/list")
        schema = next(each["inputSchema"] for each in listed["tools"] if each["name"] == tool)
        properties = schema.get("properties", {})
        return {name: _value(properties.get(name, {})) for name in schema.get("required", properties)}

    async def _log_in(self) -> None:
        self._logins += 1
        assert self._logins <= MOST_LOGINS, "the server wants one login after another"
        begun = await operate(self._here, "start_login", {"server": SERVER})
        landed = await follow(begun["url"], begun["redirect"])
        await operate(self._here, "finish_login", {"id": begun["id"], "redirected_url": landed})


def _value(schema: Json) -> Any:
    kind = schema.get("type")
    return {"number": 1, "integer": 1, "boolean": True, "object": {}, "array": []}.get(str(kind), "text")


async def operate(here: RunningHub, operation: str, params: Json) -> Any:
    """The answer of an operation of the hub."""
    caller = Caller("local", Face.RPC, "conformance")
    body = await here.hub.door.respond(caller, operation, json.dumps(params).encode(), _encoded)
    return json.loads(body)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


async def follow(url: str, redirect: str) -> str:
    """The URL to which a browser would return: redirects are followed up to there."""
    import aiohttp

    async with aiohttp.ClientSession() as session:
        for _ in range(_REDIRECTS):
            async with session.get(url, allow_redirects=False) as answer:
                url = urljoin(url, answer.headers.get("Location", ""))
                assert answer.status in (302, 303, 307), f"the login page answers with {answer.status}"
            if url.startswith(redirect):
                return url
    raise AssertionError("too many redirects")


if __name__ == "__main__":
    sys.exit(main())
