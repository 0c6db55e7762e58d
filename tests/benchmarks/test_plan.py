"""The plan of the benchmarks."""

from __future__ import annotations

import importlib.util

import pytest
from benchmarks.plan import (
    CHECK_LIMIT,
    LIMIT,
    PARTS,
    Chapter,
    Need,
    Part,
    UnknownPart,
    checked,
    chosen,
    needed,
)
from benchmarks.sections.section import FIGURES, read_sections

from tests.conftest import ROOT

SHORT = Part("calls", Chapter.GATEWAY, "a", ("--rounds", "9"), 10, check=("--rounds", "2"), check_seconds=3)
LONG = Part("growth", Chapter.SEARCH, "b", seconds=900, full=True, needs=(Need.GATEWAYS, Need.TOKENS))
BY_HAND = Part("reader", Chapter.PAGES, "c", inputs="DATA")


def test_the_short_parts_end_in_20_minutes() -> None:
    short = chosen(PARTS, [], full=False)
    assert sum(part.seconds for part in short) <= LIMIT == 20 * 60
    assert sum(part.seconds for part in checked(PARTS)) <= CHECK_LIMIT
    assert all(part.seconds for part in (*chosen(PARTS, [], full=True), *checked(PARTS)))


def test_every_part_has_a_module_and_a_name_of_its_own() -> None:
    assert [part.module for part in PARTS if importlib.util.find_spec(part.module) is None] == []
    assert len({part.name for part in PARTS}) == len(PARTS)


def test_every_section_of_the_page_is_of_a_part() -> None:
    assert set(read_sections(FIGURES)) - {part.name for part in PARTS} == set()


def test_every_headline_is_a_goal_of_its_section() -> None:
    sections = read_sections(FIGURES)
    for part in PARTS:
        if part.name in sections:
            assert set(part.headlines) <= {figure.name for figure in sections[part.name].goals()}


def test_what_parts_need_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert [need for need in Need if f"\n{need.value}: " not in makefile] == []


def test_parts_are_chosen_by_length_and_by_name() -> None:
    several = (SHORT, LONG, BY_HAND)
    assert chosen(several, [], full=False) == [SHORT]
    assert chosen(several, [], full=True) == [SHORT, LONG]
    assert chosen(several, ["growth"], full=False) == [LONG]


@pytest.mark.parametrize("name", ["nothing", "reader"])
def test_an_unknown_part_is_an_error_that_lists_the_others(name: str) -> None:
    with pytest.raises(UnknownPart, match="calls, growth"):
        chosen((SHORT, LONG, BY_HAND), [name], full=False)


def test_a_check_is_the_short_run_of_a_part() -> None:
    (one,) = checked((SHORT, LONG))
    assert (one.name, one.arguments, one.seconds) == ("calls", ("--rounds", "2"), 3)


def test_what_parts_need_is_installed_once() -> None:
    assert needed((LONG, SHORT, LONG)) == [Need.GATEWAYS, Need.TOKENS]
