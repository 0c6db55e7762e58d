"""The tasks, by what they work on."""

from __future__ import annotations

from benchmarks.code_tasks.task import CodeTask
from benchmarks.code_tasks.tasks import (
    databases,
    documents,
    folders,
    graphs,
    mixed,
    pages,
    posts,
    reports,
    repositories,
    zones,
)

_MODULES = (reports, folders, databases, repositories, zones, graphs, documents, pages, posts, mixed)

TASKS: tuple[CodeTask, ...] = tuple(task for module in _MODULES for task in module.TASKS)
