"""PDFs that were made to be expensive end in time, and what a reader would see of them is kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache

import pytest

from tabane.errors import ReadError
from tabane.reader.formats import page_of
from tests.harness.patience import assert_in_proportion
from tests.reader.formats.pdf_files import drawn, grid, rows, text

URL = "https://a.test/x.pdf"
SEEN = text(72, 700, "Kettles boil water.")
IMAGE = "/Type/XObject/Subtype/Image/Width {0}/Height {0}/ColorSpace/DeviceGray/BitsPerComponent 8"
FORM = "/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>{}>>"
SHADING = (
    "/Shading<</S<</ShadingType 2/ColorSpace/DeviceGray/Coords[0 0 612 0]/Extend[true true]"
    "/Function<</FunctionType 2/Domain[0 1]/C0[1]/C1[1]/N 1>>>>>>"
)


def _rules(n: int) -> bytes:
    chance = random.Random(1)
    lines = []
    for nth in range(n):
        x, y = chance.randint(0, 550), chance.randint(0, 680)
        lines.append(f"{x} {y} m {x + 50} {y} l S\n" if nth % 2 else f"{x} {y} m {x} {y + 50} l S\n")
    return drawn(SEEN + "".join(lines))


def _tiny(n: int) -> bytes:
    chance = random.Random(2)
    return drawn(
        SEEN + "".join(text(chance.randint(0, 590), chance.randint(0, 680), "ab", size=2) for _ in range(n))
    )


def _areas(n: int) -> bytes:
    chance = random.Random(3)
    areas = (f".9 g {chance.randint(0, 590)} {chance.randint(0, 600)} 50 50 re f\n" for _ in range(n))
    return drawn("".join(areas) + "0 g " + SEEN)


def _nested(n: int) -> bytes:
    """Forms in forms, so that the innermost is drawn ``n`` times."""
    forms, depth = {}, round(math.log(n, 8))
    for nth in range(depth):
        inner = f"/XObject<</X {21 + nth} 0 R>>" if nth < depth - 1 else ""
        content = "q 1 0 0 1 1 1 cm /X Do Q " * 8 if inner else text(72, 600, "deep")
        forms[20 + nth] = (FORM.format(inner), content.encode())
    return drawn(SEEN + "/X Do", resources="/XObject<</X 20 0 R>>", objects=forms)


def _long(n: int) -> bytes:
    page = "".join(text(20, 780 - nth * 7, "kettle water boils now " * 12, size=4) for nth in range(100))
    return drawn(SEEN, *[page] * (n // 300))


def _image(n: int) -> bytes:
    side = math.isqrt(n * 5000)
    return drawn(
        "q 600 0 0 600 0 0 cm /I Do Q " + SEEN,
        resources="/XObject<</I 20 0 R>>",
        objects={20: (IMAGE.format(side), bytes(side * side))},
    )


def _cells(n: int) -> bytes:
    side = math.isqrt(n * 60)
    return drawn(SEEN + grid(*([50 + nth * 600 / side for nth in range(side)],) * 2))


def _large(n: int) -> bytes:
    side = math.isqrt(n * 15_000)
    seen = text(72, 700, "Kettles boil water.", size=40)
    return drawn(f".9 g 0 0 {side} {side} re f 0 g {seen}", box=f"0 0 {side} {side}")


HEAVY: dict[str, Callable[[int], bytes]] = {
    "rules": _rules,
    "tiny texts": _tiny,
    "areas": _areas,
    "nested forms": _nested,
    "a million characters": _long,
    "a huge image": _image,
    "shadings": lambda n: drawn("/S sh " * (n // 2) + SEEN, resources=SHADING),
    "a grid of a million cells": _cells,
    "tables on each page": lambda n: drawn(
        SEEN, *[rows([["a", "b", "c", "d"]] * 35, 50, 750, 100)] * (n // 100)
    ),
    "a path of many points": lambda n: drawn(SEEN + "0 0 m " + "1 1 l 2 5 l " * 5 * n + "S"),
    "a page of a kilometer": _large,
}


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("kind", HEAVY)
def test_expensive_documents_take_time_in_proportion_to_their_size(kind: str) -> None:
    body = cache(HEAVY[kind])

    def read(size: int) -> None:
        assert "Kettles boil water." in page_of(body(size), URL, "application/pdf").markdown

    assert_in_proportion(read, 1_500)


@pytest.mark.heavy("input that is expensive on purpose")
def test_hidden_text_that_could_not_be_checked_is_said() -> None:
    page = page_of(drawn("/S sh " * 20_000 + SEEN, resources=SHADING), URL, "application/pdf")
    assert [str(warning) for warning in page.warnings] == [
        "1 page is too complex to be checked completely for text that readers do not see."
    ]


def test_a_page_of_an_image_alone_is_counted() -> None:
    image = drawn(
        "q 600 0 0 600 0 0 cm /I Do Q",
        resources="/XObject<</I 20 0 R>>",
        objects={20: (IMAGE.format(2), bytes(4))},
    )
    with pytest.raises(ReadError, match="1 page and no text"):
        page_of(image, URL, "application/pdf")
