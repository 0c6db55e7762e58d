"""The figures as a page of Markdown, which is also what is printed; pure but for the machine's name."""

from __future__ import annotations

import platform
from datetime import date
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from statistics import median

import psutil
from benchmarks.gateway.calling import WIDTHS, Calls
from benchmarks.gateway.counting import CROWD, Sizes
from benchmarks.gateway.figures import BIG, Figures, goals
from benchmarks.gateway.other_gateways import versions
from benchmarks.gateway.plots import beside_others, calls_plot, memory_plot, rates_plot, starts_plot
from benchmarks.gateway.starting import NEW, Start
from benchmarks.gateway.tokens import Tokens
from benchmarks.gateway.ways import BRIDGE, DIRECT, STANDALONE
from benchmarks.report import Goal, loads, machine, table
from benchmarks.report import goals as goals_table
from benchmarks.sections.blocks import Block, Table

TITLE = "## The gateway, over stdio"
PARTS = ("hub", "keeper", "bridge", "upstream")


def ratios_page(found: list[Goal], command: str) -> list[Block | str]:
    """Ratios alone, for ``make bench-check``."""
    return [TITLE, machine(command), goals_table(found)]


def page(figures: Figures, command: str) -> list[Block | str]:
    """Its section of the performance page: goals, tables, plots, how it was measured."""
    return [
        TITLE,
        _head(command),
        "### Against the goals",
        goals_table(goals(figures)),
        "### Tokens",
        tokens_table(figures.sizes),
        "### Starting",
        table(("", "first answer", "CPU", "first result of a tool", "CPU"), _starts(figures.starts)),
        "### Calling",
        "One after the other, at the scheduler's pleasure and with all processes on one core:",
        table(("", "p50", "p95", "× direct", "CPU a call", "one core: p50", "× direct"), _calls(figures)),
        calls_plot(figures),
        "Side by side:",
        table(
            ("", *(f"{width} at once" for width in (1, *WIDTHS)), "of direct", "CPU a call"),
            (_rates(one, figures.direct) for one in figures.calls),
        ),
        rates_plot(figures),
        "### Beside other gateways",
        f"In front of the same four servers, standalone, over stdio: {versions()}.",
        beside_others(figures),
        starts_plot(figures),
        memory_plot(figures),
        "### Memory",
        table(("", *PARTS, "without the servers"), _weights(figures)),
        table(("servers configured, none used", "first answer", "CPU", "memory"), _crowds(figures)),
        "### How it was measured",
        _notes(figures),
    ]


def _head(command: str) -> str:
    memory = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("tabane", "msgspec", "jsonschema-rs"))
    return (
        f"Measured on {date.today():%Y-%m-%d} with `{command}`: {processor()}, {psutil.cpu_count()} cores, "
        f"{memory:.0f} GiB, {platform.system()} {platform.release()}; "
        f"{platform.python_implementation()} {platform.python_version()}, {packages}; "
        f"{loads()}."
    )


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _units(example: Tokens) -> tuple[str, ...]:
    return ("bytes/4",) if example.exact is None else ("o200k_base", "bytes/4")


def _counted(what: str, tokens: Tokens) -> tuple[str, ...]:
    estimate = f"{tokens.estimate:,.0f}"
    return (what, estimate) if tokens.exact is None else (what, f"{tokens.exact:,.0f}", estimate)


def tokens_table(sizes: Sizes) -> Table:
    """The table of tokens alone."""
    return table(("", *_units(sizes.task)), _tokens(sizes))


def _tokens(sizes: Sizes) -> list[tuple[str, ...]]:
    return [
        _counted(f"the {sizes.tools} tools as their servers list them", sizes.without),
        *(_counted(f"list, mode {mode}", tokens) for mode, tokens in sizes.lists.items()),
        *(_counted(f"instructions, mode {mode}", tokens) for mode, tokens in sizes.instructions.items()),
        _counted("a search, question and answer", sizes.search),
        _counted("describe_tools, compact, one tool", sizes.described),
        _counted("the whole task: list, instructions, and for 3 tools search, describe, call", sizes.task),
        _counted(f"the same task over {CROWD} tools", sizes.crowded_task),
    ]


def _starts(starts: dict[str, Start]) -> list[tuple[str, ...]]:
    return [
        (way, *(text for ms, cpu in pairs for text in (f"{ms:.0f} ms", f"{cpu:.3f} s")))
        for way, start in ((way, starts[way]) for way in (DIRECT, STANDALONE, NEW, BRIDGE))
        for pairs in [((start.answer_ms, start.answer_cpu), (start.result_ms, start.result_cpu))]
    ]


