"""The roles of a tool's parameters, the form of its results, and whether its server is a memory of texts.

All of it is guessed from names and descriptions, as labels are. A wrong guess costs a question or a weaker
reason: what counts as known and what asks is decided by :mod:`tabane.guard.flows.flow_rule`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from tabane.guard.flows.tool_labels import (
    DescribedTool,
    LabelTable,
    ServerFacts,
    labels_of_tool,
    tool_words,
    words_of,
)
from tabane.servers.labels import EXTERNAL, PRIVATE

Role = Literal["recipient", "place", "object", "content", "value", "option"]
"""What an argument is for. ``recipient``: who gets something. ``place``: where it goes on the network.
``object``: what is read, changed or deleted. ``content``: text that is sent or stored. ``value``: what else
says what is done, such as an amount. ``option``: how it is done, or the caller's own side."""

ResultForm = Literal["records", "text"]
"""``records``: a list of the user's records, such as mails or events, whose fields its server filled.
``text``: the text of a page, file or command; also everything unknown."""


class ToolRoles(NamedTuple):
    """The roles of a tool's own parameters; ``memory``: its server keeps texts and gives them back later."""

    parameters: dict[str, Role]
    result: ResultForm
    memory: bool

    def role(self, name: str) -> Role:
        """Return the role of a parameter, or of any key inside an argument."""
        return self.parameters.get(name) or role_of_parameter(name)


NO_ROLES = ToolRoles({}, "text", False)

_LONGEST_NAME, _LONGEST_MEANING, _LONGEST_DESCRIPTION = 64, 200, 500
_LETTERS = frozenset(("email", "emails", "mail", "mails"))
"""An ``email_id`` is that of a mail, and no address."""

_MEANINGS: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("option", re.compile(r"^(?:the|your) (?:current |authenticated )?user'?s (?:own )?\w+ ?e-?mail", re.I)),
    (
        "recipient",
        re.compile(
            r"\b(?:recipients?|payees?|beneficiary|iban|e-?mail address(?:es)?|phone numbers?|usernames?|"
            r"(?:sen[dt]|deliver|share|invite|forward|transfer|pay)\w*(?: \w+){0,2} (?:to|with)|"
            r"destinatari[oa]s?|destinataires?|empfänger\w*)\b|宛先|受信者|送信先|送り先|共有相手|收件人|수신자",
            re.I,
        ),
    ),
    ("place", re.compile(r"\b(?:urls?|uris?|web ?hooks?|endpoint|hostname|web address)\b", re.I)),
    ("object", re.compile(r"\b(?:ids?|identifiers?|paths?|filename|name) (?:of|to|for)\b", re.I)),
    ("content", re.compile(r"\b(?:content|text|body|message|subject|title|description)\b|本文|内容", re.I)),
)
"""What descriptions of parameters say, for names that say nothing."""


@lru_cache(1 << 12)
def role_of_parameter(name: str, meaning: str = "") -> Role:
    """Return the role of a parameter by its name, or else by its description."""
    named = words_of(name[:_LONGEST_NAME])
    known = _roles()
    if meaning and _MEANINGS[0][1].search(meaning[:_LONGEST_MEANING]):
        return "option"
    if (found := known.get("_".join(named))) is not None:
        return found
    if not named or named[0] in tool_words("parameters", "option_starts"):
        return "option" if named else _role_of_meaning(meaning)
    rest, ends = list(named), tool_words("parameters", "ends")
    while len(rest) > 1 and rest[-1] in ends:
        rest.pop()
    found = known.get(rest[-1])
    if named[-1] in ("url", "urls", "uri"):
        return "place"
    if named[-1] in ("id", "ids"):
        return found if found in ("recipient", "place") and rest[-1] not in _LETTERS else "object"
    if found is None and len(rest) < len(named):
        found = known.get(named[-1])
    return found or _role_of_meaning(meaning)


@lru_cache(1)
def _roles() -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for role in ("recipient", "place", "object", "content", "option"):
        for word in tool_words("parameters", role):
            roles.setdefault(word, role)
    return roles


def _role_of_meaning(meaning: str) -> Role:
    text = meaning[:_LONGEST_MEANING]
    return next((role for role, pattern in _MEANINGS if pattern.search(text)), "value")


def roles_of_tool(tool: DescribedTool, server: ServerFacts, table: LabelTable) -> ToolRoles:
    """Return what a tool's parameters are for, how its results look, and whether it is of a memory."""
    meanings = tool.meanings or ("",) * len(tool.parameters)
    parameters = {
        name: role_of_parameter(name, meaning)
        for name, meaning in zip(tool.parameters, meanings, strict=True)
    }
    bits = labels_of_tool(tool, server, table).bits
    said = tool.words | set(words_of(tool.description[:_LONGEST_DESCRIPTION]))
    for name, role in parameters.items():
        if role == "object" and _reaches_somebody(name, said, bits):
            parameters[name] = "recipient"
    form = _result_form(tool, parameters) if bits & PRIVATE and not bits & EXTERNAL else "text"
    return ToolRoles(parameters, form, keeps_texts(tool, server, table))


def _reaches_somebody(name: str, said: set[str] | frozenset[str], bits: int) -> bool:
    """Return whether a parameter that may name a thing names a phone, or where data goes."""
    last = words_of(name)[-1:]
    if last == ["number"]:
        return bool(said & tool_words("parameters", "phoning"))
    return bool(bits & EXTERNAL) and last in (["destination"], ["target"], ["dest"])


def _result_form(tool: DescribedTool, parameters: dict[str, Role]) -> ResultForm:
    named = tool.words
    if "place" in parameters.values() or named & tool_words("results", "texts"):
        return "text"
    if named & tool_words("results", "opening"):
        said = set(words_of(tool.description[:_LONGEST_DESCRIPTION])) | named
        return "records" if said & tool_words("results", "letters") else "text"
    if named & tool_words("results", "opened") and not named & {"list", "search", "find", "query"}:
        return "text"
    return "records" if named & tool_words("results", "records") else "text"


def keeps_texts(tool: DescribedTool, server: ServerFacts, table: LabelTable) -> bool:
    """Return whether a tool's server is a memory: what is written there is given back to whoever reads it."""
    known = table.find(server)
    if known is not None:
        return known.memory
    if tool.words & tool_words("memory", "not_memory"):
        return False
    terms = tool_words("memory", "tools")
    if tool.words & terms or any(term in tool.name for term in terms if not term.isascii()):
        return True
    if "knowledge graph" in tool.description[:_LONGEST_DESCRIPTION].lower():
        return True
    started = {part for word in (server.name, *server.words) for part in words_of(word[-_LONGEST_NAME:])}
    return bool(started & tool_words("memory", "servers"))
