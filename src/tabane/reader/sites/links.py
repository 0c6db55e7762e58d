"""Links in Markdown that were written for another place than where they are read. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_SKIPPED_OR_LINK = re.compile(
    r"(?P<fence>^ {0,3}(?P<marks>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=marks)[`~]*[ \t]*$|\Z))"
    r"|(?P<code>(?<!`)(?P<ticks>`{1,3})(?!`)[^`\n][^\n]{0,2000}?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<before>\]\([ \t]*<?|^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*<?|\b(?:href|src)=[\"'])"
    r"(?P<to>[^\s()<>\"']{1,2000})",
    re.MULTILINE | re.DOTALL,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#|\\")


def absolute(markdown: str, whole: Callable[[str], str]) -> str:
    """The Markdown with each relative address replaced by ``whole`` of it; code stays as it is."""

    def written(found: re.Match[str]) -> str:
        to = found["to"]
        if to is None or _SCHEME.match(to):
            return found[0]
        return found["before"] + whole(to)

    return _SKIPPED_OR_LINK.sub(written, markdown)
