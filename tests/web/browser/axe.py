"""Checks of accessibility by axe-core, which `make node` installs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.conftest import ROOT, absent

SCRIPT = ROOT / "build" / "node" / "node_modules" / "axe-core" / "axe.min.js"

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
SERIOUS = frozenset({"serious", "critical"})

_RUN = """async ([tags]) => {
  const found = await axe.run(document, {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]});
  return found.violations.map(one => ({id: one.id, impact: one.impact, help: one.help,
    nodes: one.nodes.slice(0, 8).map(node => `${node.target.join(" ")}: ${node.html.slice(0, 200)}`
      + ` [${node.any.concat(node.all, node.none).map(check => check.message).join("; ").slice(0, 300)}]`)}));
}"""


@dataclass(frozen=True)
class AccessibilityFinding:
    """A rule of axe that a page breaks, and where."""

    rule: str
    impact: str
    help: str
    nodes: Sequence[str]

    def __str__(self) -> str:
        return "\n    ".join((f"{self.impact} {self.rule}: {self.help}", *self.nodes))


class Axe:
    """The checks. ``script`` is the file of axe-core."""

    def __init__(self, script: Path = SCRIPT) -> None:
        self._script = script

    @cached_property
    def _source(self) -> str:
        return self._script.read_text(encoding="utf-8")

    def findings(self, page: Page) -> list[AccessibilityFinding]:
        """Return what axe finds in a page as it is shown now."""
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(f"() => {{ {self._source}; }}")
        found: list[dict[str, Any]] = page.evaluate(_RUN, [list(TAGS)])
        return [
            AccessibilityFinding(one["id"], one["impact"] or "minor", one["help"], one["nodes"])
            for one in found
        ]

    def serious(self, page: Page) -> list[str]:
        """Return the serious and critical findings as texts."""
        return [str(finding) for finding in self.findings(page) if finding.impact in SERIOUS]


def axe() -> Axe:
    """Return the checks; skip the test if axe-core is not installed."""
    if not SCRIPT.exists():
        absent("axe-core (make node)")
    return Axe()
