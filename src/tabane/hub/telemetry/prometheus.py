"""Metrics for Prometheus: families on calls, keys and the audit log, and text format 0.0.4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

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


Metric = Callable[[str, str, float | Sequence[MetricSample]], MetricFamily]
"""Makes a family of a name, a help, and a value or samples: :func:`counter` or :func:`gauge`."""


def labeled(names: str, rows: Iterable[tuple[Any, ...]]) -> list[MetricSample]:
    """Return a sample for each row: the texts of the labels that ``names`` lists, and last the value."""
    keys = names.split()
    return [MetricSample(tuple(zip(keys, labels, strict=True)), value) for *labels, value in rows]


def counter(name: str, help: str, samples: float | Sequence[MetricSample]) -> MetricFamily:
    """Return a metric that only grows. A number is the value of one without labels."""
    return _family(name, "counter", help, samples)


def gauge(name: str, help: str, samples: float | Sequence[MetricSample]) -> MetricFamily:
    """Return a metric that rises and falls. A number is the value of one without labels."""
    return _family(name, "gauge", help, samples)


def _family(name: str, kind: MetricKind, help: str, samples: float | Sequence[MetricSample]) -> MetricFamily:
    found = [MetricSample((), samples)] if isinstance(samples, int | float) else samples
    return MetricFamily(name, kind, help, found)


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
    yield counter("tabane_limited_total", "Calls that a limit refused.", counts.limited)
    yield counter(
        "tabane_auth_failures_total",
        "Requests with a key or token that was refused, by reason.",
        labeled("reason", counts.auth_failures),
    )
    if named:
        calls = labeled("server tool outcome", counts.calls)
        yield counter("tabane_calls_total", "Calls that ended, by server, tool and outcome.", calls)
        keys = labeled("key outcome", counts.keys)
        yield counter("tabane_key_calls_total", "Calls that ended, by key and outcome.", keys)
        yield from _of_servers(counts.servers)


def audit_families(counts: AuditCounts) -> Iterator[MetricFamily]:
    """Yield the metrics of the audit log."""
    yield counter("tabane_audit_entries_total", "Entries of the audit log.", counts.entries)
    lost = "Entries that the audit log lost, because the disk was full or too slow."
    yield counter("tabane_audit_dropped_total", lost, counts.dropped)
    lag = "Time that the oldest entry has been waiting for the disk."
    yield gauge("tabane_audit_lag_seconds", lag, counts.lag)


REPLICA_STATES = ("current", "behind", "copying", "away", "failed")


def database_families(engine: Mapping[str, Any], now: float) -> Iterator[MetricFamily]:
    """Yield the metrics of the database, its replicas, and the index outside, from the status."""
    yield gauge("tabane_database_up", "1 if the database answers, else 0.", float(engine["state"] == "ok"))
    if "size" in engine:
        latency = engine["latency_ms"] / 1000
        yield gauge("tabane_database_latency_seconds", "Time of one question to the database.", latency)
        yield gauge("tabane_database_size_bytes", "Bytes of the database.", engine["size"])
    replicas = [(each["collection"], each) for each in engine.get("replicas", ())]
    states = [(name, each, float(row["state"] == each)) for name, row in replicas for each in REPLICA_STATES]
    text = "1 for the state that the local copy of a collection is in, 0 for the others."
    yield gauge("tabane_replica_state", text, labeled("collection state", states))
    behind = [(name, row["behind"]) for name, row in replicas]
    text = "Changes of the database that the local copy lacks, as far as they are known."
    yield gauge("tabane_replica_changes_behind", text, labeled("collection", behind))
    ages = [
        (name, 0.0 if row["state"] == "current" else max(0.0, now - row["as_of"]))
        for name, row in replicas
        if row["as_of"] is not None
    ]
    text = "Time since the local copy had all changes of the database."
    yield gauge("tabane_replica_age_seconds", text, labeled("collection", ages))
    if "vector_index" in engine:
        index = engine["vector_index"]
        text = "1 if the index of vectors outside of the database answers, else 0."
        yield gauge("tabane_vector_index_up", text, float(index["state"] == "ready"))
        lag = [(each["collection"], each["rows"] - each["row"]) for each in index["followed"]]
        text = "Rows that the index of vectors lacks."
        yield gauge("tabane_vector_index_rows_behind", text, labeled("collection", lag))


def _of_servers(servers: Mapping[str, ServerCounts]) -> Iterator[MetricFamily]:
    ends = (
        (name, end, count) for name, server in servers.items() for end, count in server.ends.items() if count
    )
    yield counter(
        "tabane_server_calls_total",
        "Calls that ended, by server and how they ended.",
        labeled("server outcome", ends),
    )
    durations = [
        sample
        for name, server in servers.items()
        for sample in histogram((("server", name),), BOUNDS, server.buckets, server.seconds)
    ]
    yield MetricFamily(
        "tabane_call_duration_seconds", "histogram", "Duration of calls, with the wait for a turn.", durations
    )
    results = labeled("server", ((name, server.bytes) for name, server in servers.items()))
    yield counter("tabane_result_bytes_total", "Bytes of the results of calls.", results)
    saved = labeled("server", ((name, server.saved) for name, server in servers.items()))
    text = "Tokens that assistants did not have to read, because long results were given in parts."
    yield counter("tabane_tokens_saved_total", text, saved)
