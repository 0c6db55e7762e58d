"""Explanation of a permission: whether a target is allowed, and which pattern decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tabane.access.patterns import EVERY_TOOL
from tabane.access.permissions import PermissionPatterns, PermissionRules
from tabane.operations.access import CallTarget

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
        return _reason_to_allow(patterns, target)
    return _reason_to_refuse(patterns, target)


def _reason_to_allow(patterns: PermissionPatterns, target: CallTarget) -> PermissionReason:
    if PermissionRules(_NOTHING).allows(target):
        return PermissionReason(True, "always")
    alone = (pattern for pattern in patterns.allow if _allows(PermissionPatterns((pattern,)), target))
    return PermissionReason(True, "allow", next(alone, ""))


def _reason_to_refuse(patterns: PermissionPatterns, target: CallTarget) -> PermissionReason:
    for pattern in patterns.deny:
        if not _allows(PermissionPatterns((*_WIDEST, target.name), (pattern,)), target):
            return PermissionReason(False, "deny", pattern)
    if patterns.read_only and target.changes:
        return PermissionReason(False, "read_only")
    return PermissionReason(False, "none")


def _allows(patterns: PermissionPatterns, target: CallTarget) -> bool:
    return PermissionRules(patterns).allows(target)
