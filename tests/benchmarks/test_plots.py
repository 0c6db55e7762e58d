"""Plots as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from benchmarks.plots.elements import OURS, PEERS
from benchmarks.plots.scales import scale_of, steps, tick_label
from benchmarks.plots.svg import colors, picture
from benchmarks.sections.blocks import Plot, Series
from benchmarks.sections.plots import bars
from msgspec import structs

from tests.benchmarks.made_sections import BARS, LINES, POINTS

_SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


@pytest.mark.parametrize("plot", [BARS, POINTS, LINES], ids=lambda plot: plot.mark)
def test_a_picture_has_a_text_alternative_axes_and_names(plot: Plot) -> None:
    svg = picture(plot)
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{_SVG}desc") == plot.about
    assert root.findtext(f"{_SVG}title") == plot.title
    assert {plot.title, plot.x.label, *(series.name for series in plot.series)} <= set(texts(svg))
    assert not plot.y.label or plot.y.label in texts(svg)


@pytest.mark.parametrize("plot", [BARS, POINTS, LINES], ids=lambda plot: plot.mark)
def test_everything_is_within_the_picture(plot: Plot) -> None:
    root = ElementTree.fromstring(picture(plot))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for name, most in (("x", width), ("y", height), ("cx", width), ("cy", height)):
        places = [float(each.attrib[name]) for each in root.iter() if name in each.attrib]
        assert all(0 <= place <= most for place in places), name


def test_a_dark_page_has_colors_of_its_own() -> None:
    light, dark = picture(BARS).split("prefers-color-scheme:dark")
    background = re.compile(r"\.b\{fill:(#\w+)")
    assert background.search(light)[1] != background.search(dark)[1]  # type: ignore[index]


def test_our_colors_are_never_those_of_a_peer() -> None:
    series = tuple(Series(f"s{n}", ("a",), (1.0,), is_ours=n % 2 == 0) for n in range(12))
    found = colors(structs.replace(BARS, series=series))
    assert {found[each.name][0] for each in series if each.is_ours} == {"o"}
    assert {found[each.name][0] for each in series if not each.is_ours} == {"p"}
    assert not set(OURS) & set(PEERS)


def test_a_value_that_is_missing_has_no_bar() -> None:
    kinds = [each.attrib["class"][0] for each in ElementTree.fromstring(picture(BARS)).iter(f"{_SVG}rect")]
    assert (kinds.count("o"), kinds.count("p")) == (2, 1 + 1)  # a peer's mark in the legend is a square


def test_long_names_have_room_beside_the_bars() -> None:
    name = "exact substring, 3 to 8 characters, Japanese"
    root = ElementTree.fromstring(picture(structs.replace(BARS, series=(Series("hub", (name,), (2.0,)),))))
    (written,) = (each for each in root.iter(f"{_SVG}text") if each.text == name)
    assert float(written.attrib["x"]) >= 6.5 * len(name)
    assert written.attrib["text-anchor"] == "end"


def test_the_alternative_text_has_the_values_if_these_are_few() -> None:
    few = bars("rates", "Rates", "calls/s", {"hub": {"one": 21_702.4}, "rust": {"one": 13_000}}, ("hub",))
    many = bars("rates", "Rates", "calls/s", {"hub": {str(n): float(n) for n in range(40)}}, ("hub",))
    assert few.about == "Rates, calls/s. hub: one 21,702; rust: one 13,000."
    assert many.about == "Rates, calls/s. The values are in the table beside it."


def test_a_plot_without_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        picture(structs.replace(BARS, series=(Series("hub", ("p50",), (None,)),)))


def test_a_longer_bar_is_a_larger_value() -> None:
    linear = structs.replace(BARS, x=structs.replace(BARS.x, logarithmic=False))
    root = ElementTree.fromstring(picture(structs.replace(linear, series=linear.series[:1])))
    first, second = (
        float(each.attrib["width"]) for each in root.iter(f"{_SVG}rect") if "o" in each.attrib["class"]
    )
    assert second / first == pytest.approx(3.1 / 2.4, rel=0.01)


def test_steps_are_round() -> None:
    assert steps(0, 32_000) == [0, 10_000, 20_000, 30_000]
    assert steps(0.88, 1.0) == pytest.approx([0.88, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0])


def test_ticks_of_many_decades_are_powers_of_ten() -> None:
    few, many = (scale_of([1, high], 0, 1, logarithmic=True, zero=False).ticks() for high in (90, 9000))
    assert few == [1, 2, 5, 10, 20, 50, 100]
    assert many == [1, 10, 100, 1000, 10_000]


def test_a_logarithmic_scale_is_no_wider_than_its_values_want() -> None:
    scale = scale_of([2.4, 36.0], 0, 100, logarithmic=True, zero=False)
    assert (scale.low, scale.high) == (2, 50)


def test_a_scale_shows_all_values() -> None:
    for logarithmic in (False, True):
        scale = scale_of([0.03, 250.0], 100, 500, logarithmic=logarithmic, zero=True)
        assert 100 <= scale.at(0.03) < scale.at(250.0) <= 500


def test_one_value_is_no_scale_without_length() -> None:
    for logarithmic in (False, True):
        scale = scale_of([1.0], 100, 500, logarithmic=logarithmic, zero=False)
        assert 100 <= scale.at(1.0) <= 500


def test_labels_have_no_digits_that_say_nothing() -> None:
    assert [tick_label(each) for each in (0, 0.5, 2.0, 25_000)] == ["0", "0.5", "2", "25,000"]
