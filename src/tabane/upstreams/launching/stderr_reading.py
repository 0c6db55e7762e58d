"""The output of a program that failed, cleaned and reduced to the lines that may say why.

Output is untrusted: control characters, characters that change the direction of text and passwords in
URLs are removed, and lines are cut. Stack frames, progress and notices of package managers are marked as
quiet: they never explain a failure to a person, though rules may match them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_LINES = 100
"""Lines from the end that are read."""

MOST_CHARACTERS = 300
"""Characters of a line that are read and shown."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_COLORS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_BARS = re.compile(r"^ {0,6}[|+] ?(?:[|+] ?){0,4}")
"""Bars before the lines of a group of exceptions in Python."""
_BOX = re.compile(r"^\s*[│╭╰╮╯─━┃┌└┐┘├┤]+ ?|\s*[│╭╰╮╯─━┃┌└┐┘├┤]+\s*$")
_PASSWORD = re.compile(r"(?<=://)[^\s/@:]{0,80}:[^\s/@]{1,200}@")

_QUIET = re.compile(
    r"""
    \s*at\ .{0,300}:\d+:\d+\)?\s*\{?$ | \s*at\ (?:async\ )?\S+\ \( | \s*at\ <anonymous> |
    \s*[\^~]+\s*$ | \s*[\[\]{}(),;]*\s*$ | \s*\}?\s*Node\.js\ v\d | \s+throw\ | \s*\(Use\ `node |
    \s*(?:node:)?internal/\S+:\d+$ | node:\S+:\d+$ | (?:file://)?/\S+:\d+$ | Emitted\ 'error'\ event |
    \s+(?:code|errno|syscall|address|port|type|url|path|hostname|status|signal|output|pid|stdout|stderr|
      requireStack):\ | Require\ stack:$ | -\ /\S+$ | \s*Error\.captureStackTrace |
    npm\ (?:notice|warn|WARN|timing|http|info)\b | npm\ (?:error|ERR!)\s*$ |
    npm\ (?:error|ERR!)\ +(?:at\ |[a-z]+:\ ['\d]|\}|A\ complete\ log|Log\ files\ were\ not|You\ can\ rerun
      |(?:syscall|errno|path|dest|file|type|engine)\ |If\ you\ are\ behind|Note\ that\ you\ can) |
    \ *(?:Downloading|Downloaded|Building|Built|Installed|Resolved|Prepared|Updating|Updated|Audited
      |Uninstalled|Using\ Python)\ |
    (?:Run|See)\ '(?:docker|podman)\  | Unable\ to\ find\ image\  | \S+:\ Pulling\ from\ |
    [0-9a-f]{12}:\  | Digest:\ | Traceback\ \(most\ recent | The\ above\ exception\ was |
    During\ handling\ of\ the | \s*For\ further\ information\ visit\  | \s*File\ "[^"]{1,300}",\ line\ \d+ |
    [-+=_*#\s]+$
    """,
    re.X,
)
_LEVELLED = re.compile(
    r"^[^A-Za-z]{0,40}(?:\S+ )?\W?(?:INFO|DEBUG|TRACE|info|debug|trace|Info|Debug"
    r"|WARN(?:ING)?|warn(?:ing)?|Warning)\b"
)
_NPM = re.compile(r"npm (?:error|ERR!) code (E[A-Z0-9_]+|[A-Z][A-Z_]+)\s*$")
_NPM_DETAIL = re.compile(
    r"npm (?:error|ERR!) +(?!(?:code|syscall|errno|path|dest|file|type|engine|notsup Actual)\b)"
    r"(?:network |notarget |nospc |notsup |\d{3} +)?(?=\S)"
)
_CAUSE = re.compile(r"^(?:\[?cause\]?: |Caused by: |[×├╰]─?▶? ?)")
_JSON_TEXT = re.compile(r'"(?:message|msg|error)"\s*:\s*"((?:[^"\\]|\\.){1,300})')


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of output. A quiet one is never shown as the reason of a failure."""

    text: str
    quiet: bool


def clean_line(line: str) -> str:
    """Return a line without control characters, frames of boxes and passwords, and not too long."""
    line = _COLORS.sub("", line[: 4 * MOST_CHARACTERS])
    line = _INVISIBLE.sub("", line)
    line = _PASSWORD.sub("***@", line)
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"


def read_output(lines: Iterable[str]) -> list[OutputLine]:
    """Return the last lines with content, in their order. A failure of npm becomes one line with its code."""
    kept = [line for line in map(clean_line, list(lines)[-MOST_LINES:]) if line.strip()]
    found: list[OutputLine] = []
    tracing = False
    for line in _npm_joined(kept):
        text = _BARS.sub("", line)
        boxed = _BOX.sub("", text)
        if not boxed.strip():
            continue
        if text.strip().startswith("Traceback (most recent call"):
            tracing = True
        elif tracing and not text[:1].isspace():
            tracing = False
        quiet = tracing or bool(_QUIET.match(text) or _LEVELLED.match(text))
        found.append(OutputLine(_said(boxed.strip()), quiet))
    return found


def _said(text: str) -> str:
    """Return what an entry of a JSON log says, and a nested cause without its mark; other text as it is."""
    text = _CAUSE.sub("", text)
    if not text.startswith(("{", '"message"', '"msg"')):
        return text
    found = _JSON_TEXT.search(text)
    return found[1].replace('\\"', '"').replace("\\n", " ") if found else text


def _npm_joined(lines: Sequence[str]) -> list[str]:
    """Return lines in which the code of a failure of npm stands before what it says of it."""
    joined = list(lines)
    for at, line in enumerate(lines):
        code = _NPM.match(line)
        if code is None:
            continue
        details = ((n, _NPM_DETAIL.match(other)) for n, other in enumerate(lines[at + 1 : at + 12], at + 1))
        for number, detail in details:
            if detail is not None and not _QUIET.match(lines[number]):
                joined[at] = ""
                joined[number] = f"npm error {code[1]}: {lines[number][detail.end() :].strip()}"
                break
    return [line for line in joined if line]
