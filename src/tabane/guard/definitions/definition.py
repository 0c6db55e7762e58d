"""Definitions as they are pinned: their kinds, keys and digests, their differences, and what a scanner says.

A difference is lines of indented JSON in which nothing is hidden. Everything here is pure.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Raw, Struct

from tabane.messages import Lang, Message
from tabane.wire.json import InvalidJson, decode, fields, quote
from tabane.wire.json import text as json_text

log = logging.getLogger(__name__)

Kind = Literal["tool", "prompt", "resource", "template", "skill", "instructions"]

KINDS: Mapping[str, Kind] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "template",
    "skills": "skill",
    "instructions": "instructions",
}
"""Kinds by the name of their list. The instructions of a server count as a list of one."""

LONGEST_NAME = 16_384
"""Characters of a name or URI. The catalogs leave out a definition with a longer one."""

SLOWLY_READ = 1 << 20
"""Bytes of a definition with repeated members up to which these are kept apart."""


class DefinitionKey(NamedTuple):
    """Kind and name of a definition: the server's own name, or the URI; empty for instructions."""

    kind: Kind
    name: str


class SeenDefinition(NamedTuple):
    """A definition as a server gave it, and the digest of its canonical form."""

    key: DefinitionKey
    digest: bytes
    body: Raw


class ChosenDefinition(NamedTuple):
    """A definition that a person decides about, by the digest that the person saw."""

    key: DefinitionKey
    digest: bytes


_NAMED: Mapping[str, str] = {"tool": "name", "prompt": "name", "template": "uriTemplate"}


def read_definitions(
    kind: Kind, items: Iterable[Raw], digest: Callable[[Kind, Raw], bytes]
) -> tuple[SeenDefinition, ...]:
    """Return the definitions of a list that have a usable name; of a repeated name the first, as catalogs."""
    found: dict[str, SeenDefinition] = {}
    for item in items:
        name = name_in(kind, item)
        if name and name not in found and len(name) <= LONGEST_NAME:
            found[name] = SeenDefinition(DefinitionKey(kind, name), digest(kind, item), item)
    return tuple(found.values())


def instructions_definition(text: str) -> SeenDefinition:
    """Return the instructions of a server as a definition."""
    body = Raw(quote(text))
    return SeenDefinition(DefinitionKey("instructions", ""), definition_digest("instructions", body), body)


def name_in(kind: Kind, definition: bytes | Raw) -> str | None:
    """Return what a definition calls itself; None if that cannot be used."""
    try:
        return json_text(fields(definition).get(_NAMED.get(kind, "uri")))
    except InvalidJson:
        return None


def definition_digest(kind: Kind, definition: bytes | Raw) -> bytes:
    """Return the SHA-256 of the canonical form of a definition."""
    return hashlib.sha256(canonical_form(kind, bytes(definition))).digest()


def canonical_form(kind: Kind, definition: bytes) -> bytes:
    """Return a definition as bytes that depend neither on the order of members nor on spaces or escapes.

    A member that is given twice stays: readers differ in which of the two they take. Of a resource, the size
    and the time of its last change are left out, since they belong to its content.
    """
    value = _read_value(definition)
    if value is None:
        return b"\0" + definition
    if kind == "resource" and isinstance(value, dict):
        value = {key: member for key, member in value.items() if key != "size"}
        notes = value.get("annotations")
        if isinstance(notes, dict) and "lastModified" in notes:
            value["annotations"] = {key: note for key, note in notes.items() if key != "lastModified"}
    try:
        return msgspec.json.encode(value, order="sorted")
    except (UnicodeEncodeError, OverflowError, RecursionError, msgspec.MsgspecError, TypeError):
        try:
            return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return b"\0" + definition


