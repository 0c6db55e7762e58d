"""Checks of a task: whether files, repository, documents and the answer are as it asked for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from tabane.cli.bench.task_file import BenchTask, placed
from tabane.cli.bench.workplace import Workplace

HubCall = Callable[[str, Mapping[str, Any]], Any]
"""Calls an operation of the hub."""

_MOST_DOCUMENTS = 1000


def failed_checks(task: BenchTask, workplace: Workplace, answer: str, call: HubCall) -> list[str]:
    """Return a description of each check that fails. ``answer`` is what the user was told at the end."""
    checks = placed(list(task.checks), workplace.places)
    return [_described(check) for check in checks if not _holds(check, workplace, answer, call)]


def _holds(check: Mapping[str, Any], workplace: Workplace, answer: str, call: HubCall) -> bool:
    if "answer" in check:
        return all(_said(each, answer) for each in check["answer"])
    if "folder" in check:
        return workplace.file(check["folder"]).is_dir() is not check.get("absent", False)
    if "git" in check:
        return _fits(check, _git(workplace, check["git"]))
    if "document" in check:
        return any(_fits(check, text) for text in documents_in(check["document"], call).values())
    file = workplace.file(check["file"])
    if check.get("absent"):
        return not file.exists()
    try:
        return _fits(check, file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _fits(check: Mapping[str, Any], text: str) -> bool:
    """Compare without line ends at the end: servers add and remove them."""
    if "equals" in check and text.rstrip("\n") != check["equals"].rstrip("\n"):
        return False
    if "contains" in check and not all(part in text for part in _list(check["contains"])):
        return False
    return not any(part in text for part in _list(check.get("lacks", [])))


def _said(wanted: Any, answer: str) -> bool:
    """Return whether the answer contains the text, or one of several spellings of it."""
    folded = answer.casefold()
    return any(each.casefold() in folded for each in _list(wanted))


def _git(workplace: Workplace, arguments: list[str]) -> str:
    try:
        return workplace.git(*arguments)
    except subprocess.CalledProcessError:
        return ""


def documents_in(prefix: str, call: HubCall) -> dict[str, str]:
    """Return the texts of the documents in the hub, by name."""
    rows = call("list_documents", {"prefix": prefix, "limit": _MOST_DOCUMENTS})["documents"]
    names = [str(row["filepath"]) for row in rows]
    return {name: str(call("get_document", {"filepath": name})["document"]) for name in names}


def _list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _described(check: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value!r}" for key, value in check.items())
