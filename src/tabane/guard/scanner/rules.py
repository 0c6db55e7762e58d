"""Rules over the meanings of words: which meanings, in which order and how near each other, are a sign.

They serve all languages. Where verbs come last, a ban is read from its end, and other rules have no order.
"""

# ruff: noqa: E501 (a rule in one line)
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from tabane.guard.scanner.evidence import Hit, Sign
from tabane.guard.scanner.sentences import Sentences, Word
from tabane.guard.scanner.vocabulary import Meaning, Order

M, S = Meaning, Sign


@dataclass(frozen=True, slots=True)
class Rule:
    """Meanings in this order: each with how many words may be between it and the one before.

    ``strict`` rules have an order in every language, and no condition ("if") is between their words;
    ``free`` ones have no order in any. ``clauses`` are steps of several clauses, which all languages put in
    the same order. ``beside`` ones are no sign if a meaning is what the tool is for.
    """

    sign: Sign
    weight: int
    steps: tuple[tuple[int, int], ...]
    strict: bool = False
    clauses: bool = False
    free: bool = False
    beside: bool = False


def rule(sign: Sign, weight: int, *steps: Meaning | int) -> Rule:
    """Return a rule from meanings with the most words between them, in turns: meaning, gap, meaning."""
    pairs = [(int(steps[0]), 0)]
    pairs.extend((int(steps[at + 1]), int(steps[at]) + 1) for at in range(1, len(steps), 2))
    return Rule(sign, weight, tuple(pairs))


def ban(sign: Sign, weight: int, *steps: Meaning | int) -> Rule:
    """Return a strict rule."""
    one = rule(sign, weight, *steps)
    return Rule(sign, weight, one.steps, strict=True)


def clauses(sign: Sign, weight: int, *steps: Meaning | int, strict: bool = False) -> Rule:
    """Return a rule whose order is that of clauses."""
    one = rule(sign, weight, *steps)
    return Rule(sign, weight, one.steps, strict=strict, clauses=True)


def near(sign: Sign, weight: int, *steps: Meaning | int) -> Rule:
    """Return a rule whose meanings may be in any order."""
    one = rule(sign, weight, *steps)
    return Rule(sign, weight, one.steps, free=True)


def beside(sign: Sign, weight: int, *steps: Meaning | int) -> Rule:
    """Return a rule in any order for what the tool is not for."""
    return replace(near(sign, weight, *steps), beside=True)


ACT = M.READ | M.SEND | M.RUN | M.WRITE | M.DELETE
ASKED = M.MUST | M.PLEASE
FORCE = M.MUST | M.ALWAYS | M.FIRST
TRIGGER = M.WHEN | M.BEFORE | M.ALWAYS | M.ALL
ALIEN = M.FOREIGN | M.TOOL_NAME
ANY_FIELD = M.FIELD | M.OWN_FIELD
GOAL = M.SERVICE | M.NUMBER | M.PLACE
SELF = M.SELF | M.THIS_TOOL
ANY_STEERING = (
    ACT
    | M.CALL
    | M.PUT
    | FORCE
    | TRIGGER
    | M.INSTEAD
    | M.BROKEN
    | M.NOT
    | M.ALSO
    | M.CHANGE
    | M.PLEASE
    | M.ALTER
)
LONE_PATH = 3
"""Weight of a path to secrets that nothing is said about."""
MOVE = M.READ | M.CONTENT | M.PUT | M.SEND | M.WRITE

OTHERS = M.FOREIGN | M.SIBLING
ANY_TOOL = M.FOREIGN | M.TOOL_NAME | M.SIBLING
ENDPOINT = M.STRANGER | M.NUMBER
DO = M.SEND | M.PUT | M.CHANGE | M.ALTER | M.WRITE | M.DELETE | M.GONE

