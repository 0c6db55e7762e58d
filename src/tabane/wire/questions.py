"""Questions of servers to their clients, in the form of each era; pure.

A *legacy* server sends a request (``elicitation/create``, ``sampling/createMessage``, ``roots/list``), and
its client responds to it. A *modern* server ends the call with the result ``input_required``: it has
``inputRequests`` by key, and perhaps a ``requestState``. The client repeats the call with ``inputResponses``
under the same keys. Inside Tabane a question is a :class:`Question`, whichever server asks it.

What a client can be asked is a set of features: ``form`` and ``url`` (elicitation), ``sampling``,
``sampling.tools``, ``roots``.

Source: the specification's pages on multi round-trip requests, elicitation, sampling and roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Raw

from tabane.wire.era import LEGACY, MISSING_CAPABILITY
from tabane.wire.json import (
    InvalidJson,
    Members,
    decode,
    elements,
    encode,
    error_object,
    fields,
    join,
    quote,
    text,
)  # fmt: skip

QuestionKind = Literal["form", "url", "sampling", "roots"]
Features = frozenset[str]

METHODS: Mapping[str, str] = {
    "form": "elicitation/create",
    "url": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
ASKING = frozenset({b"tools/call", b"prompts/get", b"resources/read"})
"""Methods whose result may be ``input_required``."""

EVERYTHING: Features = frozenset({"form", "url", "sampling", "sampling.tools", "roots"})
NOTHING: Features = frozenset()
ON_PAGE: Features = frozenset({"form", "url"})
"""Questions that a person can answer without a client."""

URL_REQUIRED = -32042
"""Legacy error of a call that first needs the user to open URLs. The modern era has no such error."""

MOST_AT_ONCE = 64
"""Questions in one result."""

MOST_ROUNDS = 32
"""Times that one call may ask. A server that goes on has a fault."""

MOST_BYTES = 256 << 10
"""Bytes of the parameters of one question."""

MOST_COLONS = 16_384
"""Colons in the answers of a request: more than anything has that a person fills in."""

URLS_SINCE = LEGACY[0]
"""First version with elicitation by URL, and with sampling that has tools."""

_LONGEST_MESSAGE = 1000
FORMS_SINCE = LEGACY[1]
_NO_ELICITATION = LEGACY[2:]


class Question(NamedTuple):
    """A question of a server. ``params`` are the parameters as the server sent them."""

    kind: QuestionKind
    params: bytes

    @property
    def method(self) -> str:
        """Method of MCP that asks this kind of question."""
        return METHODS[self.kind]


class InputRequired(NamedTuple):
    """A result that asks for input. ``state`` is the JSON of ``requestState``; None if there is none."""

    questions: dict[str, Question]
    state: Raw | None


class InvalidQuestion(ValueError):
    """A question of a server does not follow the specification, or is too large."""


def question_of(method: str, params: bytes | Raw) -> Question:
    """Return the question in a request of a server. Raises InvalidQuestion."""
    given = bytes(params)
    if len(given) > MOST_BYTES:
        raise InvalidQuestion(f"{method} has more than {MOST_BYTES >> 10} KiB of parameters")
    try:
        members = fields(given)
    except InvalidJson:
        raise InvalidQuestion(f"the params of {method} are not an object") from None
    if method == "elicitation/create":
        return Question(_mode(members), given)
    if method == "sampling/createMessage":
        return Question("sampling", given)
    if method == "roots/list":
        return Question("roots", given)
    raise InvalidQuestion(f"{method[:100]} is not a question to a client")


def _mode(members: Members) -> Literal["form", "url"]:
    raw = members.get("mode")
    mode = "form" if raw is None else text(raw)
    if mode == "form":
        return "form"
    if mode == "url" and text(members.get("url")):
        return "url"
    raise InvalidQuestion("elicitation/create: mode is form, or url with a URL")


# -- the modern form -----------------------------------------------------------------------------


def input_request(question: Question) -> bytes:
    """Return a question as an entry of ``inputRequests``. The modern era has no ``elicitationId``."""
    params = question.params
    if question.kind == "url":
        params = _without_members(params, "elicitationId", "task")
    elif question.kind != "roots":
        params = _without_members(params, "task")
    return b'{"method":%b,"params":%b}' % (quote(question.method), params)


def input_required(questions: Mapping[str, Question], state: str) -> bytes:
    """Return the result that asks a modern client these questions."""
    entries = join({key: Raw(input_request(question)) for key, question in questions.items()})
    return b'{"resultType":"input_required","inputRequests":%b,"requestState":%b}' % (entries, quote(state))


def input_required_of(result: bytes | Raw) -> InputRequired:
    """Return what a result with the type ``input_required`` asks. Raises InvalidQuestion."""
    try:
        members = fields(result)
        entries = fields(members["inputRequests"]) if "inputRequests" in members else {}
        if len(entries) > MOST_AT_ONCE:
            raise InvalidQuestion(f"it asks more than {MOST_AT_ONCE} questions at once")
        found = {key: _entry(fields(entry)) for key, entry in entries.items()}
    except InvalidJson:
        raise InvalidQuestion("inputRequests is not an object of requests") from None
    state = members.get("requestState")
    if state is not None and text(state) is None:
        raise InvalidQuestion("requestState is not a string")
    if not found and state is None:
        raise InvalidQuestion("it asks for input, but not for which")
    return InputRequired(found, state)


def _entry(members: Members) -> Question:
    return question_of(text(members.get("method")) or "", members.get("params", Raw(b"{}")))


def has_too_many_members(responses: Raw) -> bool:
    """Return whether ``inputResponses`` may have so many members that reading them holds the event loop.

    A million members take seconds. Counting colons takes no time.
    """
    return len(responses) > MOST_COLONS and bytes(responses).count(b":") > MOST_COLONS


def with_responses(params: Members, responses: Mapping[str, bytes], state: Raw | None) -> Members:
    """Return the parameters of a call that is repeated with the answers."""
    again = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
    if responses:
        again["inputResponses"] = Raw(join({key: Raw(answer) for key, answer in responses.items()}))
    if state is not None:
        again["requestState"] = state
    return again


# -- the legacy form -----------------------------------------------------------------------------


def legacy_params(question: Question, version: str, new_id: Callable[[], str]) -> bytes | None:
    """Return the parameters of a request to a client of that version; None if the version cannot carry it.

    ``new_id`` makes the ``elicitationId`` that a URL needs.
    """
    if question.kind == "url":
        members = fields(question.params)
        if text(members.get("elicitationId")) is None:
            members["elicitationId"] = Raw(quote(new_id()))
            return join(members)
    if question.kind == "form" and version == FORMS_SINCE:
        return _first_form(question.params)
    return question.params


def _first_form(params: bytes) -> bytes | None:
    """Return a form as 2025-06-18 has it: without a mode, and with other lists of choices."""
    try:
        members = fields(params)
        schema = fields(members["requestedSchema"]) if "requestedSchema" in members else {}
        properties = fields(schema["properties"]) if "properties" in schema else {}
        older = {name: _first_property(part) for name, part in properties.items()}
    except InvalidJson:
        return params
    changed = {name: part for name, part in older.items() if part is not properties[name]}
    if any(part is None for part in changed.values()):
        return None
    if not changed and "mode" not in members:
        return params
    members.pop("mode", None)
    if changed:
        merged = {**properties, **{name: part for name, part in changed.items() if part is not None}}
        members["requestedSchema"] = Raw(join({**schema, "properties": Raw(join(merged))}))
    return join(members)


def _first_property(part: Raw) -> Raw | None:
    """Return a property in 2025-06-18; None if that cannot express it, which is a choice of several."""
    members = fields(part)
    if text(members.get("type")) == "array":
        return None
    titles = _titles(members)
    if not titles:
        return part
    for name in ("oneOf", "anyOf"):
        members.pop(name, None)
    members["type"] = Raw(b'"string"')
    members["enum"] = Raw(encode([value for value, _ in titles]))
    members["enumNames"] = Raw(encode([title for _, title in titles]))
    return Raw(join(members))


def _titles(members: Members) -> list[tuple[str, str]]:
    """Return values and titles of a choice of texts as 2025-11-25 writes it; none if it is something else."""
    try:
        options = decode(members.get("oneOf") or members.get("anyOf") or Raw(b"[]"))
        found = [(option["const"], option.get("title", option["const"])) for option in options]
    except (InvalidJson, KeyError, TypeError, AttributeError):
        return []
    return (
        [(value, str(title)) for value, title in found] if all(isinstance(v, str) for v, _ in found) else []
    )


def first_form_answer(question: Question, answer: Raw) -> Raw:
    """Return a client's answer to a form in 2025-06-18, with values where it gives the titles of choices.

    That revision calls titles names, and some clients send the name that the person chose.
    """
    try:
        result, schema = fields(answer), fields(fields(question.params)["requestedSchema"])
        content, properties = fields(result["content"]), fields(schema["properties"])
        values = {
            name: {title: value for value, title in reversed(_titles(fields(part)))}
            for name, part in properties.items()
            if name in content
        }
    except (InvalidJson, KeyError):
        return answer
    chosen = {name: text(content[name]) or "" for name in values}
    meant = {
        name: Raw(quote(values[name][title]))
        for name, title in chosen.items()
        if title in values[name] and title not in values[name].values()
    }
    if not meant:
        return answer
    return Raw(join({**result, "content": Raw(join({**content, **meant}))}))


# -- what a client can be asked ------------------------------------------------------------------


def features_of(capabilities: Members, version: str | None = None) -> Features:
    """Return what a client with these capabilities can be asked. Without a version it is a modern one."""
    found: set[str] = set()
    elicitation = _object(capabilities.get("elicitation"))
    if elicitation is not None and version not in _NO_ELICITATION:
        found |= {mode for mode in ("form", "url") if mode in elicitation} or {"form"}
        if version == FORMS_SINCE:
            found.discard("url")
            found.add("form")
    sampling = _object(capabilities.get("sampling"))
    if sampling is not None:
        found.add("sampling")
        if "tools" in sampling and version in (None, URLS_SINCE):
            found.add("sampling.tools")
    if _object(capabilities.get("roots")) is not None:
        found.add("roots")
    return frozenset(found)


def capabilities_of(features: Iterable[str]) -> bytes:
    """Return the capabilities that declare these features, as JSON; always the same text for the same."""
    names = frozenset(features)
    found: dict[str, Any] = {}
    if modes := [mode for mode in ("form", "url") if mode in names]:
        found["elicitation"] = {mode: {} for mode in modes}
    if "roots" in names:
        found["roots"] = {}
    if names & {"sampling", "sampling.tools"}:
        found["sampling"] = {"tools": {}} if "sampling.tools" in names else {}
    return encode(found)


def missing(question: Question, features: Features) -> str | None:
    """Return the feature that a client lacks to be asked a question; None if it can be asked."""
    if question.kind not in features:
        return question.kind
    if question.kind == "sampling" and "sampling.tools" not in features:
        members = fields(question.params)
        if "tools" in members or "toolChoice" in members:
            return "sampling.tools"
    return None


def required_capabilities(questions: Iterable[Question]) -> Any:
    """Return the capabilities that an error names as missing."""
    return decode(capabilities_of(question.kind for question in questions))


def missing_capability(lacking: Features, error: bytes | Raw) -> bytes:
    """Return the modern error of a call that failed with an error because its client lacks these features."""
    try:
        said = text(fields(error).get("message")) or ""
    except InvalidJson:
        said = ""
    message = f"the client does not declare {', '.join(sorted(lacking))}, which the call needs. {said}"
    needed = {"requiredCapabilities": decode(capabilities_of(lacking))}
    return error_object(MISSING_CAPABILITY, message.rstrip()[:_LONGEST_MESSAGE], needed)


def urls_required(error: bytes | Raw) -> dict[str, Question]:
    """Return the URLs that a legacy error wants to be opened, by elicitation id; {} for another error."""
    try:
        members = fields(error)
        if members.get("code") != Raw(b"%d" % URL_REQUIRED):
            return {}
        entries = list(map(fields, elements(fields(members["data"])["elicitations"])))
        found = {
            (text(entry.get("elicitationId")) or ""): Question(_mode(entry), join(entry)) for entry in entries
        }
    except (InvalidJson, InvalidQuestion, KeyError):
        return {}
    usable = all(key and question.kind == "url" for key, question in found.items())
    return found if usable and len(found) <= MOST_AT_ONCE else {}


def _object(raw: Raw | None) -> Members | None:
    try:
        return fields(raw) if raw is not None else None
    except InvalidJson:
        return None


def _without_members(params: bytes, *names: str) -> bytes:
    members = fields(params)
    kept = {key: value for key, value in members.items() if key not in names}
    return params if len(kept) == len(members) else join(kept)