def _calls(figures: Figures) -> list[tuple[str, ...]]:
    direct = figures.direct
    rows = [
        (
            _way(one, direct),
            f"{one.p50 * 1e3:.0f} µs",
            f"{one.p95 * 1e3:.0f} µs",
            f"{one.slower(direct):.2f}",
            _cpu(one, 1, direct),
        )
        for one in figures.calls
    ]
    return [(*row, *cells) for row, cells in zip_longest(rows, _one_core(figures), fillvalue=("–", "–"))]


def _one_core(figures: Figures) -> list[tuple[str, str]]:
    taken = figures.one_core
    return [(f"{one.p50 * 1e3:.0f} µs", f"{one.slower(taken[0]):.2f}") for one in taken] or [
        ("–", "–") for _ in figures.calls
    ]


def _rates(one: Calls, direct: Calls) -> tuple[str, ...]:
    rates = (f"{one.rate(width):,.0f}/s" for width in (1, *WIDTHS))
    share = f"{one.share(WIDTHS[0], direct):.0%}"
    return (_way(one, direct), *rates, share, _cpu(one, WIDTHS[0], direct))


def _way(one: Calls, direct: Calls) -> str:
    return f"{one.way}, {one.kind}" if one.kind and one is not direct else one.way


def _cpu(one: Calls, width: int, direct: Calls) -> str:
    return "–" if one is direct else f"{one.cpu_ms(width) * 1e3:.0f} µs"


def _weights(figures: Figures) -> list[tuple[str, ...]]:
    return [
        _weight(f"{name}, {when}", parts)
        for name, weight in ((STANDALONE, figures.standalone), (BRIDGE, figures.daemon))
        for when, parts in (("alone", weight.alone), ("4 servers, 1,000 calls", weight.busy))
    ]


def _weight(what: str, parts: dict[str, float]) -> tuple[str, ...]:
    own = sum(value for part, value in parts.items() if part != "upstream")
    return (what, *(f"{parts[part]:.1f} MB" if part in parts else "–" for part in PARTS), f"{own:.1f} MB")


def _crowds(figures: Figures) -> list[tuple[str, ...]]:
    return [
        (str(one.servers), f"{one.answer_ms:.0f} ms", f"{one.answer_cpu:.3f} s", f"{one.mb:.1f} MB")
        for one in figures.crowds
    ]


def _notes(figures: Figures) -> str:
    rounds, count = len(figures.direct.ms), len(figures.direct.ms[0])
    medians = [median(ms) for ms in figures.direct.ms]
    shortest, longest = min(medians), max(medians)
    of_server, of_hub = figures.big_list_ms
    counted = (
        "Tokens were counted with o200k_base."
        if figures.sizes.task.exact is not None
        else "Tokens are bytes/4: the tokenizer was not at hand."
    )
    return "\n".join(
        [
            "- Behind the hub are four servers written for this (`benchmarks/gateway/upstream.py`): "
            f"{figures.sizes.tools} tools with whole schemas, which echo every call at next to no cost. "
            "A real server takes longer, so that the hub's part in a real call is smaller.",
            "- The client is a small asyncio client, the same for every way. Its time is in every figure, "
            "in the direct ones too, and it shares the machine's cores with what it measures.",
            f"- Calls: {rounds} rounds of {count} calls one after the other and {count * 5} side by side at "
            "each width, by every way in turns. p50 and p95 are over all rounds; × direct is the median "
            "over the rounds of that round's ratio of medians; calls a second are medians over the rounds; "
            f"“of direct” and “CPU a call” are those at {WIDTHS[0]} at once.",
            "- The scheduler puts two processes that talk now on one core, now on two, which takes twice "
            f"the time: the p50 of the direct calls lay between {shortest * 1e3:.0f} and {longest * 1e3:.0f} "
            "µs in these rounds. So ratios differ from run to run (2.0 to 4.1 standalone, 2.4 to 4.4 by the "
            "bridge), except on one core, where nothing is left to the scheduler. There a forwarder of ten "
            "lines that copies bytes and reads none of them takes 2.1 to 2.3 times as long as a direct call: "
            "a hop has a price of its own.",
            "- “First answer” is that to initialize, timed from before the process is started. CPU is that "
            "of the processes that are no server's: the client's own, its keeper, and what the daemon spent "
            "meanwhile.",
            "- Memory is resident size (RSS) in 10⁶ bytes; pages shared between processes count in each.",
            f"- tools/list of {BIG:,} tools takes {of_hub:.1f} ms until the client has parsed it; asked of "
            f"the server itself it takes {of_server:.1f} ms.",
            f"- {counted} Those of the task are the list, the instructions, and all that the model writes "
            "and reads in nine calls: for each of three tools a search, a description and the call.",
        ]
    )
