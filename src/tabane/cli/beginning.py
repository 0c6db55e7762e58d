"""What `tabane start` waits for: the archive of posts that it was given, until the hub has it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tabane.cli.jobs import hand_over, result_of, watched
from tabane.cli.output import INTERRUPTED, Terminal, lang, text
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.hub.local.client import HubClient
    from tabane.settings import Settings

FOLDERS = {"posts_embeddings": "embeddings", "posts_reasoning": "reasoning", "posts_summary": "summary"}
"""The settings that name an archive, and the parameters of import_posts."""

_EVERY = 10  # percent between two lines where no bar can be drawn


def archive_of(settings: Settings) -> dict[str, Any]:
    """The archive that the settings name, as parameters; empty where they name none."""
    given = {parameter: getattr(settings, name) for name, parameter in FOLDERS.items()}
    return {parameter: str(folder) for parameter, folder in given.items() if folder}


def wait_for_archive(
    terminal: Terminal, client: HubClient, archive: Mapping[str, Any], *, fresh: bool
) -> dict[str, Any]:
    """See that the hub has the archive, and show how far it is. Returns what the import did.

    ``fresh`` is a hub that has just started, and began by itself. Ctrl+C leaves it to its work. Raises
    the error that it ended with; the hub runs on.
    """
    job: dict[str, Any] | None = None
    try:
        rows = client.call("list_jobs")["results"] if fresh else []
        job = next((row for row in rows if row["operation"] == "import_posts"), None)
        if job is None:
            job = client.call("import_posts", {**archive, "once": True})
            hand_over(client, job["job"])
        taken = result_of(watched(client, job, text(say("Progress")), _Lines(terminal)))
        return taken if isinstance(taken, dict) else {}
    except KeyboardInterrupt:
        if job is not None:
            terminal.note(
                say("The hub runs on, and the import with it. Watch it with: tabane jobs follow {job}",
                    job=job["job"])
            )  # fmt: skip
        raise click.exceptions.Exit(INTERRUPTED) from None


class _Lines:
    """Tells of a job line by line, where standard error is no terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._wanted = not terminal.json and not sys.stderr.isatty()
        self._next = 0

    def __call__(self, state: dict[str, Any]) -> None:
        if not self._wanted or not state["total"]:
            return
        percent = min(100, state["done"] * 100 // state["total"])
        if percent >= self._next:
            self._next = percent + _EVERY
            said = say("Progress: {percent} % {note}", percent=percent, note=state["note"] or "")
            self._terminal.note(said.render(lang()).rstrip())
