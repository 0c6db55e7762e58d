"""Every way of calling a tool and every way of seeing one, each behind the same signature."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from tabane.errors import TabaneError
from tabane.operations import Caller, Face
from tests.harness.running_hub import Json, RunningHub, SocketClient, text

MATCHES = ("relevance", "partial", "prefix", "exact", "fuzzy")

_programs = count(1)


@dataclass(frozen=True)
class User:
    """One assistant and one program at the same hub."""

    here: RunningHub
    line: SocketClient
    program: Caller

    async def operate(self, operation: str, **params: Any) -> Json:
        """An operation as a program calls it. Raises TabaneError."""
        value = await self.here.hub.door.invoke(self.program, operation, json.dumps(params).encode())
        result: Json = json.loads(msgspec.json.encode(value))
        return result


async def user(here: RunningHub, **hello: Any) -> User:
    program = Caller("local", Face.RPC, f"program-{next(_programs)}", roots=tuple(hello.get("roots", ())))
    return User(here, await here.connect(**hello), program)


@dataclass(frozen=True)
class Outcome:
    """What a call came to: the tool's result, or the words of the refusal."""

    result: Json | None
    words: str = ""

    @property
    def ok(self) -> bool:
        return self.result is not None

    @property
    def text(self) -> str:
        return text(self.result) if self.result is not None else self.words


Call = Callable[..., Awaitable[Outcome]]


def _of_result(result: Json) -> Outcome:
    return Outcome(None, text(result)) if result.get("isError") else Outcome(result)


async def _direct(user: User, name: str, /, **arguments: Any) -> Outcome:
    response = await user.line.request("tools/call", {"name": name, "arguments": arguments})
    if "error" in response:
        return Outcome(None, response["error"]["message"])
    return _of_result(response["result"])


def _through(by: str) -> Call:
    async def call(user: User, name: str, /, **arguments: Any) -> Outcome:
        return _of_result(await user.line.call(by, name=name, arguments=arguments))

    return call


def _by_program(operation: str) -> Call:
    async def call(user: User, name: str, /, **arguments: Any) -> Outcome:
        try:
            return _of_result(await user.operate(operation, name=name, arguments=arguments))
        except TabaneError as error:
            return Outcome(None, str(error))

    return call


async def _parallel(user: User, name: str, /, **arguments: Any) -> Outcome:
    report = await user.operate("execute_parallel", requests=[{"name": name, "arguments": arguments}])
    (row,) = report["results"]
    if "error" in row:
        return Outcome(None, row["error"]["message"])
    return _of_result(row["result"])


CALLS: dict[str, Call] = {
    "direct": _direct,
    "call_tool": _through("call_tool"),
    "call_readonly_tool": _through("call_readonly_tool"),
    "rpc call_tool": _by_program("call_tool"),
    "rpc call_readonly_tool": _by_program("call_readonly_tool"),
    "rpc execute_parallel": _parallel,
}
"""Ways of calling: (user, name, **arguments) → Outcome. The command line has tests of its own."""

Sight = Callable[[User, str], Awaitable[bool]]


def _listed(mode: str) -> Sight:
    async def seen(user: User, name: str) -> bool:
        line = await user.here.connect(mode=mode)
        return name in [tool["name"] for tool in (await line.result("tools/list"))["tools"]]

    return seen


async def _got(user: User, name: str) -> bool:
    response = await user.line.request("tools/get", {"name": name})
    return "result" in response and response["result"]["tool"]["name"] == name


async def _described(user: User, name: str) -> bool:
    result = await user.line.call("describe_tools", names=[name])
    return not result.get("isError")  # whoever asks for one tool is not told its name again


def query(name: str, match: str) -> str:
    """Words by which that match finds a tool of that name."""
    own = name.rpartition("__")[2]
    words = {"relevance": own, "partial": name[1:], "prefix": name[:-1], "exact": name, "fuzzy": name[:-1]}
    return words[match]


def found_names(said: str) -> set[str]:
    """The words of the lines of a search that are about its tools: ``name(…): …`` and ``Also: …``."""
    lines = (line for line in said.splitlines() if re.match(r"[\w-]+\(|Also: ", line))
    return {word for line in lines for word in re.findall(r"[\w-]+", line)}


def _searched(match: str) -> Sight:
    async def seen(user: User, name: str) -> bool:
        result = await user.line.call("search_tools", query=query(name, match), match=match, limit=50)
        return name in found_names(text(result))

    return seen


def _searched_by_program(match: str) -> Sight:
    async def seen(user: User, name: str) -> bool:
        found = await user.operate("search_tools", query=query(name, match), match=match, limit=50)
        return name in [row["name"] for row in found["results"]]

    return seen


async def _listed_to_program(user: User, name: str) -> bool:
    return name in [row["name"] for row in (await user.operate("list_tools"))["results"]]


def _shown_to_program(operation: str, **params: Any) -> Sight:
    async def seen(user: User, name: str) -> bool:
        given = {key: name if value is None else [name] for key, value in params.items()}
        try:
            return name in json.dumps(await user.operate(operation, **given))
        except TabaneError:
            return False

    return seen


SIGHTS: dict[str, Sight] = {
    "list light": _listed("light"),
    "list full": _listed("full"),
    "tools/get": _got,
    "describe_tools": _described,
    **{f"search_tools {match}": _searched(match) for match in MATCHES},
    "rpc list_tools": _listed_to_program,
    "rpc get_tool": _shown_to_program("get_tool", name=None),
    "rpc describe_tools": _shown_to_program("describe_tools", names=[]),
    **{f"rpc search_tools {match}": _searched_by_program(match) for match in MATCHES},
}
"""Ways of seeing: (user, name) → whether a tool of that public name is shown."""
