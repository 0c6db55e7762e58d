"""Explanation of a permission: why a key may or may not call a tool, and which pattern decides it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tabane.access.permissions import EVERY_TOOL, PermissionPatterns, PermissionRules
from tabane.access.table import ExplainPolicyParams
from tabane.messages import Lang, Message, say
from tabane.operations.caller import Caller, CallTarget

if TYPE_CHECKING:
    from tabane.access.key_store import KeyRecord

DecidingRule = Literal["allow", "deny", "read_only", "always", "none"]
"""Reason of a decision: a pattern of ``allow`` or ``deny``, or ``read_only``.

``always``: the target is allowed for every identity. ``none``: no pattern allows the target.
"""

_NOTHING = PermissionPatterns()
_WIDEST = (EVERY_TOOL, "@admin")


@dataclass(frozen=True, slots=True)
class PermissionReason:
    """Whether patterns allow a target, and the rule that decides it. ``pattern`` is "" if none does."""

    allowed: bool
    rule: DecidingRule
    pattern: str = ""


def explain_permission(patterns: PermissionPatterns, target: CallTarget) -> PermissionReason:
    """Return what decides about a target.

    Each pattern is tried alone with the rules that are in force, so that the explanation is never of other
    rules than those.
    """
    if PermissionRules(patterns).allows(target):
        if PermissionRules(_NOTHING).allows(target):
            return PermissionReason(True, "always")
        alone = (
            pattern
            for pattern in patterns.allow
            if PermissionRules(PermissionPatterns((pattern,))).allows(target)
        )
        return PermissionReason(True, "allow", next(alone, ""))
    for pattern in patterns.deny:
        if not PermissionRules(PermissionPatterns((*_WIDEST, target.name), (pattern,))).allows(target):
            return PermissionReason(False, "deny", pattern)
    if patterns.read_only and target.changes:
        return PermissionReason(False, "read_only")
    return PermissionReason(False, "none")


class PolicyExplainer:
    """Explains what a key may call.

    ``find_key`` returns a key and its state, and raises UnknownName. ``find_target`` returns what a name
    stands for, and raises UnknownName. ``profile`` returns the patterns of a profile; None if there is none.
    """

    def __init__(
        self,
        find_key: Callable[[str], Awaitable[tuple[KeyRecord, str]]],
        find_target: Callable[[Caller, str], Awaitable[CallTarget]],
        profile: Callable[[str], PermissionPatterns | None],
    ) -> None:
        self._find_key, self._find_target, self._profile = find_key, find_target, profile

    async def explain(self, caller: Caller, params: ExplainPolicyParams) -> dict[str, Any]:
        """Return whether a key may call a tool, with a step for the key and one for its profile."""
        key, state = await self._find_key(params.key)
        target = await self._find_target(caller, params.tool)
        steps = self._policy_steps(key, target)
        return {
            "allowed": state == "active" and all(step["allowed"] for step in steps),
            "key": {"id": key.id, "name": key.name, "state": state},
            "tool": target.name,
            "server": target.server,
            "source": target.source,
            "changes": target.changes,
            "steps": steps,
        }

    def _policy_steps(self, key: KeyRecord, target: CallTarget) -> list[dict[str, Any]]:
        """Return a step for the key, and one for its profile: all must allow the tool."""
        steps = [_policy_step("key", key.name, explain_permission(key.patterns, target))]
        if key.profile:
            patterns = self._profile(key.profile)
            if patterns is None:
                missing = {"by": "profile", "name": key.profile, "allowed": False, "rule": "missing"}
                return [*steps, missing]
            steps.append(_policy_step("profile", key.profile, explain_permission(patterns, target)))
        return steps


def policy_text(found: dict[str, Any], lang: Lang) -> str:
    """Return an explanation as lines: the answer, then the reasons."""
    return "\n".join(message.render(lang) for message in policy_messages(found))


def policy_messages(found: dict[str, Any]) -> list[Message]:
    """Return the same as messages."""
    key, tool = found["key"]["name"], found["tool"]
    answer = (
        say("{key} may call {tool}.", key=key, tool=tool)
        if found["allowed"]
        else say("{key} may not call {tool}.", key=key, tool=tool)
    )
    messages = [answer]
    if found["key"]["state"] == "expired":
        messages.append(say("The key has expired. Create another one with: tabane keys create NAME"))
    elif found["key"]["state"] != "active":
        messages.append(say("The key was revoked. Create another one with: tabane keys create NAME"))
    return [*messages, *(_of_step(step, found) for step in found["steps"])]


def _policy_step(by: str, name: str, reason: PermissionReason) -> dict[str, Any]:
    step = {"by": by, "name": name, "allowed": reason.allowed, "rule": reason.rule}
    return {**step, "pattern": reason.pattern} if reason.pattern else step


def _of_step(step: dict[str, Any], found: dict[str, Any]) -> Message:
    name = step["name"]
    who = say("The key {name}", name=name) if step["by"] == "key" else say("The profile {name}", name=name)
    match step["rule"]:
        case "allow":
            return say("{who} allows it: {pattern}", who=who, pattern=step["pattern"])
        case "deny":
            return say("{who} denies it: {pattern}", who=who, pattern=step["pattern"])
        case "read_only":
            return say("{who} is read-only, and {tool} is not marked read-only.", who=who, tool=found["tool"])
        case "always":
            return say("{who} does not deny it, and every key may use it.", who=who)
        case "missing":
            return say(
                "The profile {name} does not exist, so nothing is allowed. List the profiles with: tabane "
                "profiles list",
                name=step["name"],
            )
        case _:
            if found["server"]:
                return say(
                    "{who} has no pattern that allows it. These would: {patterns}",
                    who=who,
                    patterns=f"{found['tool']}, {found['server']}__*",
                )
            if found["source"] in ("", "admin"):
                return say(
                    "{who} does not allow administration. It needs {tool} or @admin; * does not include it.",
                    who=who,
                    tool=found["tool"],
                )
            patterns = f"{found['tool']}, @{found['source']}"
            return say(
                "{who} has no pattern that allows it. These would: {patterns}", who=who, patterns=patterns
            )
