"""Trails: they only gain labels, until 30 minutes have passed without a call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.flows.flow_rule import FlowRule
from tabane.guard.flows.naming import KeptText
from tabane.guard.flows.trails import IDLE, MOST_TRAILS, Trail, TrailKey, Trails
from tabane.operations import Caller, CallTarget, Face
from tabane.servers.labels import NO_LABELS, PRIVATE, UNTRUSTED, CallLabels

KEYS = [TrailKey("local", client, folder) for client in ("a", "b") for folder in ("/x", "/y")]
STEPS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 3), st.floats(0, IDLE), st.booleans()), max_size=30
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@given(STEPS)
def test_labels_only_grow_while_calls_follow_within_30_minutes(
    steps: list[tuple[TrailKey, int, float, bool]],
) -> None:
    clock = Clock()
    trails = Trails(clock)
    seen = dict.fromkeys(KEYS, 0)
    used = dict.fromkeys(KEYS, clock.now)
    for key, labels, pause, restarts in steps:
        clock.now += pause
        if restarts:  # what a new hub reads from the file
            kept = list(trails)
            trails = Trails(clock)
            for trail in kept:
                trails.restore(trail)
        if clock.now - used[key] > IDLE:
            seen[key] = 0
        trails.use(key).add(labels, "server", "server__tool")
        seen[key] |= labels
        used[key] = clock.now
        for each in KEYS:
            found = trails.find(each)
            if clock.now - used[each] <= IDLE:
                assert (found.labels if found else 0) == seen[each]


def test_a_trail_ends_after_30_minutes_without_a_call() -> None:
    clock = Clock()
    trails = Trails(clock)
    trails.use(KEYS[0]).add(PRIVATE | UNTRUSTED, "mail", "mail__read")
    clock.now += IDLE
    assert trails.find(KEYS[0]) is not None
    clock.now += 1
    assert trails.find(KEYS[0]) is None
    assert trails.use(KEYS[0]).labels == 0


def test_a_clock_that_is_set_back_ends_nothing() -> None:
    clock = Clock()
    trails = Trails(clock)
    trails.use(KEYS[0]).add(UNTRUSTED, "web", "web__fetch")
    clock.now -= 10 * IDLE
    assert trails.use(KEYS[0]).labels == UNTRUSTED


def test_a_client_more_than_have_their_texts_kept_shares_its_trail_with_nobody() -> None:
    """The texts of the oldest are forgotten, but not what it has read."""
    clock = Clock()
    trails = Trails(clock)
    keys = [TrailKey("local", str(number), "") for number in range(MOST_TRAILS + 1)]
    for key in keys:
        trails.use(key).add(UNTRUSTED, f"server{key.client}", "tool")
        trails.kept += trails.use(key).texts.add(KeptText("others", b"text"))
    assert trails.spilled() is None
    kept = {trail.key: trail for trail in trails}
    assert all(kept[key].untrusted.keys() == {f"server{key.client}"} for key in keys)
    assert [kept[key].texts.whole for key in (keys[0], keys[-1])] == [False, True]
    assert trails.kept == 4 * MOST_TRAILS


def test_what_all_trails_keep_is_bounded_and_counted() -> None:
    clock = Clock()
    trails = Trails(clock)
    for number in range(50):
        trail = trails.use(TrailKey("local", str(number), ""))
        trail.add(PRIVATE | UNTRUSTED, "mail", "mail__read")
        trails.kept += trail.texts.add(KeptText("others", b"x" * 100_000))
        trails.kept += trail.addresses.keep(b"y" * 100_000)
        trails.make_room(1_000_000)
        assert trails.kept <= 1_000_000
    assert trails.kept == sum(trail.texts.size + trail.addresses.kept for trail in trails)
    trails.forget(lambda key: True)
    assert trails.kept == 0


@given(st.integers(2, 6), st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_making_room_washes_no_label_off(most: int, clients: list[int]) -> None:
    clock = Clock()
    trails = Trails(clock, most)
    for client in clients:
        trails.use(TrailKey("local", str(client), "")).add(UNTRUSTED, f"server{client}", "tool")
    assert len(list(trails)) <= most
    for client in clients:
        own, spilled = trails.find(TrailKey("local", str(client), "")), trails.spilled()
        assert any(trail is not None and trail.labels & UNTRUSTED for trail in (own, spilled))


def test_sources_are_bounded_and_none_is_lost_without_a_mark() -> None:
    trail = Trail(KEYS[0])
    for number in range(100):
        trail.add(UNTRUSTED, f"server{number}", "tool")
    assert len(trail.untrusted) == 17
    assert "…" in trail.untrusted


def test_a_call_without_labels_keeps_a_trail_alive() -> None:
    clock = Clock()
    rule = FlowRule("ask", Trails(clock), _labels, lambda holder: (), lambda trail: None)
    caller = Caller("local", Face.MCP, "1", client="a")
    rule.answered(caller, CallTarget("web__fetch", "web"))
    for _ in range(3):
        clock.now += IDLE - 1
        rule.answered(caller, CallTarget("time__now", "time"))
    assert rule.read_by(caller) == UNTRUSTED


def _labels(target: CallTarget) -> CallLabels:
    return NO_LABELS.with_labels(UNTRUSTED if target.server == "web" else 0, "table")
