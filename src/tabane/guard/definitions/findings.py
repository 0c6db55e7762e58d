"""What a scanner says about definitions: its protocol, and its findings as they are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from tabane.guard.definitions.definition import Kind
from tabane.guard.definitions.diffs import visible
from tabane.messages import Lang, Message

log = logging.getLogger(__name__)

Severity = Literal["high", "medium", "low"]

MOST_FINDINGS = 20
"""Findings that are kept of one definition, the most severe first."""

LONGEST_EXCERPT = 500

_ORDER: Sequence[Severity] = ("high", "medium", "low")


class DefinitionFinding(Protocol):
    """Something in a definition that looks like an attack."""

    @property
    def rule(self) -> str: ...

    @property
    def severity(self) -> Severity: ...

    @property
    def message(self) -> Message: ...

    @property
    def excerpt(self) -> str: ...


class DefinitionJudge(Protocol):
    """Looks for attacks in definitions. Pure: the same arguments give the same findings."""

    def scan(
        self, server: str, kind: Kind, name: str, definition: bytes, others: Collection[str]
    ) -> Sequence[DefinitionFinding]:
        """Return what is found in one definition. ``others`` are the tools of the other servers."""
        ...


Judges = Callable[[], DefinitionJudge]
"""Loads the scanner, in a thread: it has many rules."""


class KeptFinding(Struct, frozen=True):
    """A finding as it is kept: its message as template and fields, so that it is shown in any language."""

    rule: str
    severity: Severity
    template: str
    fields: dict[str, Any]
    excerpt: str

    def row(self, lang: Lang) -> dict[str, Any]:
        text = Message(self.template, **self.fields).render(lang)
        return {"rule": self.rule, "severity": self.severity, "message": text, "excerpt": self.excerpt}


def kept_findings(found: Iterable[DefinitionFinding]) -> tuple[KeptFinding, ...]:
    """Return the most severe findings as they are kept."""
    ordered = sorted(found, key=lambda each: _ORDER.index(each.severity))
    return tuple(_kept(each) for each in ordered[:MOST_FINDINGS])


def encoded(found: Sequence[KeptFinding]) -> bytes:
    return msgspec.json.encode(found)


def decoded(kept: bytes) -> tuple[KeptFinding, ...]:
    """Return kept findings. What cannot be read counts as nothing found."""
    try:
        return msgspec.json.decode(kept, type=tuple[KeptFinding, ...])
    except (msgspec.MsgspecError, ValueError):
        log.warning("findings about a definition could not be read")
        return ()


def is_high(found: Iterable[KeptFinding]) -> bool:
    """Return whether something was found that has to be reviewed before the definition is used."""
    return any(each.severity == "high" for each in found)


def _kept(found: DefinitionFinding) -> KeptFinding:
    message = found.message
    plain = {name: _plain(value) for name, value in message.fields.items()}
    return KeptFinding(
        found.rule, found.severity, message.template, plain, visible(found.excerpt[:LONGEST_EXCERPT])
    )


def _plain(value: object) -> str | int | float:
    return value if isinstance(value, int | float) else visible(str(value))
