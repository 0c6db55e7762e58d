"""The figures of disclosure as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.report import machine, table

from tabane.cli.bench.disclosure import CUTS, RecallFigures, TaskReport
from tabane.cli.bench.scripted_agent import scripted_sums
from tabane.cli.bench.temporary_hub import BenchModel

LANGUAGES = {"en": "English", "ja": "Japanese", "all": "all"}
MODELS = {"words": "words only", "auto": "auto"}


@dataclass(frozen=True)
class DisclosureRun:
    """The figures of one choice of models."""

    model: BenchModel
    sets: Sequence[RecallFigures]
    tasks: TaskReport


def page(runs: Sequence[DisclosureRun], unit: str, command: str) -> list[str]:
    """Return the section of the performance page: recall, the scripted agent, tokens of a task, notes."""
    return [
        "## Disclosure: tools found and called",
        machine(command),
        *_recall(runs),
        "### Scripted agent: right tool found, arguments valid",
        table(
            ("", "tasks", "with several tools", "steps: right tool first", "in the answer"), _scripted(runs)
        ),
        f"### Tokens of a task ({unit})",
        table(("mode", "list", "instructions", "task", "with one tool", "with several tools"), _costs(runs)),
        "### How it was measured",
        _notes(runs),
    ]


def _recall(runs: Sequence[DisclosureRun]) -> list[str]:
    if not any(run.sets for run in runs):
        return []
    head = ("set", "tools", "queries", "search", *(f"@{cut}" for cut in CUTS), "tokens per search", "p50")
    rows = (
        (
            each.name,
            str(each.tools),
            f"{each.queries:,}",
            MODELS[run.model],
            *(f"{each.recall[cut]:.3f}" for cut in CUTS),
            f"{each.tokens:.0f}",
            f"{each.ms:.1f} ms",
        )
        for run in runs
        for each in run.sets
    )
    return ["### Recall of search", table(head, rows)]


def _scripted(runs: Sequence[DisclosureRun]) -> Iterator[tuple[str, ...]]:
    for run in runs:
        for language, sums in scripted_sums(run.tasks.scripted).items():
            yield (
                f"{LANGUAGES[language]}, {MODELS[run.model]}",
                f"{sums['passed']} of {sums['tasks']}",
                f"{sums['passed_with_several_tools']} of {sums['tasks_with_several_tools']}",
                f"{sums['right_tool_first']} of {sums['steps']}",
                f"{sums['right_tool_in_answer']} of {sums['steps']}",
            )


def _costs(runs: Sequence[DisclosureRun]) -> Iterator[tuple[str, ...]]:
    keys = ("list", "instructions", "task", "task_with_one_tool", "task_with_several_tools")
    for mode, costs in runs[0].tasks.costs.items():
        yield (mode, *(f"{costs[key]:,}" for key in keys))


def _notes(runs: Sequence[DisclosureRun]) -> str:
    tasks = runs[0].tasks
    lines = [
        "- Recall is asked of a hub over its socket, with the tools of the set and the hub's own tools in "
        "the catalog. “auto” also compares by meaning, with the models that are installed; “words only” "
        "does not.",
        "- The scripted agent has no model: it searches with the words of the task, takes the first tool "
        "whose parameters the facts of the task fill, and calls it. It does not measure task success, which "
        "only a real model can have: `tabane bench disclosure --endpoint`.",
        f"- The {tasks.total} tasks use real MCP servers (filesystem, memory, everything, git, time), "
        f"{tasks.tools} tools in all with those that are only listed.",
        "- Tokens of a task are those of the list, the instructions and each call with its answer, on the "
        "way of the expected tools. Each text is counted once, as if the host kept the conversation.",
    ]
    if tasks.skipped:
        missing = ", ".join(sorted(set(tasks.skipped.values())))
        lines.append(f"- {len(tasks.skipped)} tasks were skipped, because this was missing: {missing}.")
    return "\n".join(lines)
