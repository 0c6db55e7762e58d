"""The section of the performance page about tasks with scripts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.code_tasks.measuring import MANY, Spent, TaskRun
from benchmarks.report import Goal, goals, machine, table


def page(runs: Sequence[TaskRun], unit: str, command: str) -> list[str]:
    many = [run for run in runs if run.direct.calls >= MANY]
    return [
        "## Tasks with scripts",
        machine(command),
        _about(runs, many, unit),
        goals(_goals(runs, many)),
        _more(runs, many),
        "### Tokens of a task, in the median",
        table(
            ("", "list of tools", "searches", "calls or scripts", "results", "all"),
            (
                (name, *_medians(spent))
                for name, spent in (
                    ("all tasks, mode search", [run.direct for run in runs]),
                    ("all tasks, mode code", [run.code for run in runs]),
                    (f"{MANY} or more calls, mode search", [run.direct for run in many]),
                    (f"{MANY} or more calls, mode code", [run.code for run in many]),
                )
                if spent
            ),
        ),
        "### Each task",
        table(
            ("", "calls", "search", "code", "saved", "without lists"),
            (
                (
                    run.task.id, f"{run.direct.calls}", f"{run.direct.whole:,.0f}", f"{run.code.whole:,.0f}",
                    f"{run.saving:.0%}", f"{run.saving_of_calls:.0%}",
                )
                for run in runs
            ),
        ),
    ]  # fmt: skip


def _about(runs: Sequence[TaskRun], many: Sequence[TaskRun], unit: str) -> str:
    return (
        f"{len(runs)} tasks of 3 or more calls, {len(many)} of them of {MANY} or more, "
        f"{sum(run.task.lang == 'ja' for run in runs)} in Japanese. Each is done twice: in mode `search`, "
        "with a call of `call_tool` for each step, and in mode `code`, with one script, or two where a "
        f"person would look first. Tokens ({unit}) are those that a model reads and writes: the list of "
        "tools with the instructions, searches with their answers, calls or scripts, and results. Each is "
        "counted once: how often a host sends them again is not counted."
    )


def _goals(runs: Sequence[TaskRun], many: Sequence[TaskRun]) -> list[Goal]:
    found = [Goal("tokens saved, in the median", _median(runs), 80, " %", least=True)]
    if many:
        found.append(Goal(f"the same at {MANY} or more calls", _median(many), 95, " %", least=True))
    for mode, name in (("direct", "mode search"), ("code", "mode code")):
        share = statistics.fmean(mode not in run.failures for run in runs)
        found.append(Goal(f"success, {name}", 100 * share, 100, " %", least=True))
    return found


def _more(runs: Sequence[TaskRun], many: Sequence[TaskRun]) -> str:
    """Return what else the tasks show: shares without the lists, of all tokens, and what small tasks cost."""
    whole = 1 - sum(run.code.whole for run in runs) / sum(run.direct.whole for run in runs)
    more = sum(run.saving_of_calls < 0 for run in runs)
    of_many = f" ({_median_of_calls(many):.0f} % at {MANY} or more calls)" if many else ""
    return (
        f"All tasks together need {whole:.0%} less. Without the lists of tools, which a conversation has "
        f"once, {_median_of_calls(runs):.0f} % are saved in the median{of_many}. The saving depends on the "
        "size of the results: the files, pages and documents here have 0.1 to 7 KB, and one log 109 KB. "
        f"Where results are small, signatures and a script cost as much as the calls: without the "
        f"lists, {more} {'task needs' if more == 1 else 'tasks need'} more tokens."
    )


def _median(runs: Sequence[TaskRun]) -> float:
    return 100 * statistics.median(run.saving for run in runs)


def _median_of_calls(runs: Sequence[TaskRun]) -> float:
    return 100 * statistics.median(run.saving_of_calls for run in runs)


def _medians(several: Sequence[Spent]) -> tuple[str, ...]:
    parts = ("listed", "searching", "written", "read", "whole")
    return tuple(f"{statistics.median(getattr(each, part) for each in several):,.0f}" for part in parts)
