"""Texts that speak of another server's tool by its name, and say what to do with it or against it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tabane.guard.scanner.findings import Finding, excerpt_of
from tabane.guard.scanner.lookalikes import KnownNames
from tabane.messages import say

SHADOWING = "shadowing"

MOST_MENTIONS = 64

_AROUND = 160

# Begins only where a word begins, and never gives back: a long word without "_" would take quadratic time.
_NAMES = re.compile(r"(?<![a-z0-9])[a-z][a-z0-9]*+(?:[_-]{1,2}[a-z0-9]++)++")
_STEERING = re.compile(
    r"\b(?:deprecated|broken|compromised|insecure|unsafe|malicious|obsolete|unreliable|disabled|switched off|stolen|retired|replacement for"
    r"|replaces|supersedes|takes (?:its|the) place|leaks?|no longer|bcc|blind|recipient|must (?:use|be|have|set|first)|has to|have to|is to be|are to be"
    r"|always (?:add|set|include|append|pass|use)|do not (?:call|use|trust)|don't (?:call|use|trust)|never (?:call|use)|instead of calling|put the line"
    r"|regardless|no matter|should (?:be|also|first|always) (?:sent|set|called|changed)|attacker|forward|redirect|substitut)\b"
    r"|故障|廃止|危険|必ず|代わりに|置き換え|使わない|使用しない|宛先|不安全|弃用|必须|不要使用|반드시|대신|사용하지"
)


def shadowing(text: str, name: str, known: KnownNames) -> Iterator[Finding]:
    """Yield a finding if a text steers the use of another server's tool. ``text`` is in small letters."""
    if not known.names:
        return
    for number, found in enumerate(_NAMES.finditer(text)):
        if number >= MOST_MENTIONS:
            return
        if found[0] not in known.names or found[0] == name.lower():
            continue
        start, end = max(0, found.start() - _AROUND), found.end() + _AROUND
        if _STEERING.search(text, text.rfind("\n", start, found.start()) + 1 or start, end):
            what = say("It tells the model how to use {tool}, a tool of another server.", tool=found[0])
            yield Finding(SHADOWING, "high", what, excerpt_of(text, start, end))
            return
