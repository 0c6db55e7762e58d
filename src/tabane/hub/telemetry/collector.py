"""The collector of traces: its URL and the sampling, from the settings and OpenTelemetry's own variables.

Without any of these, nothing of OpenTelemetry is looked for or imported.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tabane.extras import extra_command

if TYPE_CHECKING:
    from tabane.hub.telemetry.tracing import CallTracing, TraceSampler

log = logging.getLogger(__name__)

TRACES_PATH = "/v1/traces"
DEFAULT_ENDPOINT = "http://localhost:4318"

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SAMPLER, _SAMPLER_ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"


@dataclass(frozen=True, slots=True)
class TraceCollector:
    """The destination of spans, and their selection. ``named``: the environment gives the service a name.

    ``ratio`` and ``follows`` are those of :class:`~tabane.hub.telemetry.tracing.TraceSampler`.
    """

    url: str
    named: bool = False
    ratio: float = 1.0
    follows: bool = True


class NoTracing(Exception):
    """Traces were requested, but cannot be exported. The text is the reason, and what to do."""


def open_tracing(otel_endpoint: str, environment: Mapping[str, str]) -> CallTracing | None:
    """Return the tracing that the setting and the environment request; None if they request none.

    Logs a warning if it cannot work, and returns None then too.
    """
    try:
        collector = collector_of(otel_endpoint, environment)
        if collector is None:
            return None
        check_installed()
    except NoTracing as reason:
        log.warning("Tracing is off: %s", reason)
        return None
    from tabane.hub.telemetry.span_export import OtlpSender, SpanExport
    from tabane.hub.telemetry.tracing import SpanTracing

    log.info("traces go to %s", _shown(collector.url))
    export = SpanExport(lambda: OtlpSender(collector.url, named=collector.named))
    return SpanTracing(export, _sampler(collector))


def collector_of(otel_endpoint: str, environment: Mapping[str, str]) -> TraceCollector | None:
    """Return the collector that is requested; None if none is. Raises NoTracing.

    The setting is stronger than the variables. OTEL_SDK_DISABLED is stronger than both.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    url = _with_path(otel_endpoint.strip()) if otel_endpoint.strip() else _url_of(environment)
    if url is None:
        return None
    _check_url(url)
    ratio, follows = _sampling(environment)
    return TraceCollector(url, _is_named(environment), ratio, follows)


def check_installed() -> None:
    """Raise NoTracing if the extra with OpenTelemetry is not installed."""
    for module in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"):
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise NoTracing(f"OpenTelemetry is not installed. Run: {extra_command('otel')}")


def _url_of(environment: Mapping[str, str]) -> str | None:
    """Return the URL that the variables of OpenTelemetry request."""
    exporters = [name.strip().lower() for name in environment.get(_EXPORTER, "").split(",") if name.strip()]
    if exporters and "otlp" not in exporters:
        if "none" in exporters:
            return None
        raise NoTracing(f"{_EXPORTER}={environment[_EXPORTER]} is not supported. Use otlp or none.")
    for_traces, base = (environment.get(name, "").strip() for name in _ENDPOINTS)
    if not (exporters or for_traces or base):
        return None
    protocol = next((found for name in _PROTOCOLS if (found := environment.get(name, "").strip())), "")
    if protocol == "grpc":
        raise NoTracing(
            "spans are sent over HTTP only, but the environment asks for gRPC. Set "
            f"{_PROTOCOLS[0]}=http/protobuf and {_ENDPOINTS[0]}, for example {DEFAULT_ENDPOINT}{TRACES_PATH}"
        )
    return for_traces or _with_path(base or DEFAULT_ENDPOINT)


def _with_path(base: str) -> str:
    """Return the URL for traces of a collector."""
    base = base.rstrip("/")
    return base if base.endswith(TRACES_PATH) else base + TRACES_PATH


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise NoTracing(f"the endpoint is not a URL such as {DEFAULT_ENDPOINT}: {_shown(url)}")


def _sampling(environment: Mapping[str, str]) -> tuple[float, bool]:
    """Return the ratio of new traces to record, and whether the decision of a client is followed."""
    name = environment.get(_SAMPLER, "").strip().lower() or "parentbased_always_on"
    follows, kind = name.startswith("parentbased_"), name.removeprefix("parentbased_")
    if kind in ("always_on", "always_off"):
        return float(kind == "always_on"), follows
    if kind == "traceidratio":
        return _ratio(environment.get(_SAMPLER_ARGUMENT, "")), follows
    log.warning("%s=%s is unknown; all traces are recorded that clients record.", _SAMPLER, name)
    return 1.0, True


def _ratio(text: str) -> float:
    try:
        ratio = float(text or 1.0)
    except ValueError:
        ratio = -1.0
    if 0.0 <= ratio <= 1.0:
        return ratio
    log.warning("%s=%s is not a number from 0 to 1; 1 is used.", _SAMPLER_ARGUMENT, text)
    return 1.0


def _is_named(environment: Mapping[str, str]) -> bool:
    pairs = environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    names = {pair.partition("=")[0].strip() for pair in pairs}
    return bool(environment.get("OTEL_SERVICE_NAME")) or "service.name" in names


def _sampler(collector: TraceCollector) -> TraceSampler:
    from tabane.hub.telemetry.tracing import TraceSampler

    return TraceSampler(collector.ratio, follows=collector.follows)


def _shown(url: str) -> str:
    """Return a URL without user name, password and query."""
    address, _, _ = url.partition("?")
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else address.rpartition("@")[2]
