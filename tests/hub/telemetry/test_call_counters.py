"""Counters of calls, and the page of Prometheus that is made of them."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tabane.errors import BadArguments, UpstreamDied, UpstreamError, UpstreamTimeout
from tabane.hub.telemetry.metering import (
    BOUNDS,
    MOST_KEYS,
    MOST_REASONS,
    MOST_SERVERS,
    MOST_TOOLS,
    AuditCounts,
    CallCounters,
)
from tabane.hub.telemetry.prometheus import (
    MetricFamily,
    MetricKind,
    MetricSample,
    audit_families,
    call_families,
    exposition,
    histogram,
)
from tabane.messages import say
from tabane.operations.caller import CallTarget
from tabane.operations.metering import Outcome, failure_reason

ISSUE = CallTarget("github__get_issue", "github")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(page: str) -> Samples:
    """The samples of a page, by name and labels, as the parser of prometheus_client reads them."""
    samples: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def page_of(counters: CallCounters, *, named: bool = True) -> Samples:
    return read(exposition(call_families(counters.read(), named)))


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_calls_are_counted_by_tool_outcome_and_key() -> None:
    counters = CallCounters()
    counters.count(ISSUE, "local", "ok", 0.02, 100, 0)
    counters.count(ISSUE, "key:ab12cd34ef56", "ok", 0.02, 100, 40)
    counters.count(ISSUE, "key:ab12cd34ef56", "failed", 0.02, 10, 0)
    counters.count(CallTarget("hello", kind="operation"), "local", "ok", 0.001, 5, 0)
    samples = page_of(counters)
    tool = {"server": "github", "tool": "github__get_issue"}
    assert value(samples, "tabane_calls_total", outcome="ok", **tool) == 2
    assert value(samples, "tabane_calls_total", outcome="failed", **tool) == 1
    assert value(samples, "tabane_calls_total", server="(hub)", tool="hello", outcome="ok") == 1
    assert value(samples, "tabane_key_calls_total", key="key:ab12cd34ef56", outcome="failed") == 1
    assert value(samples, "tabane_key_calls_total", key="local", outcome="ok") == 2
    assert value(samples, "tabane_result_bytes_total", server="github") == 210
    assert value(samples, "tabane_tokens_saved_total", server="github") == 40


def test_durations_are_a_cumulative_histogram() -> None:
    counters = CallCounters()
    for seconds in (0.0005, 0.001, 0.0011, 0.7, 59.0, 61.0):
        counters.count(ISSUE, "local", "ok", seconds, 0, 0)
    samples = page_of(counters)
    name = "tabane_call_duration_seconds"
    buckets = {le: value(samples, f"{name}_bucket", server="github", le=le) for le in
               ("0.001", "0.0025", "0.5", "1", "30", "60", "+Inf")}  # fmt: skip
    assert list(buckets.values()) == [2, 3, 3, 4, 4, 5, 6]
    assert value(samples, f"{name}_count", server="github") == 6
    assert abs(value(samples, f"{name}_sum", server="github") - 120.7026) < 1e-9


def test_a_call_that_was_not_made_has_no_duration() -> None:
    counters = CallCounters()
    counters.count(ISSUE, "key:one", "limited", 0.0, 0, 0)
    counters.count(ISSUE, "key:one", "refused", 0.0, 0, 0)
    samples = page_of(counters)
    assert value(samples, "tabane_limited_total") == 1
    assert value(samples, "tabane_key_calls_total", key="key:one", outcome="refused") == 1
    assert value(samples, "tabane_call_duration_seconds_count", server="github") == 0


def test_names_are_only_for_those_who_may_see_them() -> None:
    counters = CallCounters()
    counters.count(ISSUE, "key:one", "limited", 0.0, 0, 0)
    counters.count_auth_failure("expired")
    page = exposition(call_families(counters.read(), False))
    assert "github" not in page
    assert "key:one" not in page
    assert value(read(page), "tabane_limited_total") == 1
    assert value(read(page), "tabane_auth_failures_total", reason="expired") == 1


def test_no_name_of_a_server_makes_two_series_of_one_name() -> None:
    counters = CallCounters()
    for server in ("", "(hub)", "tabane", "other", "x" * 200, "x" * 300):
        counters.count(CallTarget("t", server), "local", "ok", 0, 0, 0)
    assert sum(count for *_, count in counters.read().calls) == 6
    assert value(page_of(counters), "tabane_calls_total", server="other", tool="t", outcome="ok") == 2


def test_resources_count_as_one_tool() -> None:
    counters = CallCounters()
    for number in range(50):
        counters.count(
            CallTarget(f"files__file:///{number}", "files", kind="resource"), "local", "ok", 0, 0, 0
        )
    samples = page_of(counters)
    assert value(samples, "tabane_calls_total", server="files", tool="resources/read", outcome="ok") == 50


def test_the_number_of_series_is_limited_and_nothing_is_lost() -> None:
    counters = CallCounters()
    tools, servers, keys = MOST_TOOLS + 100, MOST_SERVERS + 50, MOST_KEYS + 10
    for number in range(tools):
        counters.count(CallTarget(f"big__{number}", "big"), "local", "ok", 0, 0, 0)
    for number in range(servers):
        counters.count(CallTarget("x", f"server-{number}"), "local", "ok", 0, 0, 0)
    for number in range(keys):
        counters.count(ISSUE, f"oauth:{number}", "ok", 0, 0, 0)
    for number in range(MOST_REASONS + 10):
        counters.count_auth_failure(f"reason {number}")
    counts = counters.read()
    assert len(counts.calls) <= MOST_TOOLS + MOST_SERVERS + 1
    assert sum(count for *_, count in counts.calls) == tools + servers + keys
    assert len(counts.servers) <= MOST_SERVERS + 1
    assert len(counts.keys) <= MOST_KEYS + 1
    assert sum(count for *_, count in counts.keys) == tools + servers + keys
    assert len(counts.auth_failures) <= MOST_REASONS + 1
    assert sum(count for _, count in counts.auth_failures) == MOST_REASONS + 10
    assert value(page_of(counters), "tabane_calls_total", server="big", tool="other", outcome="ok") == 100


@given(
    st.lists(
        st.tuples(
            st.text(max_size=8),
            st.text(max_size=8),
            st.text(max_size=8),
            st.sampled_from(get_args(Outcome)),
            st.floats(0, 1e6),
            st.integers(0, 1 << 40),
        ),
        max_size=20,
    )
)
def test_any_names_make_a_page_that_prometheus_reads(
    calls: list[tuple[str, str, str, Outcome, float, int]],
) -> None:
    counters = CallCounters()
    for server, tool, holder, outcome, seconds, size in calls:
        counters.count(CallTarget(tool, server), holder, outcome, seconds, size, 0)
    samples = {key: count for key, count in page_of(counters).items() if key[0] == "tabane_calls_total"}
    assert sum(samples.values()) == len(calls)


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.text(st.characters(codec="utf-8"), max_size=30))
def test_labels_come_back_as_they_were(label: str, help_text: str) -> None:
    kind: MetricKind = "counter"
    family = MetricFamily("a_total", kind, help_text, [MetricSample((("name", label),), 3)])
    assert read(exposition([family])) == {("a_total", frozenset([("name", label)])): 3}


@given(st.lists(st.integers(0, 1 << 30), min_size=len(BOUNDS) + 1, max_size=len(BOUNDS) + 1))
def test_a_histogram_never_falls_and_ends_with_its_count(counts: list[int]) -> None:
    *buckets, total, count = histogram((), BOUNDS, counts, 1.5)
    values = [sample.value for sample in buckets]
    assert values == sorted(values)
    assert (values[-1], total.value) == (count.value, 1.5)
    assert count.value == sum(counts)


def test_the_audit_log_shows_what_it_lost() -> None:
    samples = read(exposition(audit_families(AuditCounts(1200, 3, 0.25))))
    assert value(samples, "tabane_audit_entries_total") == 1200
    assert value(samples, "tabane_audit_dropped_total") == 3
    assert value(samples, "tabane_audit_lag_seconds") == 0.25


def test_calls_of_a_server_are_counted_by_how_they_ended() -> None:
    counters = CallCounters()
    counters.count(ISSUE, "local", "ok", 0.02, 100, 0)
    counters.count(ISSUE, "local", "failed", 0.02, 100, 0)
    counters.count(ISSUE, "local", "refused", 0.0, 0, 0)
    for error, end in (
        (UpstreamTimeout(say("late")), "timeout"),
        (UpstreamDied(say("dead")), "unavailable"),
        (UpstreamError(say("no")), "protocol_error"),
        (BadArguments(say("bad"), "n"), "failed"),
    ):
        counters.count(ISSUE, "local", "failed", 0.02, 0, 0, failure_reason(error))
        assert value(page_of(counters), "tabane_server_calls_total", server=ISSUE.server, outcome=end) == 1
    samples = page_of(counters)
    for end in ("ok", "tool_error", "refused"):
        assert value(samples, "tabane_server_calls_total", server=ISSUE.server, outcome=end) == 1
