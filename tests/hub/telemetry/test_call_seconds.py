"""Figures of calls by the second."""

from __future__ import annotations

from tabane.hub.telemetry import live_recording
from tabane.hub.telemetry.live_recording import CallSeconds, SecondFigures


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_calls_are_counted_in_their_second_with_percentiles() -> None:
    clock, over = Clock(), list[SecondFigures]()
    seconds = CallSeconds(over.append, clock)
    for number in range(100):
        seconds.count("ok", number / 1000)
    seconds.count("failed", 0.5)
    seconds.count("limited", 0.0)
    clock.now = 1002.5
    seconds.count("cancelled", 0.001)
    clock.now = 1003.0
    report = seconds.report(5)
    assert report["from"] == 998
    assert report["calls"] == [0, 0, 102, 0, 1]
    assert report["failed"] == [0, 0, 1, 0, 0]
    assert report["refused"] == [0, 0, 1, 0, 0]
    assert report["p50"][2:] == [50.0, None, 1.0]
    assert report["p95"][2] == 95.0
    assert [figures.second for figures in over] == [1000, 1002]


def test_a_second_with_refused_calls_only_has_no_times() -> None:
    clock = Clock()
    seconds = CallSeconds(lambda figures: None, clock)
    seconds.count("refused", 0.0)
    clock.now += 1
    assert seconds.report(1)["p50"] == [None]


def test_only_the_last_minutes_and_some_durations_are_kept() -> None:
    clock = Clock()
    seconds = CallSeconds(lambda figures: None, clock)
    for _ in range(3 * live_recording.KEPT):
        seconds.count("ok", 0.25)
        clock.now += 1
    for _ in range(20_000):
        seconds.count("ok", 0.25)
    clock.now += 1
    report = seconds.report(10_000)
    assert len(report["calls"]) == live_recording.KEPT
    assert report["calls"][-1] == 20_000
    assert report["p95"][-1] == 250.0


def test_calls_that_ended_earlier_are_counted_in_their_seconds_and_are_no_news() -> None:
    clock, over = Clock(), list[SecondFigures]()
    seconds = CallSeconds(over.append, clock)
    seconds.recall(990.5, [(991.2, "ok", 0.002), (991.4, "failed", 0.004), (993.0, "refused", 0.0)])
    assert over == []
    report = seconds.report(12)
    assert (report["from"], report["since"]) == (988, 990)
    assert report["calls"] == [0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0]
    assert (report["failed"][3], report["refused"][5], report["p95"][3]) == (1, 1, 4.0)
