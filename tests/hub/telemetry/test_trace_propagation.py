"""One trace from a client through a real hub to a real server, and the counts of its calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.http_hub import call, http_hub, http_peer, modern, text_of
from tests.harness.running_hub import (
    Client,
    RunningHub,
    SocketClient,
    child,
    connected_hub,
    running_hub,
    text,
)
from tests.harness.servers.raw_http import raw
from tests.harness.trace_collector import CollectedSpan, TraceCollectorServer, trace_collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
CONTEXT = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=me"}
SERVERS = {"one": child("--era", "dual"), "old": child("--era", "legacy")}
VERSIONS: list[Client] = ["2025-06-18", "2026-07-28"]


@asynccontextmanager
async def traced_hub(folder: Path) -> AsyncIterator[tuple[RunningHub, TraceCollectorServer]]:
    """A hub whose traces go to a collector."""
    with trace_collector() as collector:
        async with running_hub(folder, SERVERS, otel_endpoint=collector.url) as here:
            yield here, collector


async def meta_at(line: SocketClient, tool: str, meta: Any = None, **through: Any) -> Any:
    """The ``_meta`` that a server got with a call."""
    params: dict[str, Any] = {"name": tool, "arguments": through}
    result = await line.result("tools/call", {**params, "_meta": meta or {}})
    return json.loads(text(result))


async def spans_of(collector: TraceCollectorServer, count: int) -> dict[str, CollectedSpan]:
    """The spans of one call by kind, once the collector has so many."""
    spans = await asyncio.to_thread(collector.wait_for, count)
    return {span.kind: span for span in spans}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("server", ["one", "old"])
async def test_client_hub_and_server_are_one_trace(tmp_path: Path, version: Client, server: str) -> None:
    async with traced_hub(tmp_path) as (here, collector):
        line = await here.connect(version)
        meta = await meta_at(line, f"{server}__meta", CONTEXT)
        spans = await spans_of(collector, 2)
        assert spans["SERVER"].name == f"tools/call {server}__meta"
        assert (spans["SERVER"].trace, spans["SERVER"].parent) == (TRACE, SPAN)
        assert (spans["CLIENT"].trace, spans["CLIENT"].parent) == (TRACE, spans["SERVER"].span)
        assert meta["traceparent"] == f"00-{TRACE}-{spans['CLIENT'].span}-01"
        assert (meta["tracestate"], meta["baggage"]) == ("a=1", "user=me")
        assert spans["SERVER"].attributes["tabane.holder"] == "local"


async def test_a_call_through_call_tool_is_traced_as_the_real_tool(tmp_path: Path) -> None:
    async with traced_hub(tmp_path) as (here, collector):
        line = await here.connect()
        meta = await meta_at(line, "call_tool", CONTEXT, name="one__meta", arguments={})
        spans = await spans_of(collector, 2)
        assert spans["SERVER"].name == "tools/call one__meta"
        assert meta["traceparent"] == f"00-{TRACE}-{spans['CLIENT'].span}-01"


async def test_a_server_gets_a_trace_if_the_client_sends_none(tmp_path: Path) -> None:
    async with traced_hub(tmp_path) as (here, collector):
        meta = await meta_at(await here.connect(), "one__meta")
        spans = await spans_of(collector, 2)
        assert spans["SERVER"].parent == ""
        assert meta["traceparent"] == f"00-{spans['SERVER'].trace}-{spans['CLIENT'].span}-01"


@pytest.mark.parametrize(
    "parent", [7, None, "", "no", ["x"], "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\ud800"]
)
async def test_a_parent_that_is_not_valid_begins_a_new_trace(tmp_path: Path, parent: Any) -> None:
    async with traced_hub(tmp_path) as (here, collector):
        meta = await meta_at(await here.connect(), "one__meta", {"traceparent": parent})
        spans = await spans_of(collector, 2)
        assert meta["traceparent"] == f"00-{spans['SERVER'].trace}-{spans['CLIENT'].span}-01"


async def test_a_tool_that_fails_is_a_span_with_an_error(tmp_path: Path) -> None:
    async with traced_hub(tmp_path) as (here, collector):
        await (await here.connect()).request("tools/call", {"name": "one__fail", "arguments": {}})
        spans = await spans_of(collector, 2)
        assert {span.status for span in spans.values()} == {"error"}
        assert spans["SERVER"].attributes["error.type"] == "tool_error"


async def test_an_operation_of_the_hub_is_one_span(tmp_path: Path) -> None:
    async with traced_hub(tmp_path) as (here, collector):
        line = await here.connect()
        await line.result("tools/call", {"name": "hello", "arguments": {}, "_meta": CONTEXT})
        spans = await spans_of(collector, 1)
        assert (spans["SERVER"].name, spans["SERVER"].parent) == ("tools/call hello", SPAN)
        assert spans["SERVER"].attributes.get("tabane.server") is None


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_tracing_meta_goes_to_the_server_as_it_came(tmp_path: Path, version: Client) -> None:
    async with connected_hub(tmp_path, SERVERS, version) as (_, line):
        context = {**CONTEXT, "traceparent": "whatever the client says"}
        meta = await meta_at(line, "one__meta", context)
        assert context.items() <= meta.items()
        assert "traceparent" not in await meta_at(line, "one__meta")


async def test_over_http_the_context_may_be_in_headers(tmp_path: Path) -> None:
    with trace_collector() as collector:
        async with http_peer(tmp_path, SERVERS, otel_endpoint=collector.url) as (_, peer):
            message, headers = modern(call("one__meta"))
            answer = await peer.post(message, traceparent=PARENT, tracestate="b=2", **headers)
            meta = text_of(answer.json)
            spans = await spans_of(collector, 2)
            assert (spans["SERVER"].trace, spans["SERVER"].parent) == (TRACE, SPAN)
            assert meta["traceparent"] == f"00-{TRACE}-{spans['CLIENT'].span}-01"
            assert meta["tracestate"] == "b=2"


async def test_over_http_meta_is_stronger_than_headers(tmp_path: Path) -> None:
    with trace_collector() as collector:
        async with http_hub(tmp_path, SERVERS, otel_endpoint=collector.url) as here:
            other = f"00-{'1' * 32}-{'2' * 16}-01"
            message, headers = modern(call("one__meta"), traceparent=PARENT)
            await (await here.peer()).post(message, traceparent=other, **headers)
            assert (await spans_of(collector, 2))["SERVER"].trace == TRACE


async def test_a_server_at_a_url_gets_the_context_as_headers_too(tmp_path: Path) -> None:
    with trace_collector() as collector:
        async with raw() as server:
            servers = {"far": {"type": "http", "url": server.url}}
            async with connected_hub(tmp_path, servers, otel_endpoint=collector.url) as (_, line):
                await line.result("tools/call", {"name": "far__echo", "arguments": {}, "_meta": CONTEXT})
                (asked,) = server.asked("tools/call")
                client = (await spans_of(collector, 2))["CLIENT"]
                assert asked.headers["traceparent"] == f"00-{TRACE}-{client.span}-01"
                assert asked.headers["tracestate"] == "a=1"
                assert asked.message["params"]["_meta"]["traceparent"] == asked.headers["traceparent"]


async def test_the_metrics_page_counts_calls_and_prometheus_reads_it(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (_, peer):
        for name in ("one__echo", "one__echo", "one__fail", "hello"):
            message, headers = modern(call(name))
            assert (await peer.post(message, **headers)).status == 200
        page = (await peer.get("/metrics")).body.decode()
        families = {family.name: family for family in text_string_to_metric_families(page)}
        calls = {
            (each.labels["server"], each.labels["tool"], each.labels["outcome"]): each.value
            for each in families["tabane_calls"].samples
        }
        assert calls == {
            ("one", "one__echo", "ok"): 2,
            ("one", "one__fail", "failed"): 1,
            ("(hub)", "hello", "ok"): 1,
        }
        assert families["tabane_call_duration_seconds"].type == "histogram"
        (keys,) = families["tabane_key_calls"].samples[:1]
        assert keys.labels["key"] == "local"
        (entries,) = families["tabane_audit_entries"].samples
        (dropped,) = families["tabane_audit_dropped"].samples
        assert entries.value >= 4
        assert dropped.value == 0
        open_page = (await peer.get("/metrics", authorization=None)).body.decode()
        assert "one__echo" not in open_page
        assert "tabane_limited_total 0" in open_page


async def test_a_token_that_was_refused_is_counted_by_reason(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        assert (await peer.get("/metrics", authorization="Bearer wrong")).status == 401
        page = (await peer.get("/metrics")).body.decode()
        families = {family.name: family for family in text_string_to_metric_families(page)}
        (sample,) = families["tabane_auth_failures"].samples
        assert sample.value == 1