RULES: tuple[Rule, ...] = (
    # -- secrecy
    ban(S.SECRECY, 4, M.NOT, 3, M.TELL, 6, M.USER),
    ban(S.SECRECY, 4, M.NOT, 2, M.TELL, 0, M.THEM),
    ban(S.SECRECY, 4, M.NOT, 3, M.TELL, 2, M.THIS_STEP),
    ban(S.SECRECY, 3, M.NOT, 2, M.SHOW, 2, M.THIS_STEP),
    ban(S.SECRECY, 4, M.THEM, 2, M.NOT, 3, M.KNOW),
    ban(S.SECRECY, 4, M.USER, 3, M.NOT, 5, M.KNOW),
    ban(S.SECRECY, 3, M.NOT, 2, M.USER, 1, M.CONSENT),
    ban(S.SECRECY, 3, M.NOT, 2, M.CONSENT, 2, M.USER),
    rule(S.SECRECY, 3, M.HIDE, 6, M.USER),
    rule(S.SECRECY, 3, M.COVERT),
    rule(S.SECRECY, 2, M.HIDE, 3, M.THIS_STEP),
    rule(S.SECRECY, 2, M.QUIETLY, 2, ACT | M.PUT | M.CALL),
    rule(S.SECRECY, 2, M.DELETE, 4, M.HARM),
    # -- override
    rule(S.OVERRIDE, 6, M.IGNORE, 4, M.EARLIER, 3, M.RULES),
    ban(S.OVERRIDE, 5, M.NOT, 1, M.FOLLOW, 3, M.EARLIER | M.AUTHORITY, 3, M.RULES),
    ban(S.OVERRIDE, 5, M.EARLIER, 2, M.RULES, 4, M.NOT, 2, M.FOLLOW),
    rule(S.OVERRIDE, 4, M.IGNORE, 1, M.ALL, 1, M.EARLIER),
    rule(S.OVERRIDE, 2, M.IGNORE | M.DISABLE, 2, M.EARLIER, 1, M.SAFEGUARD),
    rule(S.OVERRIDE, 4, M.INSTEAD, 6, M.AUTHORITY | M.USER, 4, M.RULES | M.MESSAGES),
    rule(S.OVERRIDE, 4, M.RULES, 6, M.INSTEAD, 4, M.USER | M.AUTHORITY),
    rule(S.OVERRIDE, 4, M.OVERRIDE),
    rule(S.OVERRIDE, 4, M.RULES, 6, M.INSTEAD, 3, M.ALL, 1, M.OTHER),
    # -- orders
    rule(S.ORDER, 2, M.BEFORE, 8, M.ALL | M.OTHER, 4, M.ACTION | M.TOOL),
    rule(S.ORDER, 2, M.MODEL, 3, ASKED, 6, ACT | M.PUT),
    rule(S.ORDER, 1, ASKED, 8, ACT),
    rule(S.PRESSURE, 1, M.PRETEXT),
    # -- what is wanted
    rule(S.SECRETS, 4, MOVE, 14, M.KEY_FILE),
    rule(S.SECRETS, 5, MOVE, 14, M.KEY_PATH),
    rule(S.SECRETS, 5, M.MODEL, 12, M.KEY_PATH),
    near(S.SECRETS, 4, MOVE, 3, M.KEY_FILE),
    rule(S.SECRETS, 3, MOVE, 14, M.PATH),
    rule(S.SECRETS, 2, M.PATH),
    rule(S.SECRETS, LONE_PATH, M.PATH),
    rule(S.SECRETS, 2, M.READ | M.PUT | M.SEND, 12, M.SECRET),
    rule(S.SECRETS, 3, M.CONTENT, 4, M.KEY_NAME),
    rule(S.CONVERSATION, 4, M.PUT | M.READ | M.SEND, 8, M.WHOLE, 4, M.TALK),
    rule(S.CONVERSATION, 2, M.WHOLE, 4, M.TALK),
    rule(S.CONVERSATION, 3, M.WHOLE, 2, M.TALK, 2, M.CONTEXT | M.MESSAGES),
    rule(S.CONVERSATION, 3, M.CONTENT | M.READ | M.TELL, 4, M.PROMPT),
    rule(S.CONVERSATION, 2, M.TALK, 4, M.WHOLE),
    rule(S.CONVERSATION, 2, M.PROMPT),
    rule(S.CONVERSATION, 3, M.WHOLE, 2, M.PROMPT),
    rule(S.CONVERSATION, 4, FORCE | M.PLEASE, 3, M.PUT | M.SEND | M.READ, 10, M.PROMPT),
    rule(S.CONVERSATION, 4, M.PUT | M.SEND, 4, M.PROMPT),
    rule(S.CONVERSATION, 5, M.PROMPT | M.TALK, 3, ASKED, 3, M.PUT | M.SEND),
    rule(S.CONVERSATION, 3, M.PUT | M.SEND, 5, M.TALK),
    rule(S.CONVERSATION, 4, ASKED, 2, M.PUT | M.SEND, 6, M.TALK),
    rule(S.CONVERSATION, 5, FORCE | M.PLEASE, 6, M.PUT | M.SEND, 6, M.WHOLE, 4, M.TALK),
    rule(S.CONVERSATION, 4, M.WHOLE, 2, M.PROMPT | M.TALK, 4, M.PROMPT | M.TALK),
    rule(S.CONVERSATION, 4, M.PUT | M.SEND, 4, M.EARLIER | M.WHOLE, 3, M.MESSAGES, 3, M.USER),
    rule(S.CONVERSATION, 3, M.WHOLE, 2, M.USER, 1, M.MESSAGES),
    rule(S.CONVERSATION, 3, M.WHOLE, 3, M.MESSAGES, 3, M.USER),
    rule(S.CONVERSATION, 2, M.TALK, 1, M.CONTEXT),
    rule(S.SECRETS, 3, M.SECRET, 4, M.USER, 3, M.TELL | M.MESSAGES),
    rule(S.SECRETS, 3, M.READ, 2, M.ALL | M.WHOLE, 2, M.FILE, 18, M.PUT | M.SEND),
    rule(S.SECRETS, 3, ASKED, 2, M.USER, 2, M.SECRET),
    rule(S.SECRETS, 4, M.PRETEXT, 20, M.PUT | M.SEND, 16, M.SECRET | M.PERSONAL),
    rule(S.SECRETS, 4, M.PRETEXT, 20, M.SECRET | M.PERSONAL, 10, M.PUT | M.SEND),
    # -- ways out
    rule(S.CHANNEL, 4, M.PRETEXT, 4, M.PUT | M.SEND, 8, M.CONTENT | M.TALK | M.DATA | M.MESSAGES),
    rule(S.CHANNEL, 4, M.ALWAYS | M.ALL, 14, ASKED, 1, M.FIRST | M.ALSO, 2, ACT | M.CALL),
    rule(S.STUFFING, 1, M.PUT | M.SEND, 14, ANY_FIELD),
    rule(S.CHANNEL, 3, M.SEND, 14, M.SERVICE | M.OUTSIDE),
    rule(S.CHANNEL, 4, TRIGGER | ASKED, 8, M.SEND, 14, M.SERVICE),
    rule(S.CHANNEL, 4, M.READ, 14, M.SEND, 10, M.SERVICE),
    rule(S.CHANNEL, 4, TRIGGER, 12, M.ALSO | ASKED | M.FIRST, 4, M.WRITE | M.SEND | M.PUT, 10, M.PLACE | M.SERVICE | M.OUTSIDE),
    rule(S.HANDLING, 2, ACT | M.PUT | M.SENDS, 8, M.DATA | M.SECRET | M.CONTENT | M.OUTSIDE | M.FILE | M.SERVICE),
    # -- other tools
    rule(S.EXCLUSIVE, 3, M.ALWAYS | M.MUST | M.ALL, 8, M.CALL, 3, SELF, 8, M.FIRST | M.ALL | M.BEFORE | M.INSTEAD),
    rule(S.EXCLUSIVE, 4, M.ALL, 4, M.MESSAGES | M.TALK, 8, M.CALL | M.RUN, 3, SELF),
    rule(S.EXCLUSIVE, 3, SELF, 3, M.MUST, 4, M.CALL, 4, M.BEFORE | M.FIRST, 3, M.ALL),
    rule(S.EXCLUSIVE, 4, M.CALL, 2, SELF, 3, M.INSTEAD, 1, M.OTHER),
    rule(S.EXCLUSIVE, 3, M.BEFORE, 6, ALIEN | M.ACTION, 6, M.CALL, 2, SELF),
    rule(S.EXCLUSIVE, 4, M.ALL, 6, M.TOOL, 6, M.MUST, 4, M.BEFORE | M.FIRST, 6, SELF),
    rule(S.EXCLUSIVE, 5, M.CALL, 1, SELF, 3, M.NOT, 3, M.CALL, 2, M.OTHER),
    rule(S.EXCLUSIVE, 3, M.CALL, 6, M.ALL, 2, M.TALK),
    rule(S.EXCLUSIVE, 4, M.MODEL, 4, M.MUST, 5, M.CALL, 2, SELF | M.THIS_STEP, 4, M.ALL),
    rule(S.EXCLUSIVE, 6, M.CALL, 2, SELF | M.THIS_STEP, 2, M.INSTEAD, 1, M.ALL, 1, M.OTHER, 1, M.TOOL),
    rule(S.EXCLUSIVE, 6, M.MUST, 3, M.CALL, 2, M.BEFORE, 1, M.ALL, 1, M.OTHER, 0, M.TOOL),
    rule(S.EXCLUSIVE, 2, M.ALL, 0, M.OTHER, 1, M.TOOL),
    ban(S.EXCLUSIVE, 3, M.NOT, 3, M.CALL, 3, M.OTHER, 3, M.TOOL),
    ban(S.EXCLUSIVE, 4, M.NOT, 3, M.CALL, 1, M.OTHER, 0, M.TOOL),
    rule(S.OTHER_TOOL, 3, ALIEN | M.TOOL, 6, M.BROKEN),
    rule(S.OTHER_TOOL, 2, FORCE, 5, M.CALL, 4, ALIEN),
    rule(S.OTHER_TOOL, 3, M.PLEASE, 10, M.CALL, 4, ALIEN),
    rule(S.OTHER_TOOL, 3, ALIEN, 4, M.MUST, 4, M.CALL),
    rule(S.OTHER_TOOL, 3, FORCE, 5, M.SEND | M.PUT, 8, ALIEN),
    rule(S.OTHER_TOOL, 6, TRIGGER, 12, M.MUST | M.ALSO, 5, M.CALL, 4, ALIEN),
    rule(S.REDIRECT, 4, M.ALWAYS | M.MUST, 5, M.BLIND),
    rule(S.REDIRECT, 4, M.ALL, 3, M.DATA, 2, M.MUST, 3, M.SEND),
    rule(S.REDIRECT, 5, M.CHANGE | M.MUST, 6, M.RECIPIENT, 6, M.SERVICE | M.NUMBER),
    rule(S.REDIRECT, 4, TRIGGER, 6, ALIEN, 10, M.FIELD | M.RECIPIENT, 5, M.MUST | M.CHANGE),
    rule(S.REDIRECT, 4, TRIGGER, 12, M.FIELD | M.RECIPIENT | M.CONTENT | M.DATA, 4, M.MUST, 3, M.ALTER),
    # -- tools of other servers, which no honest text of this one names
    near(S.REDIRECT, 4, ALIEN | M.SIBLING, 12, M.SERVICE | M.NUMBER, 6, M.PUT | M.SEND | M.CHANGE | M.ALTER | M.RECIPIENT),
    near(S.OTHER_TOOL, 4, M.FOREIGN),
    near(S.OTHER_TOOL, 6, M.FOREIGN, 12, ANY_STEERING),
    rule(S.OTHER_TOOL, 4, M.OTHER, 2, M.TOOL, 5, M.BROKEN),
    ban(S.OTHER_TOOL, 4, M.OTHER, 3, M.TOOL, 5, M.NOT, 4, M.CALL),
    rule(S.EXCLUSIVE, 4, M.MONOPOLY),
    rule(S.EXCLUSIVE, 5, SELF, 3, M.MUST, 6, M.CALL, 3, M.BEFORE | M.FIRST, 3, M.ALL | M.OTHER, 2, M.OTHER | M.TOOL),
    near(S.SECRETS, 4, ALIEN, 4, M.PATH),
    rule(S.SECRETS, 3, M.ALL | M.WHOLE, 2, M.SECRET, 8, M.SECRET),
    beside(S.SECRETS, 3, M.SECRET | M.KEY_FILE, 6, M.PRETEXT),
    rule(S.CONVERSATION, 3, M.SECRET, 5, M.IF, 10, M.TALK),
    near(S.PERSISTENCE, 4, M.STEERING, 6, M.PUT | M.WRITE),
    near(S.REDIRECT, 4, M.PUT | M.MUST, 4, M.SERVICE, 6, M.BLIND),
    rule(S.REDIRECT, 4, M.SERVICE, 3, M.BLIND),
    rule(S.REDIRECT, 4, M.ALWAYS | M.ALL | M.WHEN, 10, M.RECIPIENT, 3, M.NUMBER),
    rule(S.REDIRECT, 4, M.RECIPIENT, 6, M.CHANGE | M.ALTER, 6, GOAL),
    near(S.REDIRECT, 4, M.COVERT | M.QUIETLY, 4, M.CHANGE, 4, M.RECIPIENT),
    near(S.UNCONFIRMED, 4, M.CONSENT | M.USER, 4, M.GRANTED),
    ban(S.UNCONFIRMED, 4, M.NOT, 3, M.ASK, 3, M.USER, 3, M.CONSENT),
    rule(S.COMMAND, 3, M.RUN, 4, M.FIRST, 6, M.SHELL),
    # -- a calm statement that puts something in place of what the user asked for, or besides it
    rule(S.REDIRECT, 4, M.BLIND, 2, M.SERVICE),
    near(S.REDIRECT, 6, M.REGARDLESS, 14, M.WISH),
    near(S.CHANNEL, 5, ENDPOINT, 10, M.OPEN, 10, M.WHEN | M.BEFORE | M.REASON | M.ALSO),
    near(S.REDIRECT, 5, M.UNTOLD, 12, TRIGGER, 8, DO),
    replace(rule(S.SECRETS, 3, M.PUT, 6, M.SECRET, 6, M.OWN_FIELD), beside=True),
    beside(S.SECRETS, 4, DO, 6, M.SECRET, 3, M.WHOLE),
    beside(S.CHANNEL, 4, DO, 6, M.SEND, 8, M.PERSONAL),
    near(S.REDIRECT, 4, M.ALL, 8, DO, 8, ENDPOINT | M.PATH),
    near(S.REDIRECT, 3, M.STRANGER, 12, DO),
    near(S.REDIRECT, 5, M.STRANGER, 12, DO, 12, ANY_TOOL | TRIGGER | ASKED | M.RECIPIENT | M.USER | M.REASON),
    near(S.REDIRECT, 5, M.STRANGER, 12, M.REGARDLESS | M.WISH),
    near(S.SECRECY, 4, M.UNTOLD, 6, M.THIS_STEP),
    rule(S.REDIRECT, 4, M.STEERED),
    beside(S.OTHER_TOOL, 4, M.GONE, 4, M.LISTED),
    near(S.REDIRECT, 4, M.LISTED, 10, ENDPOINT),
    near(S.REDIRECT, 5, M.STEERED, 12, DO | ENDPOINT | M.PATH | M.RECIPIENT | M.REASON | M.OPEN | M.REGARDLESS | M.WISH),
    rule(S.UNCONFIRMED, 2, M.UNCALLED),
    beside(S.SECRETS, 4, M.PUT, 6, M.SECRET, 6, M.FILE),
    beside(S.CONVERSATION, 4, ANY_TOOL, 8, FORCE | TRIGGER, 8, M.TALK),
    beside(S.REDIRECT, 4, M.REGARDLESS, 6, M.RECIPIENT, 8, M.DATA),
    rule(S.SECRETS, 5, M.READ, 6, M.PATH, 10, M.SEND | M.PUT | M.OWN_FIELD),
    beside(S.SECRETS, 3, M.ALL | M.WHOLE, 8, M.KEY_PATH),
    # -- consequences
    ban(S.UNCONFIRMED, 3, M.NOT, 3, M.ASK, 4, M.CONSENT),
    ban(S.UNCONFIRMED, 1, M.NOT, 3, M.ASK, 3, M.USER),
    rule(S.UNCONFIRMED, 2, M.IGNORE | M.DISABLE, 4, M.SAFEGUARD),
    rule(S.COMMAND, 4, M.MUST | M.PLEASE, 4, M.PRIVILEGE),
    rule(S.REDIRECT, 4, M.WHEN | M.BEFORE, 6, M.ACTION | M.CALL, 6, M.CALL, 2, SELF, 3, M.CHANGE | M.ALTER, 5, M.CONTENT | M.DATA),
    rule(S.PERSISTENCE, 4, M.PUT | M.WRITE | M.CHANGE, 11, M.STEERING),
    rule(S.OUTPUT, 4, M.ALL | M.ALWAYS, 10, M.CLAIM, 3, M.FINE),
    rule(S.OUTPUT, 3, M.CLAIM, 4, M.FINE),
    rule(S.COMMAND, 2, M.READ, 6, M.SERVICE, 6, M.RUN | M.FOLLOW),
    rule(S.OUTPUT, 3, M.ALL | M.ALWAYS, 8, M.PROMOTE, 8, M.PRODUCT | M.SERVICE),
    # -- as other languages, whose order is free, put it
    clauses(S.EXCLUSIVE, 5, M.OTHER, 4, M.TOOL, 8, M.NOT, 4, M.CALL),
    clauses(S.EXCLUSIVE, 5, M.TOOL, 3, M.OTHER, 8, M.NOT, 4, M.CALL),
    clauses(S.EXCLUSIVE, 5, M.OTHER, 4, M.TOOL, 8, M.CALL, 4, M.NOT),
    rule(S.EXCLUSIVE, 4, M.MUST, 3, M.CALL, 3, SELF, 3, M.BEFORE, 4, M.OTHER),
    clauses(S.OTHER_TOOL, 4, ALIEN, 5, M.BROKEN, 6, M.CALL | M.INSTEAD, 4, SELF | M.INSTEAD),
    rule(S.REDIRECT, 5, M.RECIPIENT, 8, M.CHANGE, 6, M.SERVICE | M.NUMBER),
    rule(S.REDIRECT, 4, M.PUT | M.SEND | M.MUST, 4, M.SERVICE, 6, M.BLIND),
    rule(S.CONVERSATION, 4, M.WHOLE, 4, M.USER, 4, M.MESSAGES, 3, M.WHOLE),
    rule(S.STUFFING, 1, ANY_FIELD, 5, M.PUT),
    ban(S.SECRECY, 4, M.TELL, 2, M.THIS_STEP, 2, M.NOT),
    clauses(S.SECRECY, 4, M.TO_USER, 6, M.NOT, 4, M.TELL, strict=True),
    clauses(S.SECRECY, 4, M.TO_USER, 4, M.TELL, 1, M.NOT, strict=True),
    clauses(S.SECRECY, 4, M.TELL, 2, M.TO_USER, 2, M.NOT, strict=True),
    near(S.OTHER_TOOL, 4, M.NOT, 3, M.CALL, 3, ALIEN, 4, M.BROKEN),
    near(S.SECRECY, 5, M.COVERT, 14, M.USER),
    near(S.REDIRECT, 5, M.CHANGE | M.ALTER, 6, M.SERVICE | M.NUMBER, 8, ALIEN),
    near(S.SECRETS, 4, M.READ, 6, M.TALK | M.DATA, 8, M.SECRET, 12, M.PUT),
    clauses(S.OVERRIDE, 4, M.EARLIER, 2, M.RULES, 3, M.IGNORE),
    near(S.REDIRECT, 4, M.SEND | M.PUT, 6, M.ALL, 3, M.DATA | M.MESSAGES, 6, M.SERVICE),
    rule(S.OVERRIDE, 5, M.IGNORE, 4, M.RULES, 4, M.EARLIER),
    near(S.SECRETS, 3, M.MUST, 8, M.PERSONAL),
    rule(S.CONVERSATION, 4, M.PUT | M.SEND, 8, M.WHOLE, 8, M.TALK),
    rule(S.CONVERSATION, 4, M.USER, 3, M.WHOLE | M.EARLIER, 3, M.MESSAGES, 6, M.PUT | M.SEND),
    rule(S.CONVERSATION, 4, M.PUT | M.SEND, 3, M.USER, 4, M.WHOLE | M.EARLIER, 3, M.CONTENT | M.MESSAGES),
    clauses(S.UNCONFIRMED, 4, M.CONSENT, 2, M.USER, 2, M.NOT, 8, M.IGNORE),
    rule(S.PERSISTENCE, 4, M.STEERING, 6, M.PUT | M.WRITE),
)  # fmt: skip


