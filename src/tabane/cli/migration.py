"""The work of `tabane migrate`: its progress and its result."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import asdict

from tabane.cli.drawing import Bar
from tabane.cli.output import Terminal, lang, text
from tabane.hub.sources.embedded_collections import OWN, SHAPES
from tabane.hub.stores.migration import Migration, place_of
from tabane.messages import Message, say
from tabane.settings import load_settings

_EVERY = 10.0  # seconds between two lines of progress where no terminal is


def run_migration(terminal: Terminal, source: str, target: str) -> None:
    """Copy everything from one engine to another, and print what was copied."""
    settings = load_settings({"config": terminal.config}, os.environ)
    shapes = {
        domain: [shape for shape in several if shape.name not in OWN] for domain, several in SHAPES.items()
    }
    places = [place_of(address, settings, os.environ) for address in (source, target)]
    with _MigrationProgress(terminal) as lines:
        done = asyncio.run(Migration(places[0], places[1], shapes, lines.tell).run())
    result = {"status": "migrated", "from": places[0].name, "to": places[1].name}
    if terminal.show_json({**result, "collections": [asdict(each) for each in done]}):
        return
    terminal.table(
        [say("collection"), say("records"), say("vectors"), say("records a second"), say("compared")],
        [
            (
                each.name,
                f"{each.records:,}",
                f"{sum(each.vectors.values()):,}",
                f"{each.copied / each.copying:,.0f}" if each.copied else "–",
                f"{each.queries:,}",
            )
            for each in done
        ],
    )
    terminal.say(
        say(
            "Everything was copied. The compared counts and records are equal, and the compared queries "
            "agree."
        )
    )
    if "://" in target:
        terminal.say(say("To use the database, write this into tabane.toml:"))
        terminal.say(f'  engine = "{target}"')
    else:
        terminal.say(say("To use this folder, remove the setting engine from tabane.toml."))


class _MigrationProgress:
    """The progress of a migration: a bar on a terminal; else a line every few seconds."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal, self._bar = terminal, Bar(lang())
        self._stage = ("", "")
        self._began, self._first, self._said = 0.0, 0, time.monotonic()

    def __enter__(self) -> _MigrationProgress:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(*error)

    def tell(self, title: Message, name: str, done: int, total: int) -> None:
        now, stage = time.monotonic(), (text(title), name)
        if stage != self._stage:
            self._stage, self._began, self._first = stage, now, done
        elapsed, made = now - self._began, done - self._first
        rate = made / elapsed if elapsed > 1 and made else None
        left = (total - done) / rate if rate and total >= done else None
        self._bar.show(
            {"title": stage[0], "note": name, "done": done, "total": total, "rate": rate, "left": left}
        )
        if not self._bar.wanted and now - self._said >= _EVERY:
            self._said = now
            message = say(
                "{stage}: {name}, {done} of {total}", stage=title, name=name, done=done, total=total
            )
            self._terminal.note(message)
