"""HTTP access control, and the CORS headers that a browser gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.http_hub import http_hub, http_peer, modern, request

PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,mcp-param-region",
    "authorization": None,
}


async def test_without_the_token_nothing_of_mcp_is_served(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (here, peer):
        message, headers = modern(request("tools/list"))
        for path in ("/mcp", "/mcp/search", "/mcp/light", "/mcp/full"):
            for shown in (None, "Bearer wrong", f"Basic {here.door.token}", f"Bearer {here.door.token}x"):
                answer = await peer.post(message, path, **{**headers, "authorization": shown})
                assert answer.status == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert str(here.door.token_path) in answer.json["error"]["message"]
                assert str(here.door.token) not in answer.body.decode()
        for path in ("/healthz", "/readyz", "/metrics"):
            peer.send("GET", path, {"authorization": None})
            assert (await peer.answer()).status == 200
        assert (await peer.post(message, **headers)).status == 200


async def test_a_hub_can_be_told_to_ask_for_no_token(tmp_path: Path) -> None:
    async with http_hub(tmp_path, http_token=False) as here:
        message, headers = modern(request("tools/list"))
        assert (await (await here.peer()).post(message, **headers)).status == 200
        assert not here.door.token_path.exists()


@pytest.mark.parametrize(
    "host", ["evil.example.com", "evil.example.com:8765", "127.0.0.1.evil.example", "", "192.168.0.7"]
)
async def test_a_name_that_was_rebound_to_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    async with http_peer(tmp_path) as (here, peer):
        message, headers = modern(request("tools/list"))
        assert (await peer.post(message, **{**headers, "host": host})).status == 421
        assert (await peer.get("/metrics", host=host)).status == 421
        for good in ("localhost", f"localhost:{here.door.port}", "127.0.0.1:1", "[::1]:9"):
            assert (await peer.post(message, **{**headers, "host": good})).status == 200


async def test_a_page_from_elsewhere_is_refused_unless_it_was_allowed(tmp_path: Path) -> None:
    origins = ["https://app.example.com", "http://localhost:6274", "http://127.0.0.1:*"]
    async with http_peer(tmp_path, origins=origins) as (here, peer):
        message, headers = modern(request("tools/list"))
        for bad in (
            "https://evil.example.com",
            "null",
            "http://app.example.com",
            "http://localhost:3000",
            "http://localhost",
            "http://[::1]:6274",
            f"http://localhost:{here.door.port}",
        ):
            answer = await peer.post(message, **{**headers, "origin": bad})
            assert answer.status == 403
            assert "access-control-allow-origin" not in answer.headers
        for good in ("https://app.example.com", "http://localhost:6274", "http://127.0.0.1:3000"):
            answer = await peer.post(message, **{**headers, "origin": good})
            assert answer.status == 200
            assert answer.headers["access-control-allow-origin"] == good
            assert "mcp-session-id" in answer.headers["access-control-expose-headers"]
            assert answer.headers["vary"] == "origin"


async def test_a_browser_that_asks_first_is_told_what_it_may_send(tmp_path: Path) -> None:
    async with http_peer(tmp_path, origins=["http://localhost:6274"]) as (_, peer):
        peer.send("OPTIONS", "/mcp", {"origin": "http://localhost:6274", **PREFLIGHT})
        answer = await peer.answer()
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == "http://localhost:6274"
        assert "POST" in answer.headers["access-control-allow-methods"]
        allowed = answer.headers["access-control-allow-headers"].split(", ")
        wanted = {"authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method"}
        assert wanted | {"mcp-name", "mcp-param-region", "last-event-id", "accept"} <= set(allowed)
        for bad in ("https://evil.example.com", "http://localhost:3000", "null"):
            for path in ("/mcp", "/rpc", "/healthz"):
                peer.send("OPTIONS", path, {"origin": bad, **PREFLIGHT})
                refused = await peer.answer()
                assert refused.status == 403
                assert not [name for name in refused.headers if name.startswith("access-control")]
        peer.send("OPTIONS", "/mcp", PREFLIGHT)
        unasked = await peer.answer()
        assert unasked.status == 204
        assert not [name for name in unasked.headers if name.startswith("access-control")]


async def test_a_page_can_read_why_it_was_refused(tmp_path: Path) -> None:
    async with http_hub(tmp_path, origins=["http://localhost:1"]) as here:
        answer = await (await here.peer()).post({}, authorization=None, origin="http://localhost:1")
        assert answer.status == 401
        assert answer.headers["access-control-allow-origin"] == "http://localhost:1"


async def test_health_readiness_and_metrics_are_told(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (here, peer):
        assert (await peer.get("/healthz")).json == {"status": "ok"}
        assert (await peer.get("/readyz")).json == {"status": "ready"}
        message, headers = modern(request("a method that nobody knows"))
        await peer.post(message, **headers)
        await here.session(peer)
        page = await peer.get("/metrics")
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = check_exposition(page.body.decode())
        name = "tabane_http_requests_total"
        assert samples[f'{name}{{http="POST",era="modern",method="other",status="404"}}'] == 1
        assert samples[f'{name}{{http="POST",era="legacy",method="initialize",status="200"}}'] == 1
        assert samples["tabane_http_sessions"] == 1
        assert samples["tabane_http_received_bytes_total"] > 300
        assert samples["tabane_http_sent_bytes_total"] > 300
        assert samples["process_resident_memory_bytes"] > 1e6
        here.hub.sessions.draining = True
        assert (await peer.get("/readyz")).status == 503
        assert (await peer.get("/healthz")).status == 200


def check_exposition(text: str) -> dict[str, float]:
    """The samples of a page in the text format, each after its HELP and TYPE."""
    samples: dict[str, float] = {}
    known: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in known
            known[name] = kind
        elif not line.startswith("# HELP "):
            name, _, value = line.rpartition(" ")
            family = name.partition("{")[0]
            assert known[family] in ("counter", "gauge")
            assert family.endswith("_total") == (known[family] == "counter")
            samples[name] = float(value)
    assert text.endswith("\n")
    return samples


async def test_what_is_not_there_and_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        for path in ("/nothing", "/mcp/", "/mcp/other", "/rpc/x", "/%2e%2e/mcp", "/mcp%00"):
            answer = await peer.get(path)
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, -32600)
        peer.send("POST", "/healthz", {})
        answer = await peer.answer()
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        peer.send("PUT", "/mcp", {"content-length": "0"})
        answer = await peer.answer()
        assert (answer.status, answer.headers["allow"]) == (405, "GET, POST, DELETE, OPTIONS")
        peer.send("HEAD", "/healthz", {})
        assert (await peer.head()).status == 200


async def test_while_the_hub_stops_new_requests_are_sent_to_the_next(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (here, peer):
        session = await here.session(peer)
        here.hub.sessions.draining = True
        message, headers = modern(request("tools/list", number="x"))
        for answer in (
            await peer.post(message, **headers),
            await peer.post(request("ping", number="x"), **session),
        ):
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.json["id"] == "x"
            assert answer.json["error"]["data"] == {"reason": "draining"}