_FOREIGN_WORD, _IF, _NOT = int(M.FOREIGN_WORD), int(M.IF), int(M.NOT)  # flags of enum are slow
_QUOTED, _ORDERED = int(M.QUOTED), int(M.MUST | M.BEFORE | M.WHEN | M.ALSO | M.PLEASE)
_NEGATABLE = frozenset({S.SECRETS, S.STUFFING, S.CHANNEL, S.CONVERSATION})
_QUOTABLE = frozenset({S.OVERRIDE, S.SECRECY, S.SECRETS, S.COMMAND})
"""Signs in sentences that speak of attacks: those of scanners and lessons."""


def rule_hits(read: Sentences, order: Order, purpose: int = 0) -> Iterator[Hit]:
    """Yield where the rules match in the sentences of a text whose languages have this order of words.

    ``purpose`` is what the tool is for.
    """
    for sentence in read:
        present = 0
        for _, means in sentence:
            present |= means
        foreign = bool(present & _FOREIGN_WORD)
        guarded = bool(present & _LEFT_OUT) and _keeps_secrets(sentence)
        quoted = foreign and present & _QUOTED and not present & _ORDERED
        for one in _possible(present):
            if quoted and one.sign in _QUOTABLE:
                continue
            if guarded and one.sign in _GUARDING:
                continue
            if one.beside and any(meaning & purpose for meaning, _ in one.steps):
                continue
            for first, last in _matches(one, sentence, order if foreign else "forward"):
                if foreign and one.sign in _DENIABLE and _is_denied(one, sentence, first, last):
                    continue
                if foreign and one.sign in _NEGATABLE and _negated(sentence, first, last, order):
                    continue
                yield Hit(*read.span(first, last), one.sign, one.weight)


