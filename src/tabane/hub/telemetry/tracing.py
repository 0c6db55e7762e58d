"""The collector of traces that the settings and OpenTelemetry's own variables request."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tabane.extras import extra_command

if TYPE_CHECKING:
    from tabane.hub.telemetry.spans import SpanTracing

log = logging.getLogger(__name__)

TRACES_PATH = "/v1/traces"
DEFAULT_ENDPOINT = "http://localhost:4318"

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class NoTracing(Exception):
    """Traces were requested, but cannot be exported. The text is the reason, and what to do."""


def open_tracing(otel_endpoint: str, environment: Mapping[str, str]) -> SpanTracing | None:
    """Return the tracing that the setting and the environment request; None if they request none.

    Logs a warning if it cannot work, and returns None then too.
    """
    try:
        url = collector_url(otel_endpoint, environment)
        if url is None:
            return None
        check_installed()
        from tabane.hub.telemetry.spans import open_spans  # imports OpenTelemetry

        tracing = open_spans(url, environment)
    except NoTracing as reason:
        log.warning("Tracing is off: %s", reason)
        return None
    except Exception as error:
        # Whatever is wrong with the installation, calls go on without spans.
        log.warning("Tracing is off, because OpenTelemetry could not be started: %s", error)
        return None
    log.info("traces go to %s", _shown(url))
    return tracing


def collector_url(otel_endpoint: str, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the collector for traces that is requested; None if none is. Raises NoTracing.

    The setting is stronger than the variables. OTEL_SDK_DISABLED is stronger than both.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    url = _with_path(otel_endpoint.strip()) if otel_endpoint.strip() else _url_of(environment)
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise NoTracing(f"the endpoint is not a URL such as {DEFAULT_ENDPOINT}: {_shown(url)}")
    return url


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


def _shown(url: str) -> str:
    """Return a URL without user name, password and query."""
    address, _, _ = url.partition("?")
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else address.rpartition("@")[2]
