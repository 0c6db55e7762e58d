"""The style sheets, which are joined into one: a name belongs to one of them.

Shared sheets come first. A rule of an area may refine what is shared only together with a name of its own;
otherwise it would change the pages of others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tabane.web.rendering import FIRST_STYLES, STATIC_FOLDER

FOLDER = STATIC_FOLDER / "css"
AREAS = sorted(file.name for file in FOLDER.glob("*.css") if file.name not in FIRST_STYLES)

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_BLOCK = re.compile(r"([^{}]+)\{")
_COMMA = re.compile(r",(?![^(]*\))")
_NAME = re.compile(r"\.(-?[A-Za-z_][\w-]*)|(#[A-Za-z_][\w-]*)|\[(data-[\w-]+)")
_OF_LIBRARIES = re.compile(r"htmx-")
"""Names that htmx gives."""


def selectors(sheet: str) -> Iterator[str]:
    """Yield each selector of a sheet, also of those in media queries."""
    text = _COMMENT.sub("", (FOLDER / sheet).read_text(encoding="utf-8"))
    for block in _BLOCK.findall(text):
        prelude = block.rpartition(";")[2].strip()
        if not prelude.startswith("@") and not re.fullmatch(r"(?:from|to|[\d.]+%)", prelude):
            yield from (selector.strip() for selector in _COMMA.split(prelude))


def names(selector: str) -> set[str]:
    """Return the classes, ids and data attributes that a selector names."""
    found = ({part for part in match if part} for match in _NAME.findall(selector))
    return {name for part in found for name in part if not _OF_LIBRARIES.match(name)}


def shared() -> set[str]:
    return {name for sheet in FIRST_STYLES for selector in selectors(sheet) for name in names(selector)}


def test_a_name_belongs_to_one_sheet() -> None:
    where: dict[str, set[str]] = defaultdict(set)
    common = shared()
    for sheet in AREAS:
        for selector in selectors(sheet):
            for name in names(selector) - common:
                where[name].add(sheet)
    assert {name: sorted(sheets) for name, sheets in where.items() if len(sheets) > 1} == {}


@pytest.mark.parametrize("sheet", AREAS)
def test_a_rule_of_an_area_names_something_of_its_own(sheet: str) -> None:
    common = shared()
    assert [selector for selector in selectors(sheet) if not names(selector) - common] == []


def test_the_selectors_of_a_sheet_are_found() -> None:
    assert names(".call-panel:not([hidden]) :is(.call-size, #one), [data-x=a]") == {
        *("call-panel", "call-size", "#one", "data-x"),
    }
    found = list(selectors("components.css"))
    assert ".btn" in found
    assert ".table.folding thead" in found  # in a media query
    assert not any(selector.startswith(("@", "to", "from")) for selector in found)