_GUARDING = frozenset({S.SECRECY, S.REDIRECT})
_LEFT_OUT, _GUARDED = int(M.UNTOLD | M.NOT), int(M.PATH | M.SECRET)


def _keeps_secrets(words: Sequence[Word]) -> bool:
    """Return whether secrets are to be left out, as honest texts ask for."""
    left = [number for number, means in words if means & _LEFT_OUT and not means & _TELL]
    return any(means & _GUARDED and any(0 < number - one <= 3 for one in left) for number, means in words)


_DENIABLE = frozenset({S.SECRECY, S.SECRETS})
_TELL, _KEPT, _TAKEN = int(M.TELL), int(M.SECRET), int(M.READ | M.SEND | M.PUT | M.THIS_STEP)


def _is_denied(one: Rule, words: Sequence[Word], first: int, last: int) -> bool:
    """Return whether a secret is not to be sent, or not to be told: honest texts ask for that."""
    if one.sign is S.SECRETS:
        return any(
            means & _NOT and not means & _TAKEN and (0 < first - number <= 2 or 0 < number - last <= 1)
            for number, means in words
        )
    between = 0
    for number, means in words:
        between |= means if first < number < last and not means & _TELL else 0
    return one.strict and bool(between & _KEPT) and not between & _TAKEN


