"""Answers of the queries on the audit log and on usage as text for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tabane.messages import Lang, Message, say

Found = Mapping[str, Any]


def entries(found: Found, lang: Lang) -> str:
    """Return entries, one per line."""
    if not found["results"]:
        return say("No entries match.").render(lang)
    return "\n".join(_entry_line(entry) for entry in found["results"])


def counts(found: Found, lang: Lang) -> str:
    """Return the numbers of entries by type and outcome."""
    lines = [say("Entries: {count}", count=found["total"])]
    for name in ("by_type", "by_outcome"):
        lines += [Message("  {name}: {count}", **row) for row in found[name]]
    return _render_lines(lines, lang)


def usage(found: Found, lang: Lang) -> str:
    """Return the usage of each group, one per line, and the sum."""
    if not found["results"]:
        return say("No calls from {start} to {end}.", start=found["start"], end=found["end"]).render(lang)
    groups = [_group_line(str(group[found["by"]]) or "-", group) for group in found["results"]]
    return _render_lines([*groups, _group_line(say("All"), found["sum"])], lang)


def analysis(found: Found, lang: Lang) -> str:
    """Return the analysis, a paragraph for each question."""
    offered, unused = found["offered"], found["unused"]
    parts: list[Message] = [
        say(
            "From {start} to {end}, {unused} of {tools} {tools:tool|tools} {unused:was|were} not used. "
            "Unused definitions take about {tokens} of {all} {all:token|tokens}.",
            start=found["start"], end=found["end"], unused=unused["tools"], tools=offered["tools"],
            tokens=unused["tokens"], all=offered["tokens"],
        )
    ]  # fmt: skip
    for title, rows in (
        (say("Unused servers:"), [_unused_server_line(row) for row in found["unused_servers"]]),
        (say("Slowest tools:"), [_slow_line(row) for row in found["slowest"]]),
        (say("Tools that fail most often:"), [_failing_line(row) for row in found["failing"]]),
        (say("Clients:"), [_client_line(row) for row in found["clients"]]),
    ):
        if rows:
            parts += [title, *rows]
    return _render_lines(parts, lang)


def milliseconds(value: float | None) -> str:
    """Return a duration in ms or s, with three digits, and two decimals at most."""
    if value is None:
        return ""
    if value >= 999.5:  # with three digits, that is 1,000
        return f"{value / 1000:.3g} s" if value < 999_500 else f"{value / 1000:,.0f} s"
    return f"{round(value, 2) or value:.3g} ms"


def _entry_line(entry: Found) -> str:
    who = entry.get("label") or entry.get("key") or "-"
    parts = [entry["time"], who, entry.get("name") or entry["type"], entry.get("outcome") or ""]
    if entry.get("ms"):
        parts.append(milliseconds(entry["ms"]))
    return "  ".join(part for part in (*parts, entry.get("reason")) if part)


def _group_line(name: str | Message, group: Found) -> Message:
    return say(
        "{name}: {calls} {calls:call|calls}, {errors} {errors:error|errors}, p50 {p50}, p95 {p95}, p99 {p99}",
        name=name, calls=group["calls"], errors=group["errors"], p50=milliseconds(group["p50_ms"]) or "-",
        p95=milliseconds(group["p95_ms"]) or "-", p99=milliseconds(group["p99_ms"]) or "-",
    )  # fmt: skip


def _unused_server_line(row: Found) -> Message:
    return say("  {server}: {tools} {tools:tool|tools}, {tokens} {tokens:token|tokens}", **row)


def _slow_line(row: Found) -> Message:
    return say(
        "  {tool}: p95 {p95}, {calls} {calls:call|calls}",
        tool=row["tool"], p95=milliseconds(row["p95_ms"]), calls=row["calls"],
    )  # fmt: skip


def _failing_line(row: Found) -> Message:
    return say(
        "  {tool}: {errors} of {calls} {calls:call|calls}", **{k: row[k] for k in ("tool", "errors", "calls")}
    )


def _client_line(row: Found) -> Message:
    return say(
        "  {client}: {calls} {calls:call|calls}, about {tokens} {tokens:token|tokens} of results, {saved} "
        "{saved:token|tokens} saved",
        client=row["client"] or "-", calls=row["calls"], tokens=row["tokens"], saved=row["saved"],
    )  # fmt: skip


def _render_lines(messages: Iterable[Message], lang: Lang) -> str:
    return "\n".join(message.render(lang) for message in messages)
