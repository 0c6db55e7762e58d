"""Answers to questions of servers: whether they fit, and how a person's answer becomes one; pure.

Of a form, only what is cheap to check is checked: names, types, choices and bounds. The server that asked
checks the rest (``pattern``, ``format``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Raw

from tabane.wire.json import InvalidJson, decode, encode
from tabane.wire.questions import Question

AnswerAction = Literal["accept", "decline", "cancel"]
ACTIONS = ("accept", "decline", "cancel")

MOST_BYTES = 4 << 20
"""Bytes of one answer."""

MOST_CHECKED = 256
"""Properties of a form that are checked; the server checks further ones."""


class AnswerMismatch(ValueError):
    """An answer does not fit its question; the text says why."""


def check_answer(question: Question, answer: bytes | Raw) -> None:
    """Raise AnswerMismatch if an answer is not one to that question."""
    if len(answer) > MOST_BYTES:
        raise AnswerMismatch(f"it has more than {MOST_BYTES >> 20} MiB")
    try:
        content = decode(answer)
    except InvalidJson:
        raise AnswerMismatch("it is not JSON") from None
    if not isinstance(content, dict):
        raise AnswerMismatch("it is not an object")
    _CHECKS[question.kind](question, content)


def answer_of(question: Question, action: AnswerAction, content: Any) -> bytes | None:
    """Return a person's answer as a result; None if the question is refused and its kind has no such result.

    ``content`` are the values of a form, the text or the whole message of a sampling, or a list of URIs.
    Raises AnswerMismatch.
    """
    result: Any
    if question.kind in ("form", "url"):
        result = {"action": action}
        if action == "accept" and question.kind == "form":
            result["content"] = {} if content is None else content
    elif action != "accept":
        return None
    elif question.kind == "sampling":
        result = _message(content)
    elif isinstance(content, list):
        result = {"roots": [{"uri": each} if isinstance(each, str) else each for each in content]}
    else:
        result = content
    answer = encode(result)
    check_answer(question, answer)
    return answer


def _message(content: Any) -> Any:
    if isinstance(content, dict) and isinstance(content.get("text"), str) and "role" not in content:
        content = content["text"]
    if isinstance(content, str):
        block = {"type": "text", "text": content}
        return {"role": "assistant", "content": block, "model": "human", "stopReason": "endTurn"}
    return content


# -- checks --------------------------------------------------------------------------------------


def _check_elicitation(question: Question, given: dict[str, Any]) -> None:
    if given.get("action") not in ACTIONS:
        raise AnswerMismatch("action: accept, decline or cancel")
    if given["action"] == "accept" and question.kind == "form":
        content = given.get("content", {})
        if not isinstance(content, dict):
            raise AnswerMismatch("content: an object with the values of the form")
        schema = decode(question.params).get("requestedSchema")
        if isinstance(schema, dict):
            _check_form(schema, content)


def _check_sampling(question: Question, given: dict[str, Any]) -> None:
    if given.get("role") not in ("assistant", "user"):
        raise AnswerMismatch("role: assistant")
    if not isinstance(given.get("content"), dict | list):
        raise AnswerMismatch("content: a block, or a list of them")
    if not isinstance(given.get("model"), str):
        raise AnswerMismatch("model: the name of the model")


def _check_roots(question: Question, given: dict[str, Any]) -> None:
    roots = given.get("roots")
    if not isinstance(roots, list) or not all(
        isinstance(root, dict) and isinstance(root.get("uri"), str) for root in roots
    ):
        raise AnswerMismatch("roots: a list of objects with a URI")


_CHECKS: Mapping[str, Callable[[Question, dict[str, Any]], None]] = {
    "form": _check_elicitation,
    "url": _check_elicitation,
    "sampling": _check_sampling,
    "roots": _check_roots,
}


def _check_form(schema: dict[str, Any], content: dict[str, Any]) -> None:
    required, properties = schema.get("required"), schema.get("properties")
    for name in required[:MOST_CHECKED] if isinstance(required, list) else []:
        if isinstance(name, str) and name not in content:
            raise AnswerMismatch(f"content.{name}: it is required")
    if not isinstance(properties, dict):
        return
    for name, part in list(properties.items())[:MOST_CHECKED]:
        if name in content and isinstance(part, dict):
            _check_value(f"content.{name}", part, content[name])


def _check_value(path: str, part: dict[str, Any], value: Any) -> None:
    kind = part.get("type")
    types = _TYPES.get(kind) if isinstance(kind, str) else None
    if types is not None and (
        not isinstance(value, types) or (kind != "boolean" and isinstance(value, bool))
    ):
        raise AnswerMismatch(f"{path}: {kind}")
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        raise AnswerMismatch(f"{path}: integer")
    if kind == "array":
        choices = _choices(part.get("items"))
        if choices is not None and any(each not in choices for each in value):
            raise AnswerMismatch(f"{path}: one or more of {_list_choices(choices)}")
    elif (choices := _choices(part)) is not None and value not in choices:
        raise AnswerMismatch(f"{path}: one of {_list_choices(choices)}")
    if isinstance(value, bool):
        return
    size = len(value) if isinstance(value, str | list) else value
    ends = _ENDS.get(type(value))
    if ends is None:
        return
    least, most = part.get(ends[0]), part.get(ends[1])
    if isinstance(least, int | float) and size < least:
        raise AnswerMismatch(f"{path}: {ends[0]} {least}")
    if isinstance(most, int | float) and size > most:
        raise AnswerMismatch(f"{path}: {ends[1]} {most}")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "array": (list,),
}
_ENDS: Mapping[type, tuple[str, str]] = {
    str: ("minLength", "maxLength"),
    int: ("minimum", "maximum"),
    float: ("minimum", "maximum"),
    list: ("minItems", "maxItems"),
}


def _choices(part: Any) -> list[Any] | None:
    """Return the values that a property may have; None if it may have any."""
    if not isinstance(part, dict):
        return None
    if isinstance(part.get("enum"), list):
        return list(part["enum"])
    for name in ("oneOf", "anyOf"):
        options = part.get(name)
        if isinstance(options, list) and all(isinstance(one, dict) and "const" in one for one in options):
            return [one["const"] for one in options]
    return None


def _list_choices(choices: list[Any]) -> str:
    shown = ", ".join(str(choice)[:40] for choice in choices[:10])
    return f"{shown}, …" if len(choices) > 10 else shown
