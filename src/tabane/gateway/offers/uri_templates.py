"""Whether a URI can have been made of a URI template (RFC 6570, levels 1 to 3); pure.

Matching walks through the template with the set of all places in the URI where it may stand, a bit
each in one integer. So there is nothing to go back to, and the effort is template × URI at most,
whatever a server writes. What an expression may have become is taken widely, as clients expand
carelessly: the answer decides whom to ask, not what is allowed.
"""

from __future__ import annotations

import re

LONGEST = 2048
"""Characters of a template or URI that is matched; a longer one matches nothing."""

MOST = 32
"""Expressions of a template that is matched."""

_VARIABLE = r"[A-Za-z0-9_%.-]+(?::\d{1,4}|\*)?"
_EXPRESSION = re.compile(rf"\{{([+#./;?&]?){_VARIABLE}(?:,{_VARIABLE})*\}}")

# What follows an expression's first character, as the characters that it cannot hold.
_STOPS = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}
_LEADS = {"": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&"}


class UriTemplate:
    """A URI template, read once. ``prefix`` is the text before its first expression."""

    __slots__ = ("_parts", "prefix")

    def __init__(self, template: str) -> None:
        self._parts = _read(template)
        first = self._parts[0] if self._parts else ""
        self.prefix = first if isinstance(first, str) else ""

    @property
    def readable(self) -> bool:
        """Whether it is a template that can be matched."""
        return self._parts is not None

    def matches(self, uri: str) -> bool:
        """Whether some values make that URI of it."""
        if self._parts is None or len(uri) > LONGEST or not uri.startswith(self.prefix):
            return False
        places = 1
        for part in self._parts:
            places = _after_text(part, uri, places) if isinstance(part, str) else _after(*part, uri, places)
            if not places:
                return False
        return bool(places >> len(uri))


_Part = str | tuple[str, str]
"""Text, or (first character, characters that cannot follow) of an expression."""


def _read(template: str) -> tuple[_Part, ...] | None:
    if len(template) > LONGEST:
        return None
    parts: list[_Part] = []
    at = 0
    for expression in _EXPRESSION.finditer(template):
        parts.append(template[at : expression.start()])
        parts.append((_LEADS[expression[1]], _STOPS[expression[1]]))
        at = expression.end()
    parts.append(template[at:])
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) > MOST + 1 or any(brace in text for text in texts for brace in "{}"):
        return None
    return tuple(part for part in parts if part)


def _after_text(text: str, uri: str, places: int) -> int:
    """The places behind the text, of those before which it may stand."""
    found, at = 0, uri.find(text)
    while at >= 0:
        found |= 1 << at
        at = uri.find(text, at + 1)
    return (places & found) << len(text)


def _after(lead: str, stops: str, uri: str, places: int) -> int:
    """The places behind an expression: it may be empty, or else it begins with its lead."""
    begun = _after_text(lead, uri, places) if lead else places
    held = int("0" + "".join("0" if letter in stops else "1" for letter in reversed(uri)), 2)
    # Adding carries each place to the end of its run of held characters; the bits passed have flipped.
    return places | begun | (((begun & held) + held) ^ held)
