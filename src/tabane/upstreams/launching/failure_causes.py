"""Causes of failed starts, read from the output of a program: the line that says why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tabane.messages import Message, say
from tabane.upstreams.launching.failure_advice import FailedRun, needed_variables, variable
from tabane.upstreams.launching.failure_rules import MISSING, NOT_FATAL, RULES, FailureKind, FailureRule
from tabane.upstreams.launching.package_run import package_run
from tabane.upstreams.launching.stderr_reading import OutputLine, clean_line, read_output

TAIL = 10
"""Lines of a program's output that stay with its failure, for a person who wants more than one."""

_ERROR = re.compile(
    r"\b(?:error|fatal|failed|failure|exception|panic|cannot|could not|couldn't|unable|invalid|denied|refused"
    r"|must|please)\b|^[\w.]{0,80}(?:Error|Exception|Exit|Interrupt)\b|❌|🚨|エラー|失敗",
    re.I,
)
_EXCEPTION = re.compile(r"^(?:Uncaught )?[\w.]{0,80}(?:Error|Exception)(?: \[\w+\])?: \S")
_PROGRESS = re.compile(
    r"npm (?:notice|warn|WARN)|(?:Installed|Downloaded|Downloading|Resolved|Built|Building) "
)
_USAGE = re.compile(r"^(?:\[\d+\] )?usage:\s*(\S.*)", re.I)


@dataclass(frozen=True, slots=True)
class FailureCause:
    """``line`` is what the program wrote about the cause, ``fix`` what a person can do; None if unknown."""

    kind: FailureKind
    line: str
    fix: Message | None


class FailedStart(Message):
    """The end of a program, with the cause and the fix. ``tail`` are the last lines of its output."""

    __slots__ = ("cause", "how", "tail")

    def __init__(self, how: Message, cause: FailureCause, tail: str) -> None:
        said = cause.line.rstrip(" .:。")
        if cause.fix is None:
            super().__init__("{said} ({how})", said=said, how=how)
        else:
            super().__init__("{said} ({how}). {fix}", said=said, how=how, fix=cause.fix)
        self.how, self.cause, self.tail = how, cause, tail

    def without_log(self) -> FailedStart:
        """Return the same without the advice to look into a log, for a server that has none."""
        if self.cause.kind not in ("error", "unknown"):
            return self
        return FailedStart(self.how, FailureCause(self.cause.kind, self.cause.line, None), self.tail)


_TEMPLATES = (say("{said} ({how})"), say("{said} ({how}). {fix}"))  # for the catalog


def failure_cause(
    server: str, command: str, args: Sequence[str], stderr: Iterable[str], stdout: Iterable[str] = ()
) -> FailureCause | None:
    """Return the cause that the output shows; None if there is no output that means anything.

    ``stdout`` are lines that are not MCP. Both are untrusted, without secrets of the server, and only their
    ends are read.
    """
    lines = [*read_output(stdout), *read_output(stderr)]
    if not any(line.text for line in lines):
        return None
    run = package_run(command, args)
    program = command.rsplit("/", 1)[-1]
    usage = next((found[1] for line in reversed(lines) if (found := _USAGE.match(line.text))), "")
    for rules in (_STRONG, _WEAK):
        hit = _last_match(lines, rules, run.runner if run else "")
        if hit is None:
            continue
        at, rule, found = hit
        text = _shown(lines, at)
        fix = rule.advice(_Named(found), FailedRun(server, program, run, text, usage))
        return FailureCause(rule.kind, text, fix)
    return _unknown(server, lines)


def failed_start(
    how: Message, server: str, command: str, args: Sequence[str], stderr: Sequence[str], stdout: Sequence[str]
) -> Message:
    """Return how a program ended together with the cause and the fix, as far as its output shows them."""
    cause = failure_cause(server, command, args, stderr, stdout)
    if cause is None:
        return how
    tail = [clean_line(line) for line in [*stdout, *stderr] if line.strip()]
    return FailedStart(how, cause, "\n".join(tail[-TAIL:]))


def cause_in(message: Message) -> FailedStart | None:
    """Return the failed start that a message tells of, itself or in one of its fields."""
    if isinstance(message, FailedStart):
        return message
    fields = (cause_in(field) for field in message.fields.values() if isinstance(field, Message))
    return next(filter(None, fields), None)


class _Named:
    """A match whose groups ``package2``, ``package3`` … count as ``package`` if that one is empty."""

    def __init__(self, found: re.Match[str]) -> None:
        self._groups: dict[str, str] = {}
        for name, value in found.groupdict().items():
            if value:
                self._groups.setdefault(name.rstrip("0123456789"), value)
        self._text = found.string

    @property
    def string(self) -> str:
        return self._text

    def groupdict(self) -> dict[str, str]:
        return self._groups

    def __getitem__(self, name: str) -> str:
        return self._groups.get(name, "?")


_STRONG = tuple(rule for rule in RULES if not rule.weak)
_WEAK = tuple(rule for rule in RULES if rule.weak)


def _last_match(
    lines: Sequence[OutputLine], rules: Sequence[FailureRule], runner: str
) -> tuple[int, FailureRule, re.Match[str]] | None:
    """Return the match of the last line that any rule knows; a quiet line counts only for weak rules."""
    whole = "\n".join(line.text for line in lines)
    fitting = [
        rule
        for rule in rules
        if (not rule.runners or runner in rule.runners) and (not rule.beside or rule.beside in whole)
    ]
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        if NOT_FATAL.search(line.text) or (line.quiet and not rules[0].weak):
            continue
        for rule in fitting:
            text = "\n".join(each.text for each in lines[max(0, at - rule.before) : at + 1])
            found = rule.pattern.search(text)
            if found is not None and _meant(rule, text):
                return at, rule, found
    return None


def _meant(rule: FailureRule, text: str) -> bool:
    """Return whether a rule's own condition holds: a name in capitals alone says nothing of a variable."""
    if rule.advice is not variable or rule.beside:
        return True
    return bool(needed_variables(text)) and MISSING.search(text) is not None


def _shown(lines: Sequence[OutputLine], at: int) -> str:
    """Return the line to show: the one that matched; for a field of pydantic, the field before it as well."""
    text = lines[at].text
    if at and re.match(r"Field required|Input should be a valid", text):
        return f"{lines[at - 1].text}: {text}"
    return text


def _unknown(server: str, lines: Sequence[OutputLine]) -> FailureCause | None:
    """Return the last line that reports an error, else the last line that is not progress."""
    loud = [line.text for line in lines if not line.quiet and line.text]
    for pattern in (_EXCEPTION, _ERROR):
        for text in reversed(loud):
            if pattern.search(text):
                return FailureCause("error", text, _more(server))
    said = loud or [line.text for line in lines if not _PROGRESS.match(line.text)]
    return FailureCause("unknown", said[-1], _more(server)) if said else None


def _more(server: str) -> Message:
    return say("Everything it wrote: tabane servers logs {server!c}", server=server)
