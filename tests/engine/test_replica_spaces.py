"""A replica gets the spaces of the truth, however often it is cut off on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.engine.collection_replica import SpaceStep, after_step, next_step, reached

NAMES = ("a", "b", "c", "moving0", "moving1")
SPACES = st.dictionaries(st.integers(1, 5), st.sampled_from(NAMES), max_size=5).filter(
    lambda spaces: len(set(spaces.values())) == len(spaces)
)
MOST_STEPS = 20


def done(there: dict[str, int], step: SpaceStep) -> None:
    """Do the step with a collection (name → number), which loses a space if another takes its name."""
    if step.kind == "drop":
        there.pop(step.name, None)
    elif step.kind == "rename":
        there[step.name] = there.pop(step.old)
    else:
        assert step.name not in there
        there[step.name] = step.number


@given(SPACES, st.lists(SPACES, min_size=1, max_size=3), st.lists(st.sampled_from(["", "before", "after"])))
def test_every_space_ends_with_its_name_also_if_steps_are_cut_off(
    held: dict[int, str], changes: list[dict[int, str]], cuts: list[str]
) -> None:
    there = {name: number for number, name in held.items()}
    for wanted in changes:  # the truth may change again while the replica is cut off
        for _ in range(MOST_STEPS):
            if (step := next_step(held, wanted)) is None:
                break
            cut = cuts.pop() if cuts else ""
            if cut != "before":
                done(there, step)
            if cut:
                held = reached(held, step, there.keys())
                assert held == {number: name for name, number in there.items()}
                break
            held = after_step(held, step)
            assert held == {number: name for name, number in there.items()}
    wanted = changes[-1]
    for _ in range(MOST_STEPS):
        if (step := next_step(held, wanted)) is None:
            break
        done(there, step)
        held = after_step(held, step)
    assert held == wanted == {number: name for name, number in there.items()}


@given(SPACES, SPACES)
def test_a_space_that_stays_is_never_dropped(held: dict[int, str], wanted: dict[int, str]) -> None:
    there = {name: number for number, name in held.items()}
    while (step := next_step(held, wanted)) is not None:
        done(there, step)
        held = after_step(held, step)
        assert wanted.keys() & held.keys() <= set(there.values())
        assert not (step.kind == "drop" and step.number in wanted)
