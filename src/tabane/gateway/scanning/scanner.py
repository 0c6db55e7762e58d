"""The scanner: a definition in, findings out. It reads what a model would read, and runs nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tabane.gateway.scanning.definition_texts import DefinitionTexts, definition_texts
from tabane.gateway.scanning.english_patterns import ENGLISH
from tabane.gateway.scanning.evidence import HIGH, MEDIUM, Passage, heaviest, hits_of, words_of
from tabane.gateway.scanning.findings import SEVERITIES, Finding, Kind, Severity, excerpt_of
from tabane.gateway.scanning.hidden_characters import HIDDEN, visible
from tabane.gateway.scanning.signals import Sign
from tabane.messages import Message, say

ORDERS, EXFILTRATION, SHADOWING = "orders", "exfiltration", "shadowing"

_BLANKS = re.compile(r"\s+")
_MARKS = str.maketrans({"*": None, "`": None, "\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})

_EXFILTRATING = frozenset({Sign.SECRETS, Sign.CONVERSATION})
_SHADOWING = frozenset({Sign.OTHER_TOOL, Sign.REDIRECT, Sign.EXCLUSIVE})


class DefinitionScanner:
    """Scans definitions of tools, prompts, resources, skills, and instructions of servers."""

    def scan(
        self, server: str, kind: Kind, name: str, definition: bytes, others: Collection[str]
    ) -> tuple[Finding, ...]:
        """Return what is suspicious about a definition, the worst first.

        ``definition`` is its JSON, or the text of a skill or of instructions. ``others`` are the names of
        tools of other servers, public or their own. Never raises for what a server sends.
        """
        texts = definition_texts(definition)
        found = [*self._hidden(texts), *self._evidence(texts)]
        return _worst_of_each_rule(found)

    def _hidden(self, texts: DefinitionTexts) -> Iterator[Finding]:
        for text in (*texts.texts, *texts.names):
            yield from visible(text).findings
        if not texts.complete:
            what = say("It is too long to be scanned: only its beginning was.")
            yield Finding(HIDDEN, "medium", what)

    def _evidence(self, texts: DefinitionTexts) -> Iterator[Finding]:
        text = "\n".join(_flat(one) for one in (*texts.texts, *texts.names))
        passage = heaviest(hits_of(text, words_of(text), ENGLISH))
        if passage.weight >= MEDIUM:
            yield _finding(text, passage)


def _flat(text: str) -> str:
    return _BLANKS.sub(" ", text.translate(_MARKS)).lower()


def _finding(text: str, passage: Passage) -> Finding:
    severity: Severity = "high" if passage.weight >= HIGH else "medium"
    rule, message = _rule(passage)
    start = min(hit.start for hit in passage.hits)
    return Finding(rule, severity, message, excerpt_of(text, start, max(hit.end for hit in passage.hits)))


def _rule(passage: Passage) -> tuple[str, Message]:
    signs = passage.signs
    if not signs.isdisjoint(_EXFILTRATING):
        return EXFILTRATION, say("It asks the model for secrets or for the conversation.")
    if not signs.isdisjoint(_SHADOWING):
        return SHADOWING, say("It tells the model how to use other tools, or to use none but this one.")
    return ORDERS, say("It gives orders to the model.")


def _worst_of_each_rule(found: list[Finding]) -> tuple[Finding, ...]:
    best: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda one: SEVERITIES.index(one.severity)):
        best.setdefault(finding.rule, finding)
    return tuple(best.values())