def _negated(words: Sequence[Word], first: int, last: int, order: Order) -> bool:
    """Return whether a match is forbidden: beside its verb there is a negation."""
    near = range(last + 1, last + 3) if order == "backward" else range(first - 2, first)
    return any(number in near and means & _NOT for number, means in words)


def _matches(one: Rule, words: Sequence[Word], order: Order) -> list[tuple[int, int]]:
    """Return the numbers of the first and the last word of each match."""
    if one.free or not (order == "forward" or one.clauses or one.strict):
        return _together(one, words)
    found = []
    if order != "backward" or one.clauses:
        found += _in_order(one, words)
    if order != "forward" and not one.clauses:
        found += _in_order(_reversed(one), words)
    if one.strict and found:
        conditions = [number for number, means in words if means & _IF and not means & _NOT]
        found = [
            (first, last)
            for first, last in found
            if not any(first - 2 <= number < last for number in conditions)
        ]
    return found


def _in_order(one: Rule, words: Sequence[Word]) -> list[tuple[int, int]]:
    """Return the matches of a rule in its order. The latest beginning is the nearest."""
    found = []
    steps = one.steps
    final = len(steps) - 1
    last: list[tuple[int, int] | None] = [None] * (final + 1)
    for number, means in words:
        for at in range(final, -1, -1):
            meaning, gap = steps[at]
            if not means & meaning:
                continue
            begun = number
            if at:
                before = last[at - 1]
                if before is None or before[0] == number or number - before[0] > gap:
                    continue
                begun = before[1]
            last[at] = (number, begun)
            if at == final:
                found.append((begun, number))
                break
    return found


