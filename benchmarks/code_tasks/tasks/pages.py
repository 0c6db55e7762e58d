"""Tasks on tables of web pages."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world_hub import WorldHub
from benchmarks.code_tasks.world_records import CITIES

READ = "read a web page"

_ROW = r"^\| ([\w ]+?) +\| +(\d+) +\| +(\d+) +\|"


def _tables(call: DirectCalls) -> dict[str, list[tuple[str, int, int]]]:
    found = {}
    for city in CITIES:
        text = call("read_url_content", url=f"http://SITE/{city.lower()}")
        found[city] = [(item, int(price), int(count)) for item, price, count in re.findall(_ROW, text, re.M)]
    return found


_LOOK = """from tools import read_url_content
(await read_url_content(url="http://SITE/kyoto"))[:1200]"""

_READ = """import asyncio, re
from tools import read_url_content
cities = ["Kyoto", "Oslo", "Lima", "Quito", "Turin"]
pages = await asyncio.gather(*[read_url_content(url=f"http://SITE/{c.lower()}") for c in cities])
tables = {c: re.findall(r"(?m)^\\| ([\\w ]+?) +\\| +(\\d+) +\\| +(\\d+) +\\|", p) for c, p in zip(cities, pages)}
"""


def _cheapest(tables: dict[str, list[tuple[str, int, int]]]) -> Any:
    prices = {
        city: next(price for item, price, _ in rows if item.endswith("chair"))
        for city, rows in tables.items()
    }
    return min(prices, key=lambda city: prices[city])


def _values(tables: dict[str, list[tuple[str, int, int]]]) -> Any:
    return {city: sum(price * count for _, price, count in rows) for city, rows in tables.items()}


def _missing(tables: dict[str, list[tuple[str, int, int]]]) -> str:
    lines = [f"{city}: {item}" for city, rows in tables.items() for item, _, count in rows if count < 3]
    return "\n".join(lines)


def _saved(call: DirectCalls) -> Any:
    text = _missing(_tables(call))
    call("put_document", filepath="out/missing.md", text=text)
    return text.count("\n") + 1


def _has_saved(hub: WorldHub) -> bool:
    return hub.document("out/missing.md") == _missing(hub.world.records.stock)


def _shops() -> str:
    return ", ".join(f"http://SITE/{city.lower()}" for city in CITIES)


TASKS = (
    CodeTask(
        "cheapest-chair", f"In which of these shops is the chair cheapest? {_shops()}",
        (), (READ,), lambda call: _cheapest(_tables(call)),
        (_LOOK, _READ + """price = {c: [int(p) for item, p, _ in rows if item.endswith("chair")][0] for c, rows in tables.items()}
min(price, key=lambda c: price[c])""",),
        lambda world: _cheapest(world.records.stock),
    ),
    CodeTask(
        "value-of-stock", f"次の店のページの表から、在庫の金額(価格×在庫)の合計を店ごとに計算してください: {_shops()}",
        (), ("ウェブページを読む",), lambda call: _values(_tables(call)),
        (_LOOK, _READ + "{c: sum(int(p) * int(n) for _, p, n in rows) for c, rows in tables.items()}",),
        lambda world: _values(world.records.stock),
    ),
    CodeTask(
        "missing-items", f"Save a document out/missing.md with a line “City: item” for each item of which a shop has less than 3. How many lines has it? Shops: {_shops()}",
        (), (READ, "save a document"), _saved,
        (_LOOK, _READ + """from tools import put_document
lines = [f"{c}: {item}" for c, rows in tables.items() for item, _, n in rows if int(n) < 3]
await put_document(filepath="out/missing.md", text="\\n".join(lines))
len(lines)""",),
        lambda world: _missing(world.records.stock).count("\n") + 1,
        _has_saved,
    ),
)  # fmt: skip
