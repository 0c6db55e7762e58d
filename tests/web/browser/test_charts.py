"""Charts in a browser: from zero, with gaps, readable labels, and a text of what is under the pointer."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.hub import WebBrowsers

MINUTE = 60
MIDNIGHT = 1_799_971_200
DRAW = """async ({kind, data, width, unit = "", options}) => {
  const script = document.querySelector("link[rel=modulepreload]").href.replace(/[^/]+$/, "chart.js");
  const figure = document.createElement("figure");
  figure.innerHTML = '<output data-readout></output><div class="chart" id="mine"></div>';
  document.querySelector("main").replaceChildren(figure);
  mine.style.width = `${width}px`;
  window.chart = (await import(script))[kind](mine, data, {
    series: data.slice(1).map(() => "ok"), y: (value) => `${value}${unit}`, height: 200,
    x: (time, distance) => new Date(time * 1000).toISOString().slice(11, distance < 60 ? 19 : 16),
    say: (at, shown) => `${at}: ${shown[1][at]}`, ...options,
  });
}"""
BOXES = """() => [...document.querySelectorAll("#mine text")].map((one) => {
  const box = one.getBoundingClientRect(), all = mine.getBoundingClientRect();
  return [one.matches(".chart-tick"), box.left - all.left, box.right - all.left];
})"""


def times(count: int, step: int = 1) -> list[int]:
    return [MIDNIGHT + at * step for at in range(count)]


def drawn(shared_web: WebBrowsers, kind: str, *series: list[Any], **options: Any) -> Page:
    """Return a page with a chart of series over seconds."""
    page = shared_web.page("/preferences")
    page.evaluate(DRAW, {"kind": kind, "data": [times(len(series[0])), *series], "width": 600, **options})
    expect(page.locator("#mine .chart-grid")).to_have_attribute("d", re.compile("M"))
    return page


def numbers(page: Page, path: str, pattern: str) -> list[float]:
    """Return the numbers at a pattern of the path that draws something."""
    found = page.locator(f"#mine .{path}").first.get_attribute("d") or ""
    return [float(number) for number in re.findall(pattern, found)]


def ticks(page: Page) -> list[str]:
    return page.locator("#mine .chart-tick").all_text_contents()


def test_bars_are_as_high_as_their_values_from_zero(shared_web: WebBrowsers) -> None:
    page = drawn(shared_web, "bars", [1000, 500, 0, 1])
    bottoms = numbers(page, "chart-bars", r"M[\d.]+,([\d.]+)")
    tops = numbers(page, "chart-bars", r"V([\d.]+)h")
    assert len(tops) == 3, "zero has no bar"
    heights = [bottom - top for bottom, top in zip(bottoms, tops, strict=True)]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.3)
    assert heights[2] >= 1, "few are not nothing"
    zero = page.locator("#mine .chart-tick").first
    assert zero.text_content() == "0"
    assert float(zero.get_attribute("y") or 0) == bottoms[0]


def test_a_line_has_gaps_and_a_point_at_each_value(shared_web: WebBrowsers) -> None:
    page = drawn(shared_web, "line", [5, 7, None, None, 3, None, 0])
    path = page.locator("#mine .chart-line").get_attribute("d") or ""
    assert re.sub(r"[^ML]", "", path) == "MLMM"
    assert len(numbers(page, "chart-points", r"M([\d.]+)")) == 4


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([0, 0], {"whole": True, "least": 4}, ["0", "1", "2", "3", "4"]),
        ([1, 1], {"whole": True}, ["0", "1"]),
        ([17, 3], {"whole": True}, ["0", "5", "10", "15"]),
        ([48_000, 3], {"whole": True}, ["0", "10000", "20000", "30000", "40000", "50000"]),
    ],
    ids=["nothing", "whole", "tens", "thousands"],
)
def test_lines_across_are_at_round_values(
    shared_web: WebBrowsers, values: list[int], options: dict[str, Any], expected: list[str]
) -> None:
    page = drawn(shared_web, "bars", values, options=options)
    assert ticks(page) == expected


@pytest.mark.parametrize("width", [160, 320, 900])
@pytest.mark.parametrize("step", [1, 5, 15, 86_400])
def test_labels_do_not_touch_and_stay_inside(shared_web: WebBrowsers, width: int, step: int) -> None:
    page = shared_web.page("/preferences", width=1440)
    data = [times(MINUTE, step), list(range(MINUTE))]
    page.evaluate(DRAW, {"kind": "line", "data": data, "width": width, "unit": " mm"})
    expect(page.locator("#mine text:not(.chart-tick)")).not_to_have_count(0)
    boxes = page.evaluate(BOXES)
    assert all(left >= 0 and right <= width for _, left, right in boxes)
    labels = [(left, right) for is_tick, left, right in boxes if not is_tick]
    assert all(first[1] + 10 < second[0] for first, second in itertools.pairwise(labels))
    shown = page.locator("#mine text:not(.chart-tick)").all_text_contents()
    if step < MINUTE:
        assert len(shown) == len(set(shown))


def test_the_readout_follows_the_pointer_and_the_data(shared_web: WebBrowsers) -> None:
    page = drawn(shared_web, "bars", [1, 2, 3, 4])
    told = page.locator("[data-readout]")
    page.locator("#mine svg").hover(position={"x": 590, "y": 50})
    expect(told).to_have_text("3: 4")
    page.evaluate("(data) => chart.set(data)", [times(4), [5, 6, 7, 8]])
    expect(told).to_have_text("3: 8")
    page.locator("#mine svg").hover(position={"x": 5, "y": 50})  # the labels
    expect(told).to_have_text("")
    page.locator("#mine svg").hover(position={"x": 590, "y": 50})
    page.mouse.move(0, 0)
    expect(told).to_have_text("")


def test_a_chart_follows_the_width_and_does_not_stretch_its_text(shared_web: WebBrowsers) -> None:
    page = drawn(shared_web, "bars", [1, 2, 3, 4])
    text = page.locator("#mine .chart-tick").first
    before = text.bounding_box()
    wide = max(numbers(page, "chart-grid", r"H([\d.]+)"))
    page.evaluate("mine.style.width = '300px'")
    expect(page.locator("#mine .chart-grid")).to_have_attribute("d", re.compile("H300"))
    after = text.bounding_box()
    assert wide == 600
    assert before
    assert after
    assert after["width"] == pytest.approx(before["width"], abs=0.1)