def _read_value(definition: bytes) -> Any:
    try:
        value = decode(definition)
        if msgspec.json.encode(value) == definition:
            return value  # written as msgspec writes it, so no member was lost
    except (InvalidJson, UnicodeEncodeError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    if len(definition) > SLOWLY_READ:
        return None
    try:
        return json.loads(definition.decode(), object_pairs_hook=_members_once)
    except (ValueError, RecursionError):
        return None


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else {"": [list(pair) for pair in pairs]}


MOST_LINES = 2_000
"""Lines of one definition that are compared. What follows is only counted."""

LONGEST_LINE = 2_000
CONTEXT = 3

_BEYOND_ASCII = re.compile(r"[^\x09\x20-\x7e]")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories of characters that nobody sees: controls, formats, surrogates, private ones, breaks."""

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Others that are blank, or only choose a glyph: fillers and variation selectors."""

Mark = Literal[" ", "-", "+", "@"]


class DiffLine(NamedTuple):
    """One line. ``mark``: the same in both, only in the old, only in the new, or where a part begins."""

    mark: Mark
    text: str


def definition_diff(old: bytes | None, new: bytes) -> tuple[DiffLine, ...]:
    """Return a unified diff without its head. Without an old definition, all lines are new."""
    before, after = [] if old is None else shown_lines(old), shown_lines(new)
    if before == after and old is not None:
        # The text is the same, but not what it is made of: members may be given twice.
        before, after = [_raw(old)], [_raw(new)]
    return tuple(_diff_lines(before, after))


def shown_lines(definition: bytes) -> list[str]:
    """Return a definition as lines with sorted members. Each line of a text has a line of its own.

    Invisible and control characters are escapes.
    """
    try:
        value = decode(definition)
    except InvalidJson:
        return [_raw(definition)]
    written = json.dumps(_broken(value), indent=2, sort_keys=True, ensure_ascii=False)
    lines = [_cut(visible(line)) for line in written.split("\n")]
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"… {more} more lines"]


def visible(text: str) -> str:
    """Return a text with each character that nobody sees as its escape in JSON."""
    return _BEYOND_ASCII.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    import unicodedata  # a megabyte that most texts do not need

    sign = found[0]
    if unicodedata.category(sign) not in _HIDDEN and not _BLANK.match(sign):
        return sign
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _broken(value: Any) -> Any:
    """Return a value with each text of several lines as a list of these."""
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        return value.split("\n")
    if isinstance(value, list):
        return [_broken(each) for each in value]
    if isinstance(value, dict):
        return {key: _broken(each) for key, each in value.items()}
    return value


def _diff_lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    import difflib  # needed only when a person looks

    found = difflib.unified_diff(before, after, n=CONTEXT, lineterm="")
    for number, line in enumerate(found):
        if number < 2:
            continue  # the names of two files
        mark: Mark = "@" if line.startswith("@@") else line[0]  # type: ignore[assignment]
        yield DiffLine(mark, line if mark == "@" else line[1:])


def _raw(definition: bytes) -> str:
    return _cut(visible(definition.decode("utf-8", "backslashreplace")))


def _cut(line: str) -> str:
    more = len(line) - LONGEST_LINE
    return line if more <= 0 else f"{line[:LONGEST_LINE]} … {more} more characters"


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
        self,
        server: str,
        kind: Kind,
        name: str,
        definition: bytes,
        others: Collection[str],
        siblings: Collection[str],
    ) -> Sequence[DefinitionFinding]:
        """Return what is found in one definition.

        ``others`` are the tools of the other servers, ``siblings`` those of this one.
        """
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
    return tuple(_keep_finding(each) for each in ordered[:MOST_FINDINGS])


def encoded(found: Sequence[KeptFinding]) -> bytes:
    """Return findings as they are stored."""
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


def _keep_finding(found: DefinitionFinding) -> KeptFinding:
    message = found.message
    plain = {
        name: (value if isinstance(value, int | float) else visible(str(value)))
        for name, value in message.fields.items()
    }
    return KeptFinding(
        found.rule, found.severity, message.template, plain, visible(found.excerpt[:LONGEST_EXCERPT])
    )