def _together(one: Rule, words: Sequence[Word]) -> list[tuple[int, int]]:
    """Return the matches of a rule in any order, within as many words as its gaps have together."""
    found = []
    room = sum(gap for _, gap in one.steps) + 2
    last = [-1] * len(one.steps)
    for number, means in words:
        fitting = [at for at, (meaning, _) in enumerate(one.steps) if means & meaning]
        if not fitting:
            continue
        last[min(fitting, key=last.__getitem__)] = number
        first = min(last)
        if first >= 0 and number - first <= room:
            found.append((first, number))
    return found


@lru_cache(512)
def _reversed(one: Rule) -> Rule:
    meanings = [meaning for meaning, _ in reversed(one.steps)]
    gaps = [0, *(gap for _, gap in reversed(one.steps[1:]))]
    return Rule(one.sign, one.weight, tuple(zip(meanings, gaps, strict=True)), strict=True)


@lru_cache(8_192)
def _possible(present: int) -> tuple[Rule, ...]:
    """Return the rules that a sentence with these meanings may match."""
    found = []
    for needed, rules in _by_need().items():
        if needed & present:
            found += [one for one in rules if all(meaning & present for meaning, _ in one.steps)]
    return tuple(found)


@cache
def _by_need() -> dict[int, list[Rule]]:
    """Return the rules by the meaning that the fewest others need: most sentences lack it."""
    counts = Counter(meaning for one in RULES for meaning, _ in one.steps)
    found: dict[int, list[Rule]] = {}
    for one in RULES:
        found.setdefault(min((meaning for meaning, _ in one.steps), key=counts.__getitem__), []).append(one)
    return found
