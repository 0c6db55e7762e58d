"""The guard of a hub: rules that judge calls. Any may refuse a call, and any may ask for a person."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from tabane.errors import Forbidden
from tabane.messages import say
from tabane.operations import Caller, CallTarget
from tabane.operations.guarding import CallRule, CallVerdict, OpenApproval

Ask = Callable[[tuple[CallVerdict, ...], Caller, CallTarget, bytes, str], OpenApproval]
"""Returns what a call awaits: verdicts, caller, target, arguments, and the id of the request."""


class HubGuard:
    """Judges each call by its rules. ``ask`` returns what a call awaits that a person has to approve.

    ``rules`` are replaced when the settings change. Without one, a call costs a comparison.
    """

    def __init__(self, ask: Ask, rules: tuple[CallRule, ...] = ()) -> None:
        self._ask, self.rules = ask, rules

    def judge(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenApproval | None:
        asking = self.check(caller, target, arguments) if self.rules else ()
        return self._ask(asking, caller, target, arguments, request) if asking else None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None:
        for rule in self.rules:
            rule.answered(caller, target, arguments, result)

    def check(self, caller: Caller, target: CallTarget, arguments: bytes) -> tuple[CallVerdict, ...]:
        """Return the verdicts that ask for a person. Raises Forbidden if one refuses."""
        asking: tuple[CallVerdict, ...] = ()
        for rule in self.rules:
            verdict = rule.verdict(caller, target, arguments)
            if verdict is None:
                continue
            if verdict.action == "refuse":
                raise _refused(verdict, target)
            asking += (verdict,)
        return asking


def _refused(verdict: CallVerdict, target: CallTarget) -> Forbidden:
    return Forbidden(
        say(
            "{tool} was not called ({rule}): {reason}",
            tool=target.name,
            rule=verdict.rule,
            reason=verdict.reason,
        )
    )
