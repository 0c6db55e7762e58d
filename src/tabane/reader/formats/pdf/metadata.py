"""Metadata of a PDF: its title if it says something, its author and its date."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LONGEST = 300
_USELESS = re.compile(
    r"\(?(?:anonymous|unspecified|untitled(?:[ -]?\d{0,4})?|no title|title|none|null|print"
    r"|document\s?\d{0,4}"
    r"|slide \d{1,4}|無題(?:\d{0,4})|about:blank|名称未設定.{0,20})\)?"
    r"|(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)|Adobe \w{1,20}|文書\s?\d{0,4}) - .{0,300}"
    r"|.{0,300}\.(?:docx?|xlsx?|pptx?|odt|rtf|tex|dvi|pdf|html?|indd|qxd|txt|md|pages|typ|ps|jtd)"
    r"|(?:https?|file)://.{0,300}",
    re.I,
)
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?\d\d)?")


def said_title(about: Mapping[str, str], name: str) -> str | None:
    """Return the title of the metadata, None if it is useless: a program's own, or the name of the file."""
    title = " ".join(about.get("Title", "")[: _LONGEST * 4].split())[:_LONGEST]
    if not title or _USELESS.fullmatch(title) or title.casefold() == name.casefold():
        return None
    return title


def said_author(about: Mapping[str, str]) -> str | None:
    """Return the author of the metadata."""
    author = " ".join(about.get("Author", "")[: _LONGEST * 4].split())[:_LONGEST]
    return None if not author or author.casefold() in ("(anonymous)", "anonymous", "unknown") else author


def said_date(about: Mapping[str, str]) -> str | None:
    """Return the date of the last change, or of the creation, as ISO 8601."""
    return _date(about.get("ModDate", "")) or _date(about.get("CreationDate", ""))


def _date(said: str) -> str | None:
    """Return a date of PDF (ISO 32000-1, 7.9.4) as ISO 8601."""
    found = _DATE.match(said)
    if not found:
        return None
    year, month, day, hour, minute, second, zone = found.groups()
    date = "-".join(part for part in (year, month, day) if part)
    if not (day and hour and minute):
        return date
    offset = "Z" if zone == "Z" else f"{zone[:3]}:{zone.replace(chr(39), '')[3:5]}" if zone else ""
    return f"{date}T{hour}:{minute}:{second or '00'}{offset}"
