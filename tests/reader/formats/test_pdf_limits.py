"""PDFs that were made to be expensive end in time, and what a reader would see of them is kept."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tabane.errors import ReadError
from tabane.reader.formats import page_of
from tests.reader.formats.pdf_files import drawn, grid, rows, text

URL = "https://a.test/x.pdf"
SECONDS = 10.0  # of CPU time, that a worker has for a page
SEEN = text(72, 700, "Kettles boil water.")
IMAGE = "/Type/XObject/Subtype/Image/Width {0}/Height {0}/ColorSpace/DeviceGray/BitsPerComponent 8"
FORM = "/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>{}>>"
SHADING = (
    "/Shading<</S<</ShadingType 2/ColorSpace/DeviceGray/Coords[0 0 612 0]/Extend[true true]"
    "/Function<</FunctionType 2/Domain[0 1]/C0[1]/C1[1]/N 1>>>>>>"
)


def _rules() -> bytes:
    chance = random.Random(1)
    lines = []
    for nth in range(60_000):
        x, y = chance.randint(0, 550), chance.randint(0, 680)
        lines.append(f"{x} {y} m {x + 50} {y} l S\n" if nth % 2 else f"{x} {y} m {x} {y + 50} l S\n")
    return drawn(SEEN + "".join(lines))


def _tiny() -> bytes:
    chance = random.Random(2)
    return drawn(
        SEEN
        + "".join(text(chance.randint(0, 590), chance.randint(0, 680), "ab", size=2) for _ in range(30_000))
    )


def _areas() -> bytes:
    chance = random.Random(3)
    areas = (f".9 g {chance.randint(0, 590)} {chance.randint(0, 600)} 50 50 re f\n" for _ in range(40_000))
    return drawn("".join(areas) + "0 g " + SEEN)


def _nested() -> bytes:
    forms = {}
    for nth in range(5):
        inner = f"/XObject<</X {21 + nth} 0 R>>" if nth < 4 else ""
        content = "q 1 0 0 1 1 1 cm /X Do Q " * 8 if nth < 4 else text(72, 600, "deep")
        forms[20 + nth] = (FORM.format(inner), content.encode())
    return drawn(SEEN + "/X Do", resources="/XObject<</X 20 0 R>>", objects=forms)


def _long() -> bytes:
    page = "".join(text(20, 780 - nth * 7, "kettle water boils now " * 12, size=4) for nth in range(100))
    return drawn(SEEN + page, *[page] * 35)


def _image() -> bytes:
    return drawn(
        "q 600 0 0 600 0 0 cm /I Do Q " + SEEN,
        resources="/XObject<</I 20 0 R>>",
        objects={20: (IMAGE.format(9000), bytes(81_000_000))},
    )


HEAVY: dict[str, Callable[[], bytes]] = {
    "rules": _rules,
    "tiny texts": _tiny,
    "areas": _areas,
    "nested forms": _nested,
    "a million characters": _long,
    "a huge image": _image,
    "shadings": lambda: drawn("/S sh " * 8000 + SEEN, resources=SHADING),
    "a grid of a million cells": lambda: drawn(
        SEEN + grid([50 + n * 0.5 for n in range(1000)], [50 + n * 0.6 for n in range(1000)])
    ),
    "tables on each page": lambda: drawn(SEEN, *[rows([["a", "b", "c", "d"]] * 35, 50, 750, 100)] * 300),
    "a path of many points": lambda: drawn(SEEN + "0 0 m " + "1 1 l 2 5 l " * 100_000 + "S"),
    "a page of a kilometer": lambda: drawn(
        ".9 g 0 0 14000 14000 re f 0 g " + text(72, 700, "Kettles boil water.", size=40),
        box="0 0 14400 14400",
    ),
}


@pytest.mark.parametrize("kind", HEAVY)
def test_expensive_documents_end_in_time(kind: str) -> None:
    body = HEAVY[kind]()
    start = time.process_time()
    page = page_of(body, URL, "application/pdf")
    assert time.process_time() - start < SECONDS
    assert "Kettles boil water." in page.markdown


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
