"""Metrics for Prometheus: families on calls, keys and the audit log, and text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from tabane.hub.telemetry.metering import BOUNDS, AuditCounts, CallCounts, ServerCounts

MetricKind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]


class MetricSample(NamedTuple):
    """A value with its labels. ``suffix`` follows the name of the family: only a histogram has some."""

    labels: Labels
    value: float
    suffix: str = ""


class MetricFamily(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: MetricKind
    help: str
    samples: Sequence[MetricSample]


def single(value: float) -> list[MetricSample]:
    """Return the samples of a metric without labels."""
    return [MetricSample((), value)]


def histogram(
    labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float
) -> list[MetricSample]:
    """Return the samples of one histogram.

    ``counts`` has the number of observations for each bound, and last the number above all bounds. They are
    not cumulative. ``total`` is the sum of the observed values.
    """
    samples, below = [], 0
    for bound, count in zip((*bounds, float("inf")), counts, strict=True):
        below += count
        samples.append(MetricSample((*labels, ("le", number(bound))), below, "_bucket"))
    return [*samples, MetricSample(labels, total, "_sum"), MetricSample(labels, below, "_count")]


def exposition(families: Iterable[MetricFamily]) -> str:
    """Return the page of these families."""
    return "".join(map(_written, families))


def number(value: float) -> str:
    """Return a number as the format writes it."""
    return "+Inf" if value == float("inf") else f"{value:.15g}"


def _written(family: MetricFamily) -> str:
    lines = [f"# HELP {family.name} {_escaped(family.help)}\n# TYPE {family.name} {family.kind}\n"]
    for labels, value, suffix in family.samples:
        shown = ",".join([f'{name}="{_quoted(text)}"' for name, text in labels])
        lines.append(f"{family.name}{suffix}{{{shown}}} {number(value)}\n" if shown
                     else f"{family.name}{suffix} {number(value)}\n")  # fmt: skip
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    """Return the value of a label. Lone surrogates, which are not UTF-8, are replaced."""
    return _escaped(text).replace('"', '\\"').encode("utf-8", "replace").decode()


def call_families(counts: CallCounts, named: bool) -> Iterator[MetricFamily]:
    """Yield the metrics of calls. ``named``: with the names of servers, tools and keys."""
    yield MetricFamily(
        "tabane_limited_total", "counter", "Calls that a limit refused.", single(counts.limited)
    )
    yield MetricFamily(
        "tabane_auth_failures_total",
        "counter",
        "Requests with a key or token that was refused, by reason.",
        [MetricSample((("reason", reason),), count) for reason, count in counts.auth_failures],
    )
    if named:
        yield _calls(counts)
        yield _keys(counts)
        yield from _of_servers(counts.servers)


def audit_families(counts: AuditCounts) -> Iterator[MetricFamily]:
    """Yield the metrics of the audit log."""
    yield MetricFamily(
        "tabane_audit_entries_total", "counter", "Entries of the audit log.", single(counts.entries)
    )
    yield MetricFamily(
        "tabane_audit_dropped_total",
        "counter",
        "Entries that the audit log lost, because the disk was full or too slow.",
        single(counts.dropped),
    )
    yield MetricFamily(
        "tabane_audit_lag_seconds",
        "gauge",
        "Time that the oldest entry has been waiting for the disk.",
        single(counts.lag),
    )


def _calls(counts: CallCounts) -> MetricFamily:
    samples = [
        MetricSample((("server", server), ("tool", tool), ("outcome", outcome)), count)
        for server, tool, outcome, count in counts.calls
    ]
    return MetricFamily(
        "tabane_calls_total", "counter", "Calls that ended, by server, tool and outcome.", samples
    )


def _keys(counts: CallCounts) -> MetricFamily:
    samples = [
        MetricSample((("key", key), ("outcome", outcome)), count) for key, outcome, count in counts.keys
    ]
    return MetricFamily("tabane_key_calls_total", "counter", "Calls that ended, by key and outcome.", samples)


def _of_servers(servers: Mapping[str, ServerCounts]) -> Iterator[MetricFamily]:
    ends = [
        MetricSample((("server", name), ("outcome", end)), count)
        for name, server in servers.items()
        for end, count in server.ends.items()
        if count
    ]
    yield MetricFamily(
        "tabane_server_calls_total", "counter", "Calls that ended, by server and how they ended.", ends
    )
    durations = [
        sample
        for name, server in servers.items()
        for sample in histogram((("server", name),), BOUNDS, server.buckets, server.seconds)
    ]
    yield MetricFamily(
        "tabane_call_duration_seconds", "histogram", "Duration of calls, with the wait for a turn.", durations
    )
    results = [MetricSample((("server", name),), server.bytes) for name, server in servers.items()]
    yield MetricFamily("tabane_result_bytes_total", "counter", "Bytes of the results of calls.", results)
    saved = [MetricSample((("server", name),), server.saved) for name, server in servers.items()]
    yield MetricFamily(
        "tabane_tokens_saved_total",
        "counter",
        "Tokens that assistants did not have to read, because long results were given in parts.",
        saved,
    )
