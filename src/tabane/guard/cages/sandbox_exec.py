"""Profiles of sandbox-exec, the cage of macOS. Untested: no machine with macOS was at hand.

Everything here is pure. In a profile, the last rule that matches decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_WRITABLE = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")


def command(program: str, profile: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` under a profile."""
    return [program, "-p", profile, *argv]


def profile(
    writes: Iterable[str], reads: Iterable[str] | None, hidden: Iterable[str], *, network: bool
) -> str:
    """Return the profile; if ``reads`` is None, everything but ``hidden`` may be read."""
    writes, hidden = list(writes), list(hidden)
    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules += _rules("allow", "file-write*", writes)
    rules += [f'(allow file-write* (literal "{path}"))' for path in _WRITABLE]
    if reads is not None:
        rules += ["(deny file-read-data)", *_rules("allow", "file-read-data", [*reads, *writes])]
        rules.append('(allow file-read-data (literal "/") (subpath "/System") (subpath "/Library"))')
    rules += _rules("deny", "file-read* file-write*", hidden)
    inside = [path for path in writes if any(path.startswith(f"{each}/") for each in hidden)]
    rules += _rules("allow", "file-read* file-write*", inside)
    rules += [
        "(deny process-info* (target others))",
        "(deny signal (target others))",
        "(allow signal (target self) (target children))",
    ]
    if not network:
        rules.append("(deny network*)")
    return "\n".join(rules)


def _rules(verdict: str, what: str, paths: Iterable[str]) -> list[str]:
    return [f"({verdict} {what} (subpath {_quoted(path)}))" for path in paths]


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
