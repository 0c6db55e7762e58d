"""Which colors and sizes can be read."""

from __future__ import annotations

import pytest

from tabane.reader.hidden_text import WHITE, Color, contrast, hex_color, is_tiny, is_unreadable


def test_contrast_is_that_of_wcag() -> None:
    assert contrast((0, 0, 0), WHITE) == pytest.approx(21)
    assert contrast(WHITE, (118, 118, 118)) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize(
    ("color", "ground", "opacity", "unreadable"),
    [
        (WHITE, WHITE, 1.0, True),
        ((250, 250, 250), WHITE, 1.0, True),
        ((238, 238, 238), WHITE, 1.0, True),
        ((208, 208, 208), WHITE, 1.0, False),
        ((255, 255, 0), WHITE, 1.0, False),
        ((12, 12, 12), (0, 0, 0), 1.0, True),
        ((60, 60, 60), (0, 0, 0), 1.0, False),
        ((0, 0, 0), WHITE, 0.05, True),
        ((0, 0, 0), WHITE, 0.5, False),
        ((128, 128, 128), WHITE, 0.12, True),
        (None, WHITE, 1.0, False),
        (WHITE, None, 1.0, False),
    ],
)
def test_unreadable(color: Color | None, ground: Color | None, opacity: float, unreadable: bool) -> None:
    assert is_unreadable(color, ground, opacity) is unreadable


def test_colors_and_sizes() -> None:
    assert hex_color("#80FF00") == hex_color("FF80ff00") == (128, 255, 0)
    assert hex_color("auto") is hex_color(None) is hex_color("12345g") is None
    assert [is_tiny(size) for size in (None, 0.0, 1.9, 2.0)] == [False, True, True, False]
