"""What a document may be called, and what its name says of it; pure."""

from __future__ import annotations

import re
import unicodedata

from tabane.documents.document import TextKind
from tabane.documents.files import kinds
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.records import encodable

LONGEST_FILEPATH = 900  # bytes
LONGEST_TITLE = 500  # characters

_SEPARATORS = re.compile(r"[/\\]")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_LOOKED = 4_000  # characters in which a title is looked for

_PLAIN = frozenset({"txt", "text", "log", "csv", "tsv", "srt", "vtt"})


def checked_filepath(filepath: str) -> str:
    """The name in NFC. Raises :class:`BadArguments`: 1 to 900 bytes, no NUL, no part that is ``..``."""
    name = unicodedata.normalize("NFC", encodable(filepath, "filepath"))
    if not 0 < len(name.encode()) <= LONGEST_FILEPATH:
        message = say("filepath: it has 1 to {most} bytes", most=LONGEST_FILEPATH)
        raise BadArguments(message, "filepath")
    if "\0" in name:
        raise BadArguments(say("filepath: it may hold no NUL"), "filepath")
    if ".." in _SEPARATORS.split(name):
        raise BadArguments(say('filepath: none of its parts may be ".."'), "filepath")
    return name


def kind_of(filepath: str, text: str) -> TextKind:
    """How a text is to be read: by its name; where that says nothing, by what it looks like."""
    kind = kinds.kind_of(filepath, text)
    if kind != "text" or kinds.ending(filepath) in _PLAIN:
        return kind
    looked = text[:_LOOKED]
    return "markdown" if _HEADING.search(looked) or _FENCE.search(looked) else "text"


def title_of(text: str, kind: TextKind) -> str:
    """The first heading of Markdown, where it begins with one; nothing otherwise."""
    if kind != "markdown":
        return ""
    found = _HEADING.match(text[:_LOOKED].lstrip("\ufeff \t\r\n"))
    return found[1][:LONGEST_TITLE].strip() if found else ""
