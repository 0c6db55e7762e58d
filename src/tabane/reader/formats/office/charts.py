"""Charts of office documents as tables of their data."""

from __future__ import annotations

from lxml import etree
from lxml.html import HtmlElement

from tabane.reader.formats.office.drawing_colors import local, number
from tabane.reader.formats.office.package import attribute, named_child
from tabane.reader.formats.office.page_tree import child

_SERIES = 30
_POINTS = 200
_LONGEST = 300  # characters of a value


def add(part: etree._Element, parent: HtmlElement) -> None:
    """Append the title of a chart and its cached data: a row for each category, a column for each series."""
    chart = named_child(part, "chart")
    title = _title(named_child(chart, "title"))
    series = list(part.iter("{*}ser"))[:_SERIES]
    names = [_title(named_child(each, "tx")) for each in series]
    columns = [_values(named_child(each, "val"), named_child(each, "yVal")) for each in series]
    heads = [_values(named_child(each, "cat"), named_child(each, "xVal")) for each in series]
    first = next((head for head in heads if head), {})
    places = sorted({place for values in [first, *columns] for place in values})[:_POINTS]
    if not places or not any(columns):
        return
    table = child(parent, "table")
    if title:
        child(table, "caption", title)
    row = child(child(table, "thead"), "tr")
    for name in ["", *names]:
        child(row, "th", name)
    for place in places:
        row = child(table, "tr")
        for values in [first, *columns]:
            child(row, "td", values.get(place, ""))


def _title(node: etree._Element | None) -> str:
    """Return the text of a title, or the cached one of a cell."""
    if node is None:
        return ""
    parts = [str(each.text or "") for each in node.iter("{*}t", "{*}v")]
    return " ".join("".join(parts).split())[:_LONGEST]


def _values(*holders: etree._Element | None) -> dict[int, str]:
    """Return the cached values of a series by their place."""
    found: dict[int, str] = {}
    for holder in holders:
        for point in holder.iter("{*}pt") if holder is not None else ():
            value = named_child(point, "v")
            if value is not None and value.text and local(point) == "pt" and len(found) < _POINTS:
                found.setdefault(int(number(attribute(point, "idx"))), _value(value.text))
    return found


def _value(text: str) -> str:
    """Return a value; a number without the digits that only binary fractions have."""
    text = " ".join(text.split())[:_LONGEST]
    return f"{float(text):.12g}" if "." in text and number(text, 1e16) != 1e16 else text
