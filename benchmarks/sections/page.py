"""The performance page, `docs/development/performance.md`, rendered from the figures of all sections.

Run it: ``python -m benchmarks.sections.page``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.plan import PARTS, Chapter, Part
from benchmarks.plots.svg import picture
from benchmarks.sections.blocks import PLOTS, Table
from benchmarks.sections.losses import linked, losses, losses_table
from benchmarks.sections.section import FIGURES, Section, read_sections

PAGE = Path(__file__).parents[2] / "docs" / "development" / "performance.md"

_INTRODUCTION = """
All figures are in `benchmarks/figures`, one file for each section, and this page is rendered from them.
`make bench` measures what takes 20 minutes on two quiet cores, and `make bench-full` the long parts too.
`make bench-check` measures ratios only, and fails if one is 1.3 times worse than here. Each section says when
it was measured, and how busy the machine was.
""".strip()

_LOSSES = """
Goals that are missed, and peers that are better in a comparison of this page: the best of them in each row. A
peer may do less: numpy and tantivy alone keep nothing durable, and approximate indexes miss results, which
their recall says. Engines that were compared before are in
[design decisions](../decisions.md#engines-that-tabane-is-not-built-on).
""".strip()


def page(sections: Mapping[str, Section], parts: Sequence[Part] = PARTS) -> str:
    """Return the whole page: a summary, the contents, where we lose, and every section by chapter."""
    chapters = by_chapter(sections, parts)
    shown = [section for several in chapters.values() for section in several]
    blocks = [
        "# Performance",
        _INTRODUCTION,
        "## Summary",
        *_summary(shown, parts),
        "## Contents",
        _contents(chapters),
        "## Where we lose",
        _LOSSES,
        str(losses_table(losses(shown))),
        *(block for section in shown for block in _section(section)),
    ]
    return "\n\n".join(blocks) + "\n"


def by_chapter(sections: Mapping[str, Section], parts: Sequence[Part]) -> dict[str, list[Section]]:
    """Return the sections in the order of the plan. Those that it does not have come last."""
    found: dict[str, list[Section]] = {chapter.value: [] for chapter in Chapter}
    for part in parts:
        if part.name in sections:
            found[part.chapter].append(sections[part.name])
    names = {part.name for part in parts}
    found["Others"] = [section for name, section in sections.items() if name not in names]
    return {chapter: several for chapter, several in found.items() if several}


def _summary(sections: Sequence[Section], parts: Sequence[Part]) -> Iterator[str]:
    goals = [goal for section in sections for goal in section.goals()]
    met = sum(goal.is_met for goal in goals)
    headlines = {part.name: part.headlines for part in parts}
    rows = [
        (
            f"{linked(section)}: {goal.name}",
            goal.shown,
            goal.shown_goal,
            goal.verdict,
        )
        for section in sections
        for goal in section.goals()
        if goal.name in headlines.get(section.name, ())
    ]
    yield f"{met} of {len(goals)} goals are met. The figures that most people ask for:"
    yield str(Table(("", "measured", "goal", ""), tuple(rows)))


def _contents(chapters: Mapping[str, Sequence[Section]]) -> str:
    lines = ["- [Where we lose](#where-we-lose)"]
    for chapter, sections in chapters.items():
        lines.append(f"- {chapter}")
        lines += [f"  - {linked(each)}, {each.measured}" for each in sections]
    return "\n".join(lines)


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    yield from map(str, section.blocks)


def pictures(sections: Iterable[Section]) -> dict[str, str]:
    """Return the SVG of each plot by its path, relative to the page."""
    return {plot.path: picture(plot) for section in sections for plot in section.plots()}


def write_page(folder: Path = FIGURES, target: Path = PAGE) -> None:
    """Render the page and its pictures, and delete pictures that no section has any more."""
    sections = read_sections(folder)
    target.write_text(page(sections), encoding="utf-8")
    drawn = pictures(sections.values())
    (target.parent / PLOTS).mkdir(exist_ok=True)
    for path in (target.parent / PLOTS).glob("*.svg"):
        if f"{PLOTS}/{path.name}" not in drawn:
            path.unlink()
    for name, svg in drawn.items():
        (target.parent / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    write_page()
