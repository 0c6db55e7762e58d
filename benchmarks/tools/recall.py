"""Recall of tool search: python benchmarks/tools/recall.py SET.json [SET.json …] [--split] [--misses N]

A set is ``{"tools": [{id, server, name, description, params?, inputSchema?}], "queries": [{query,
gold: [{ids: […]}]}]}``. A gold entry is met by any of its ids; recall@k is the mean over queries of the
share of gold entries met in the first k. ``--split`` prints two halves apart, split by the first right
tool: tune on the first, believe the second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import zlib
from pathlib import Path
from typing import Any

from tabane.gateway.tools.index import ToolIndex, ToolQuery
from tabane.gateway.tools.tool import Tool

CUTS = (1, 5, 10)


def read_tools(entries: list[dict[str, Any]]) -> list[Tool]:
    """The tools of a set, their ids as aliases."""
    return [
        Tool(
            alias=entry["id"],
            server=entry["server"],
            name=entry["name"],
            definition=json.dumps(entry).encode(),
            description=entry.get("description") or "",
            schema=entry.get("inputSchema") or {"properties": entry.get("params") or {}},
        )
        for entry in entries
    ]


def recall(found: list[str], gold: list[dict[str, Any]], cut: int) -> float:
    first = set(found[:cut])
    return sum(bool(first & set(entry["ids"])) for entry in gold) / len(gold)


def second_half(query: dict[str, Any]) -> bool:
    return bool(zlib.crc32(query["gold"][0]["ids"][0].encode()) % 2)


def measure(path: Path, split: bool, misses: int) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    index = ToolIndex(":memory:")
    began = time.process_time()
    index.replace("set", read_tools(data["tools"]))
    built = (time.process_time() - began) * 1000
    index.search(ToolQuery("warm up"))
    times: list[float] = []
    rows: list[tuple[bool, list[float]]] = []
    for query in data["queries"]:
        began = time.perf_counter()
        hits = index.search(ToolQuery(query["query"], limit=max(CUTS)))
        times.append((time.perf_counter() - began) * 1000)
        found = [hit.alias for hit in hits.hits]
        scores = [recall(found, query["gold"], cut) for cut in CUTS]
        rows.append((second_half(query), scores))
        if scores[-1] < 1 and misses:
            misses -= 1
            print(f"  missed: {query['query']!r} wants {query['gold'][0]['ids']}, found {found[:3]}")
    print(f"{path.name}: {len(data['tools'])} tools, {len(rows)} queries, built in {built:.0f} ms CPU")
    print(f"  search p50 {statistics.median(times):.2f} ms, max {max(times):.2f} ms")
    show("all", [scores for _, scores in rows])
    if split:
        show("first half", [scores for second, scores in rows if not second])
        show("second half", [scores for second, scores in rows if second])


def show(label: str, rows: list[list[float]]) -> None:
    means = [statistics.fmean(column) for column in zip(*rows, strict=True)]
    cuts = "  ".join(f"@{cut} {mean:.3f}" for cut, mean in zip(CUTS, means, strict=True))
    print(f"  {label}: recall {cuts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--split", action="store_true", help="print two halves apart")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="print the first N misses")
    arguments = parser.parse_args()
    for path in arguments.sets:
        measure(path, arguments.split, arguments.misses)


if __name__ == "__main__":
    main()
