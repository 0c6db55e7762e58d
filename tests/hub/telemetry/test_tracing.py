"""Traces of calls: contexts that come in and go out, and spans that reach a real collector."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler, TraceIdRatioBased

from tabane.extras import extra_command
from tabane.hub.telemetry.spans import CallSpan, SpanTracing, open_spans
from tabane.hub.telemetry.tracing import NoTracing, collector_url, open_tracing
from tabane.operations import Caller, Face
from tabane.operations.caller import CallTarget
from tabane.operations.metering import Outcome
from tabane.wire import json
from tests.harness.cases import cases_beside
from tests.harness.patience import LONG, until
from tests.harness.trace_collector import CollectedSpan, TraceCollectorServer, trace_collector

CASES = cases_beside(__file__)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ISSUE = CallTarget("github__get_issue", "github")
CALLER = Caller("local", Face.MCP, "7", client="an assistant")
QUICK = 0.05


def kept(sampler: Sampler | None = None) -> tuple[SpanTracing, InMemorySpanExporter]:
    """Tracing whose spans stay in memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    return SpanTracing(provider, SimpleSpanProcessor(exporter), exporter), exporter


class BlockedExporter(SpanExporter):
    """An exporter that blocks until it is shut down."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.begun.set()
        self.ended.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.ended.set()


@asynccontextmanager
async def exporting(interval: float = QUICK) -> AsyncIterator[tuple[SpanTracing, TraceCollectorServer]]:
    """Tracing to a real collector."""
    with trace_collector() as collector:
        tracing = open_spans(f"{collector.url}/v1/traces", {}, interval)
        try:
            yield tracing, collector
        finally:
            await tracing.close()


def by_kind(spans: Sequence[CollectedSpan]) -> tuple[CollectedSpan, CollectedSpan]:
    """The spans of one call: as a server, and as a client."""
    first, second = sorted(spans, key=lambda span: span.kind, reverse=True)
    assert (first.kind, second.kind) == ("SERVER", "CLIENT")
    return first, second


def members(call: CallSpan) -> dict[str, str | None]:
    """What the call adds to ``_meta``."""
    return {name: json.text(value) for name, value in (call.meta or {}).items()}


# -- contexts ------------------------------------------------------------------------------------


def test_the_upstream_gets_the_clients_trace_with_a_span_of_the_hub() -> None:
    tracing, exporter = kept()
    call = tracing.begin(CALLER, ISSUE, PARENT, "a=1")
    call.end("ok", 12)
    client, server = (
        f"{span.context.span_id:016x}" for span in exporter.get_finished_spans() if span.context
    )
    assert call.traceparent == f"00-{TRACE}-{client}-01"
    assert members(call) == {"traceparent": call.traceparent, "tracestate": "a=1"}
    assert len({SPAN, server, client}) == 3


def test_without_a_clients_trace_a_new_one_begins() -> None:
    tracing, _ = kept()
    first, second = (tracing.begin(CALLER, ISSUE).traceparent for _ in range(2))
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", first)
    assert first[3:35] != second[3:35]


def test_an_operation_of_the_hub_sends_no_context() -> None:
    tracing, _ = kept()
    call = tracing.begin(CALLER, CallTarget("hello", kind="operation"), PARENT)
    assert (call.traceparent, call.meta) == ("", None)


def test_a_state_without_a_valid_parent_is_emptied() -> None:
    tracing, _ = kept()
    call = tracing.begin(CALLER, ISSUE, "nonsense", "a=1")
    assert members(call) == {"traceparent": call.traceparent, "tracestate": ""}


def test_what_the_client_does_not_record_is_not_recorded() -> None:
    tracing, exporter = kept()
    call = tracing.begin(CALLER, ISSUE, f"00-{TRACE}-{SPAN}-00")
    call.end("ok")
    assert call.traceparent == f"00-{TRACE}-{SPAN}-00"
    assert exporter.get_finished_spans() == ()


def test_a_call_ends_once() -> None:
    tracing, exporter = kept()
    call = tracing.begin(CALLER, ISSUE)
    call.end("ok")
    call.end("failed")
    outcomes = [(span.attributes or {})["tabane.outcome"] for span in exporter.get_finished_spans()]
    assert outcomes == ["ok", "ok"]


def test_a_ratio_of_new_traces_is_recorded_and_upstreams_follow() -> None:
    tracing, exporter = kept(TraceIdRatioBased(0.5))
    calls = [tracing.begin(CALLER, ISSUE) for _ in range(400)]
    for call in calls:
        call.end("ok")
    recorded = len(exporter.get_finished_spans()) // 2
    assert 100 < recorded < 300
    assert sum(call.traceparent.endswith("-01") for call in calls) == recorded


@given(st.one_of(st.none(), st.text()), st.one_of(st.none(), st.text()), st.floats(0, 1))
def test_no_context_of_a_client_fails_a_call(parent: str | None, state: str | None, ratio: float) -> None:
    tracing, _ = kept(TraceIdRatioBased(ratio))
    call = tracing.begin(CALLER, ISSUE, parent, state)
    call.end("ok")
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]", call.traceparent)
    assert set(call.meta or ()) <= {"traceparent", "tracestate"}


# -- spans at the collector ----------------------------------------------------------------------


async def test_both_spans_of_a_call_arrive_with_their_parents() -> None:
    async with exporting() as (tracing, collector):
        call = tracing.begin(CALLER, ISSUE, PARENT, "a=1,b=2", request="41")
        call.end("ok", 120)
        server, client = by_kind(await asyncio.to_thread(collector.wait_for, 2))
        assert collector.paths == ["/v1/traces"]
        assert (server.name, client.name) == ("tools/call github__get_issue",) * 2
        assert (server.trace, client.trace) == (TRACE, TRACE)
        assert (server.parent, client.parent) == (SPAN, server.span)
        assert call.traceparent == f"00-{TRACE}-{client.span}-01"
        assert (server.state, client.state) == ("a=1,b=2", "a=1,b=2")
        assert (server.status, client.status) == ("unset", "unset")
        shared = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "github__get_issue",
            "tabane.server": "github",
            "tabane.outcome": "ok",
            "tabane.result.size": 120,
        }
        assert client.attributes == shared
        assert server.attributes == shared | {
            "mcp.session.id": "7",
            "jsonrpc.request.id": "41",
            "tabane.client": "an assistant",
            "tabane.face": "mcp",
            "tabane.holder": "local",
        }
        assert server.resource["service.name"] == "tabane"
        assert server.resource["service.version"]
        assert server.nanoseconds >= 0


@pytest.mark.parametrize(("outcome", "reason", "error"), CASES["a_failure_is_an_error_of_low_cardinality"])
async def test_a_failure_is_an_error_of_low_cardinality(outcome: Outcome, reason: str, error: str) -> None:
    async with exporting() as (tracing, collector):
        tracing.begin(CALLER, ISSUE).end(outcome, reason=reason)
        for span in await asyncio.to_thread(collector.wait_for, 2):
            assert (span.status, span.attributes["error.type"]) == ("error", error)


@pytest.mark.parametrize(
    ("target", "face", "name", "attributes"),
    [
        (
            CallTarget("github__triage", "github", kind="prompt"),
            Face.MCP,
            "prompts/get github__triage",
            {"mcp.method.name": "prompts/get", "gen_ai.prompt.name": "github__triage"},
        ),
        (
            CallTarget("files__file:///secret-plan", "files", kind="resource"),
            Face.MCP,
            "resources/read",
            {"mcp.method.name": "resources/read", "mcp.resource.uri": "file:///secret-plan"},
        ),
        (
            CallTarget("search_documents", kind="operation"),
            Face.MCP,
            "tools/call search_documents",
            {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search_documents"},
        ),
        (
            CallTarget("search_documents", kind="operation"),
            Face.RPC,
            "search_documents",
            {"rpc.system.name": "jsonrpc", "rpc.method": "search_documents"},
        ),
        (CallTarget("tools/list", kind="list"), Face.MCP, "tools/list", {"mcp.method.name": "tools/list"}),
    ],
)
async def test_each_kind_of_call_has_its_name(
    target: CallTarget, face: Face, name: str, attributes: dict[str, str]
) -> None:
    async with exporting() as (tracing, collector):
        tracing.begin(Caller("local", face, "1"), target).end("ok")
        span = (await asyncio.to_thread(collector.wait_for, 1))[0]
        assert span.name == name
        assert attributes.items() <= span.attributes.items()


async def test_many_calls_arrive_in_few_requests() -> None:
    async with exporting(interval=1.0) as (tracing, collector):
        for _ in range(1000):
            tracing.begin(CALLER, ISSUE, PARENT).end("ok")
        spans = await asyncio.to_thread(collector.wait_for, 2000)
        assert len({span.span for span in spans}) == 2000
        assert collector.requests <= 4


async def test_what_waits_is_exported_when_the_hub_ends() -> None:
    with trace_collector() as collector:
        tracing = open_spans(f"{collector.url}/v1/traces", {}, LONG)
        tracing.begin(CALLER, ISSUE).end("ok")
        await tracing.close(limit=LONG)
        assert len(collector.spans) == 2


async def test_a_call_after_the_end_is_dropped() -> None:
    async with exporting() as (tracing, collector):
        await tracing.close()
        tracing.begin(CALLER, ISSUE).end("ok")
        assert collector.spans == []


# -- collectors that do not work -----------------------------------------------------------------


async def test_calls_go_on_while_the_collector_hangs_and_the_queue_is_bounded() -> None:
    exporter = BlockedExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    tracing = SpanTracing(provider, BatchSpanProcessor(exporter, 100, 1, 10), exporter)
    tracing.begin(CALLER, ISSUE).end("ok")
    await asyncio.to_thread(exporter.begun.wait)
    for _ in range(500):
        tracing.begin(CALLER, ISSUE).end("ok")
    await tracing.close(limit=0.1)
    assert exporter.ended.is_set()


async def test_a_stuck_collector_does_not_keep_the_hub_from_ending() -> None:
    with trace_collector() as collector:
        collector.stuck.set()
        tracing = open_spans(f"{collector.url}/v1/traces", {}, QUICK)
        tracing.begin(CALLER, ISSUE).end("ok")
        await asyncio.to_thread(collector.wait_for_request)
        await tracing.close(limit=0.1)


async def test_a_collector_that_refuses_is_a_warning_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with exporting() as (tracing, collector):
            collector.status = 401
            tracing.begin(CALLER, ISSUE).end("ok")
            await until(lambda: "did not accept" in caplog.text, "the refusal has come back")
            await tracing.close()
    assert "did not accept the spans of 1 calls" in caplog.text
    assert "otel_endpoint" in caplog.text


async def test_a_collector_that_is_not_there_loses_spans_only(caplog: pytest.LogCaptureFixture) -> None:
    with trace_collector() as collector:
        url = collector.url
    tracing = open_tracing(url, {})
    assert tracing is not None
    tracing.begin(CALLER, ISSUE).end("ok")
    await tracing.close()


async def test_a_key_in_the_query_of_the_endpoint_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    tracing = open_spans("http://127.0.0.1:1/v1/traces?key=s3cret", {}, QUICK)
    with caplog.at_level(logging.WARNING):
        tracing.begin(CALLER, ISSUE).end("ok")
        await until(lambda: "Max retries exceeded" in caplog.text, "the exporter has logged its failure")
        await tracing.close(limit=0.1)
    assert "s3cret" not in caplog.text


def test_a_header_that_is_not_valid_is_not_logged() -> None:
    code = (
        "import logging; logging.basicConfig()\n"
        "from tabane.hub.telemetry.tracing import open_tracing\n"
        "assert open_tracing('http://localhost:1', {}) is not None"
    )
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_HEADERS": "a=1,the secret itself"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert "Header format invalid" in done.stderr
    assert "secret" not in done.stderr


# -- settings and variables ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "environment", "url"),
    [
        ("", {}, None),
        ("", {"OTEL_SERVICE_NAME": "x"}, None),
        ("http://c:4318", {}, "http://c:4318/v1/traces"),
        ("http://c:4318/v1/traces", {}, "http://c:4318/v1/traces"),
        ("https://c/otlp/", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"}, "https://c/otlp/v1/traces"),
        ("http://c", {"OTEL_SDK_DISABLED": "true"}, None),
        ("http://c", {"OTEL_TRACES_EXPORTER": "none"}, "http://c/v1/traces"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://d:1"}, "http://d:1/v1/traces"),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://d:1/own"}, "http://d:1/own"),
        ("", {"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"),
        ("", {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"}, None),
    ],
)
def test_the_collector_is_found(setting: str, environment: dict[str, str], url: str | None) -> None:
    assert collector_url(setting, environment) == url


@pytest.mark.parametrize(("setting", "environment", "words"), CASES["what_cannot_work_says_how_it_can"])
def test_what_cannot_work_says_how_it_can(setting: str, environment: dict[str, str], words: str) -> None:
    with pytest.raises(NoTracing, match=words) as raised:
        collector_url(setting, environment)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("environment", "name"), CASES["the_service_has_a_name"])
async def test_the_service_has_a_name(environment: dict[str, str], name: str) -> None:
    with trace_collector() as collector:
        code = (
            "import asyncio, sys\n"
            "from tabane.hub.telemetry.spans import open_spans\n"
            "from tabane.operations import Caller, CallTarget, Face\n"
            "tracing = open_spans(sys.argv[1], {})\n"
            "for _ in range(100):\n"
            "    tracing.begin(Caller('local', Face.MCP, '1'), CallTarget('a__b', 'a')).end('ok')\n"
            "asyncio.run(tracing.close())"
        )
        command = [sys.executable, "-c", code, f"{collector.url}/v1/traces"]
        await asyncio.to_thread(subprocess.run, command, check=True, env={**os.environ, **environment})
        assert {span.resource["service.name"] for span in collector.spans} == {name}
        assert 20 < len(collector.spans) < 180


def test_nothing_of_opentelemetry_is_imported_unless_it_is_requested() -> None:
    code = (
        "import sys, tabane.hub.hub, tabane.hub.telemetry.tracing\n"
        "from tabane.hub.telemetry.tracing import open_tracing\n"
        "assert open_tracing('', {}) is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_extra_says_what_to_install(tmp_path: Any) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("")
    code = (
        "import logging, sys; logging.basicConfig()\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from tabane.hub.telemetry.tracing import open_tracing\n"
        "assert open_tracing('http://localhost:4318', {}) is None"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert extra_command("otel") in done.stderr


def test_an_installation_that_does_not_work_is_a_warning(tmp_path: Any) -> None:
    for package in ("sdk/trace", "exporter/otlp/proto/http"):
        (tmp_path / "opentelemetry" / package).mkdir(parents=True)
        (tmp_path / "opentelemetry" / package / "__init__.py").write_text("")
    (tmp_path / "opentelemetry" / "context.py").write_text("raise RuntimeError('it is broken')")
    code = (
        "import logging, sys; logging.basicConfig()\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from tabane.hub.telemetry.tracing import open_tracing\n"
        "assert open_tracing('http://localhost:4318', {}) is None"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "OpenTelemetry could not be started: " in done.stderr
