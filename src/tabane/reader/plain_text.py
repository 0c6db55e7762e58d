"""Markdown without its marks: what it says, for those who want text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

# As in cleaning: possessive or bounded, since strangers write what these run over.
_FENCE = re.compile(r"^([ >]*+)(`{3,}+|~{3,}+)[^`\n]*+$")
_RULE = re.compile(r"^\s*+(?:(?:-\s*+){3,}+|(?:\*\s*+){3,}+|(?:_\s*+){3,}+)$")
_TABLE_RULE = re.compile(r"^\s*+\|?(?:\s*+:?-{3,}+:?\s*+\|)++(?:\s*+:?-{3,}+:?\s*+)?$")
_HEADING = re.compile(r"^( {0,3})#{1,6}[ \t]+")
_QUOTE = re.compile(r"^(?:\s*+>[ \t]?)++")
_NOTE = re.compile(r"^\[\^([^\]\s]{1,40})\]:\s*")
_HELD_BACK = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`++)(.{1,500}?)(?<!`)\2(?!`)")
_IMAGE = re.compile(
    r"!\[((?:[^\[\]\\]|\\.){0,1000}+)\]\((?:<[^<>\n]{0,3000}+>|(?:[^()\s]|\([^()\s]*+\)){0,3000}+)\s*+(?:\"[^\"\n]*+\")?\)"
)
_LINK = re.compile(
    r"(?<!\\)\[((?:[^\[\]\\]|\\.|\[[^\[\]]{0,500}+\]){0,3000}+)\]"
    r"\((?:<[^<>\n]{0,3000}+>|(?:[^()\s]|\([^()\s]*+\)){0,3000}+)\s*+(?:\"[^\"\n]*+\")?\)"
)
_AUTO = re.compile(r"<((?:https?|mailto|ftp):[^\s<>]{1,3000})>")
_STRONG = re.compile(r"(?<!\\)(\*\*|~~)(?=\S)(.{1,500}?)(?<=[^\s\\])\1")
_EM = re.compile(r"(?<![\\*])\*(?=[^\s*])([^*]{1,500}?)(?<=[^\s\\])\*(?!\*)")
_UNDERSCORED = re.compile(r"(?<![\\\w])(__?)(?=\S)(.{1,500}?)(?<=[^\s\\])\1(?!\w)")
_HELD = re.compile("\x02(\\d+)\x03")
_LONG = 10_000  # characters of a line that are looked at together


def plain(markdown: str) -> str:
    """The text of Markdown: words, lists and lines of code stay, marks and addresses go.

    Numbers and bullets of lists stay, since they say what is beside what; tabs divide the cells of a table.
    """
    return "\n".join(_lines(markdown)).strip("\n")


def _lines(markdown: str) -> Iterator[str]:
    fence = ""
    for line in markdown.split("\n"):
        found = _FENCE.match(line) if line else None
        if not line:
            yield line
        elif fence:
            if found and found[2].startswith(fence) and line.strip(" >").strip(fence[0]) == "":
                fence = ""
            else:
                yield line
        elif found:
            fence = found[2]
        elif _TABLE_RULE.match(line) and "|" in line:
            continue
        elif not _RULE.match(line):
            yield _bare(line)


def _bare(line: str) -> str:
    line = _QUOTE.sub("", line)
    line = _HEADING.sub("", line)
    line = _NOTE.sub(r"\1. ", line)
    row = line.strip()
    if len(row) > 1 and row.startswith("|") and row.endswith("|"):
        cells = re.split(r"(?<!\\)\|", row[1:-1])
        return "\t".join(_inline(cell.strip()) for cell in cells)
    if len(line) <= _LONG:
        return _inline(line).rstrip()
    return "".join(_inline(line[at : at + _LONG]) for at in range(0, len(line), _LONG)).rstrip()


def _inline(line: str) -> str:
    """A line without its marks. Escapes and code are taken out first: in them, marks are letters."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[1] or found[3].strip() or found[3])
        return f"\x02{len(held) - 1}\x03"

    line = _HELD_BACK.sub(hold, line.replace("\x02", "").replace("\x03", ""))
    line = _IMAGE.sub(r"\1", line)
    line = _LINK.sub(r"\1", _LINK.sub(r"\1", line))
    line = _AUTO.sub(r"\1", line)
    line = _STRONG.sub(r"\2", line)
    line = _EM.sub(r"\1", line)
    line = _UNDERSCORED.sub(r"\2", line)
    line = re.sub(r"\[\^([^\]\s]{1,40})\]", r"[\1]", line)
    return _HELD.sub(lambda found: held[int(found[1])], line)
