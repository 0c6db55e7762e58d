"""Web pages on the wire: headers that come twice, every path, with and without the token."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_hub import Answer, HttpHub, http_hub, modern, request
from tests.harness.running_hub import child

LISTED = "http://localhost:3000"
PATHS = (
    "/",
    "/rpc",
    "/mcp",
    "/mcp/search",
    "/mcp/light",
    "/mcp/full",
    "/healthz",
    "/readyz",
    "/metrics",
    "/x",
)
UPGRADE = (
    ("upgrade", "websocket"),
    ("connection", "Upgrade"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
)

Pairs = list[tuple[str, str]]


async def asked(here: HttpHub, start: str, pairs: Pairs, body: bytes = b"") -> Answer:
    """Return the answer to a request with exactly these headers, on its own connection."""
    peer = await here.peer()
    lines = "".join(f"{name}: {value}\r\n" for name, value in [*pairs, ("content-length", str(len(body)))])
    peer.write(f"{start} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
    answer = await peer.answer()
    while answer.headers.get("transfer-encoding") == "chunked" and (chunk := await peer.chunk()):
        answer.body += chunk
    return answer


def host(here: HttpHub) -> tuple[str, str]:
    return "host", f"127.0.0.1:{here.door.port}"


def every_way(pairs: Pairs) -> list[tuple[str, Pairs]]:
    """Send a request with these headers to each path, by each method, and as a WebSocket."""
    ways = [(f"{method} {path}", pairs) for path in PATHS for method in ("GET", "POST", "OPTIONS", "DELETE")]
    return [*ways, *((f"GET {path}", [*pairs, *UPGRADE]) for path in ("/", "/rpc"))]


@pytest.mark.parametrize(
    ("twice", "status"),
    [
        ([("origin", LISTED), ("origin", "http://evil.example")], 403),
        ([("origin", "http://evil.example"), ("origin", LISTED)], 403),
        ([("origin", LISTED), ("Origin", LISTED)], 403),
        ([("origin", "http://localhost:3000, http://evil.example")], 403),
        ([("origin", "http://evil.example@localhost:3000")], 403),
        ([("origin", "http://localhost.:3000")], 403),
        ([("origin", "http://127.0.0.1:3000")], 403),
        ([("origin", "http://[::1]:3000")], 403),
        ([("origin", "http://localhost:3001")], 403),
        ([("origin", "null")], 403),
        ([("origin", "")], 403),
        ([("sec-fetch-site", "cross-site")], 403),
        ([("sec-fetch-site", "same-site")], 403),
        ([("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], 400),
        ([("host", "localhost")], 400),
        ([("Host", "evil.example")], 400),
        ([("authorization", "Bearer a"), ("authorization", "Bearer b")], 400),
    ],
)
async def test_a_request_of_another_page_is_refused_at_every_path(
    tmp_path: Path, twice: Pairs, status: int
) -> None:
    async with http_hub(tmp_path, origins=[LISTED]) as here:
        token = [] if twice[0][0] == "authorization" else [("authorization", str(here.bearer))]
        for start, pairs in every_way([host(here), *twice, *token]):
            answer = await asked(here, start, pairs)
            assert answer.status == status, (start, answer)
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_two_hosts_are_refused_in_either_order(tmp_path: Path) -> None:
    async with http_hub(tmp_path) as here:
        for pairs in (
            [host(here), host(here)],
            [("host", "evil.example"), host(here)],
            [host(here), ("HOST", "evil.example")],
        ):
            for start, given in every_way(pairs):
                assert (await asked(here, start, given)).status == 400


async def test_an_answer_is_no_script_and_no_image_for_other_pages(tmp_path: Path) -> None:
    async with http_hub(tmp_path, origins=[LISTED]) as here:
        for origin in (LISTED, "http://evil.example"):
            for start, pairs in every_way([host(here), ("origin", origin)])[:-2]:
                answer = await asked(here, start, pairs)
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def called(here: HttpHub, method: str, *pairs: tuple[str, str], **params: Any) -> Any:
    """Return the result of a method over POST with exactly these headers; of a stream, the first part."""
    body = json.dumps(request(method, params)).encode()
    given = [host(here), ("content-type", "application/json"), *pairs]
    answer = await asked(here, "POST /rpc", given, body)
    return json.loads(answer.body.splitlines()[0])


async def test_a_listed_page_without_the_token_asks_the_archive_and_changes_nothing(tmp_path: Path) -> None:
    async with http_hub(tmp_path, {"up": child()}, origins=[LISTED]) as here:
        page = ("origin", LISTED)
        assert "result" in await called(here, "check_init", page)
        for operation in here.door.rpc.table:
            answer = await called(here, operation.name, page)
            if operation.public:
                assert operation.privilege.value == "read"
                assert answer.get("error", {}).get("code") != -31403
            else:
                assert answer["error"]["code"] in (-31403, -32601), operation.name
        assert "result" in await called(here, "list_tools", page, ("authorization", str(here.bearer)))
        assert here.process.ends == []
        assert here.process.kept_on == 0
        await called(here, "stop_server", page, ("authorization", str(here.bearer)))
        assert here.process.ends == ["stop"]


async def test_the_hubs_own_origin_counts_with_the_token_alone(tmp_path: Path) -> None:
    async with http_hub(tmp_path) as here:
        own = ("origin", f"http://127.0.0.1:{here.door.port}")
        token = ("authorization", str(here.bearer))
        assert (await called(here, "check_init", own))["error"]["code"] == -32600
        assert "result" in await called(here, "list_tools", own, token)
        assert "error" in await called(here, "list_tools", ("origin", "http://127.0.0.1:1"), token)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_a_hub_without_a_token_lets_its_own_origin_in(tmp_path: Path, host: str) -> None:
    """As the official suite asks of servers that are reached by the loopback."""
    async with http_hub(tmp_path, http_token=False) as here:
        own = f"{host}:{here.door.port}"
        message, headers = modern(request("tools/list"))
        peer = await here.peer()
        assert (await peer.post(message, **headers, host=own, origin=f"http://{own}")).status == 200
        assert (await peer.post(message, **headers, host=own, origin="http://evil.example")).status == 403
        assert (await peer.post(message, **headers, host=own, origin="http://localhost:1")).status == 403


async def test_a_page_changes_nothing_in_a_hub_that_has_no_token(tmp_path: Path) -> None:
    async with http_hub(tmp_path, {"up": child()}, origins=[LISTED], http_token=False) as here:
        page = ("origin", LISTED)
        assert "result" in await called(here, "list_tools", page)
        assert "result" in await called(here, "call_tool", name="up__echo", arguments={"text": "x"})
        refused = await called(here, "call_tool", page, name="up__echo", arguments={"text": "x"})
        assert refused["error"]["code"] == -31403
        peer = await here.peer()
        message, headers = modern(request("tools/call", {"name": "up__echo", "arguments": {"text": "x"}}))
        assert (await peer.post(message, **headers)).json["result"].get("isError") is not True
        answer = await peer.post(message, **headers, origin=LISTED)
        assert "error" in answer.json or answer.json["result"]["isError"] is True
        message, headers = modern(request("tools/list"))
        assert (await peer.post(message, **headers, origin=LISTED)).status == 200


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[HttpHub]:
    async with http_hub(folder, {"a-private-name": child()}, origins=[LISTED]) as here:
        yield here


async def test_metrics_and_health_name_no_server_without_the_token(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        for path in ("/metrics", "/healthz", "/readyz", "/", "/rpc", "/mcp", "/nothing"):
            for page in ([], [("origin", LISTED)]):
                answer = await asked(here, f"GET {path}", [host(here), *page])
                assert b"private-name" not in answer.body
                assert b"version=" not in answer.body
        open_page = await asked(here, "GET /metrics", [host(here)])
        assert b'tabane_servers{state="' in open_page.body
        token = ("authorization", str(here.bearer))
        known = await asked(here, "GET /metrics", [host(here), token])
        assert b'server="a-private-name"' in known.body
        assert b"tabane_info{version=" in known.body
        wrong = await asked(here, "GET /metrics", [host(here), ("authorization", "Bearer x")])
        assert wrong.status == 401


async def test_requests_without_an_origin_work_as_they_did(tmp_path: Path) -> None:
    """Original clients send neither origin nor token."""
    async with http_hub(tmp_path) as here:
        assert "result" in await called(here, "check_init")
        if sys.platform.startswith("linux"):
            assert (await called(here, "stop_server"))["result"]["status"] == "stopping"
            assert here.process.ends == ["stop"]
        peer = await here.peer()
        lines = "".join(f"{name}: {value}\r\n" for name, value in [host(here), *UPGRADE])
        peer.write(f"GET / HTTP/1.1\r\n{lines}\r\n".encode())
        assert (await asyncio.wait_for(peer.head(), 60)).status == 101
        for site in ("none", "same-origin"):
            assert (await asked(here, "GET /healthz", [host(here), ("sec-fetch-site", site)])).status == 200
