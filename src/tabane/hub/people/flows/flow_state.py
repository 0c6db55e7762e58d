"""Memory of the flow policy: labels, allowed pairs, and trails. Imported with the first call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from tabane.catalog.gateway import Gateway
from tabane.errors import ReadError
from tabane.guard.flows.flow_rule import FlowPolicy, FlowRule
from tabane.guard.flows.trails import Trail, TrailKey, Trails, WrittenTexts
from tabane.hub.people.flows import TRAIL_FILE
from tabane.hub.people.flows.flow_files import PairFile, TrailFile, WrittenFile
from tabane.hub.people.flows.labels import TargetLabels

log = logging.getLogger(__name__)


class FlowState:
    """The labels of targets, the pairs that people have allowed, and the trails of clients with their rule.

    ``changed`` is called when a trail has grown.
    """

    def __init__(self, home: Path, gateway: Gateway, changed: Callable[[], None]) -> None:
        self._home, self._changed = home, changed
        self.labels, self.pairs = TargetLabels(gateway), PairFile(home)
        self._file: TrailFile | None = None
        self._written = WrittenFile(home)
        self._rule: FlowRule | None = None

    def rule(self, policy: FlowPolicy) -> FlowRule:
        """Return the rule, made on first use with the trails of an earlier hub."""
        if self._rule is None:
            file = self._file = TrailFile(self._home)
            trails = Trails(time.time)
            for trail in file.read():
                trails.restore(trail)

            def grown(trail: Trail) -> None:
                file.add(trail, trails)
                self._changed()

            written = WrittenTexts()
            for each in self._written.read():
                written.restore(*each)
            self._written.write(written)
            written.grown = self._written.add
            self._rule = FlowRule(
                policy, trails, self.labels, self.pairs.of, grown, _url_sent, self.labels.roles, written
            )
        return self._rule

    def apply(self, policy: FlowPolicy) -> None:
        """Put a policy in force. If it is off, the trails are removed."""
        self.labels.forget()
        if policy != "off":
            if self._rule is not None:
                self._rule.policy = policy
                self._rule.forget()
            return
        self._rule = None
        if self._file is not None or (self._home / TRAIL_FILE).exists():
            (self._file or TrailFile(self._home)).remove()
            self._file = None

    def forget(self, fits: Callable[[TrailKey], bool]) -> int:
        """Remove trails. Return their number. Raises OSError if they cannot be removed from the disk."""
        if self._rule is None or self._file is None:
            return 0
        count = self._rule.trails.forget(fits)
        self._rule.forget()
        self._file.write(self._rule.trails)
        return count

    def close(self) -> None:
        """Write when each trail was used last."""
        if self._rule is not None and self._file is not None:
            try:
                self._file.write(self._rule.trails)
            except OSError as error:
                log.warning("the trails of the flow policy cannot be written: %s", error)
            self._file.close()

    def abandon(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            self._file.close()
        self._rule = None


def _url_sent(address: str) -> str:
    """Return an address as the reader of pages sends it; empty if it does not read it."""
    from tabane.reader.guard import target  # with the first page of a hub

    try:
        return target(address).url
    except ReadError:
        return ""
