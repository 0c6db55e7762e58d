"""Markdown of site adapters: facts, blocks, comments, and relative links made absolute. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

# As in cleaning: possessive or bounded, because the input is untrusted.
_SKIPPED_OR_LINK = re.compile(
    r"(?P<fence>^ {0,3}+(?P<marks>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^ {0,3}+(?P=marks)[`~]*+[ \t]*+$|\Z))"
    r"|(?P<code>(?<!`)(?P<ticks>`{1,3})(?!`)[^`\n][^\n]{0,2000}?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<before>\]\([ \t]*+<?|^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*+<?|\b(?:href|src)=[\"'])"
    r"(?P<to>[^\s()<>\"']{1,2000})",
    re.MULTILINE | re.DOTALL,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#|\\")


def absolute(markdown: str, whole: Callable[[str], str]) -> str:
    """Return the Markdown with ``whole`` applied to each relative address; code is not changed."""

    def written(found: re.Match[str]) -> str:
        to = found["to"]
        if to is None or _SCHEME.match(to):
            return found[0]
        return found["before"] + whole(to)

    return _SKIPPED_OR_LINK.sub(written, markdown)


def blocks(*parts: str) -> str:
    """Return those that are not empty, one below the other."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def facts(known: Mapping[str, object]) -> str:
    """Return metadata as a list, without empty values."""
    return "\n".join(f"- {name}: {value}" for name, value in known.items() if value)


def comments(said: Sequence[tuple[str, str]]) -> str:
    """Return comments under their heading, each with its own head, "" if there are none."""
    if not said:
        return ""
    return blocks(f"## Comments ({len(said)})", *(blocks(f"### {head}", body) for head, body in said))


def one_line(text: str | None) -> str:
    """Return text without line breaks and runs of spaces."""
    return " ".join((text or "").split())


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as ISO 8601, to the second."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
