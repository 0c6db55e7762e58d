"""Faults of arguments against an upstream's schema, each with the schema's line for it.

Arguments pass if they cannot be judged: if the schema does not compile, refers to a remote ``$ref`` (nothing
is ever fetched) or names an unknown dialect, or if the arguments are not plain JSON. The upstream judges
those itself. Nothing is coerced, and formats are not asserted.

A hostile schema can make any function here run for hours. Callers must have proven that this one cannot
(``validation``), or run in a process that may be killed (``validation_worker``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from tabane.catalog.tools.schemas import literal
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.text.cutting import shortened
from tabane.text.nearest_names import nearest
from tabane.workers import frames

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError
    from jsonschema_rs import Validator as Compiled


_MOST_ERRORS = 3
_MOST_READ = 32
_SCHEMA = 240
_MOST_NAMES = 20
# A regular expression that ran out of steps says nothing about the value.
_UNJUDGED = ("BacktrackLimitExceeded", "RegexEngineFailure", "Referencing")

UNREADABLE = object()
"""Stands for arguments that are not plain JSON."""


def read(arguments: bytes | msgspec.Raw) -> Any:
    """Return arguments as a value; UNREADABLE if they are not plain JSON."""
    try:
        return msgspec.json.decode(arguments or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return UNREADABLE


def fits(compiled: Compiled, value: Any) -> bool:
    """Return whether a value fits, or cannot be judged."""
    try:
        return compiled.is_valid(value)
    except BaseException as error:
        _ignore_library_error(error)
        return True


def fault(schema: dict[str, Any], compiled: Compiled, value: Any) -> BadArguments | None:
    """Return the fault of a value; None if there is none, or if that is not known.

    Its message names up to three offending parameters, each with the problem and the schema's line for it.
    Its ``parameter`` is the path of the first.
    """
    faults = _faults(compiled, value)
    return _bad_arguments(schema, faults) if faults else None


def compiled_from(schema: dict[str, Any]) -> Compiled | None:
    """Compile the schema in the dialect that it names, otherwise 2020-12; None if it does not compile."""
    # Imported here: it takes 8 MB, and direct calls are never checked.
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, validate_formats=False)
    except BaseException as error:
        _ignore_library_error(error)
        return None


def _faults(compiled: Compiled, value: Any) -> list[ValidationError]:
    """Return the faults of the value, those about missing or unknown parameters first."""
    try:
        errors = list(islice(compiled.iter_errors(value), _MOST_READ))
    except BaseException as error:
        _ignore_library_error(error)
        return []
    judged = [error for error in errors if type(error.kind).__name__ not in _UNJUDGED]
    return sorted(judged, key=lambda error: error.kind.name not in ("required", "additionalProperties"))


def _ignore_library_error(error: BaseException) -> None:
    """Ignore an error of the library, and no other error."""
    # A panic inside the compiled library derives from BaseException, so a plain handler would miss it.
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def _refuse(uri: str) -> NoReturn:
    raise LookupError(uri)


def _bad_arguments(schema: dict[str, Any], faults: list[ValidationError]) -> BadArguments:
    problems = list(islice(_problems(schema, faults), _MOST_ERRORS))
    message = problems[-1][1]
    for _, problem in reversed(problems[:-1]):
        message = say("{problem}\n{others}", problem=problem, others=message)
    return BadArguments(message, problems[0][0] or None)


def _problems(schema: dict[str, Any], faults: Iterable[ValidationError]) -> Iterator[tuple[str, Message]]:
    """Yield each fault as (path of the parameter, description). One fault may name several parameters."""
    for fault in faults:
        place = _subschema(schema, fault.schema_path[:-1])
        details = fault.kind.as_dict()
        if fault.kind.name == "required":
            yield _missing(fault, place, details["property"])
        elif fault.kind.name in ("additionalProperties", "unevaluatedProperties"):
            for name in details["unexpected"]:
                yield _unknown(fault, place, name)
        elif fault.kind.name == "falseSchema":
            path = _path(fault.instance_path)
            yield path, say("{parameter}: not accepted here.", parameter=path)
        else:
            path = _path(fault.instance_path)
            problem = _describe_fault(fault, details)
            names = [step for step in fault.instance_path if isinstance(step, str)]
            line = _schema_line(names[-1] if names else "arguments", place)
            yield (
                path,
                say("{parameter}: {problem} Schema: {line}", parameter=path, problem=problem, line=line),
            )


def _missing(fault: ValidationError, place: Any, name: str) -> tuple[str, Message]:
    path = _path([*fault.instance_path, name])
    member = _members(place).get(name)
    if member is None:
        return path, say("{parameter}: required, but missing.", parameter=path)
    line = _schema_line(name, member)
    return path, say("{parameter}: required, but missing. Schema: {line}", parameter=path, line=line)


def _unknown(fault: ValidationError, place: Any, name: str) -> tuple[str, Message]:
    path = _path([*fault.instance_path, name])
    members = _members(place)
    if near := nearest(name, members, 1):
        line = _schema_line(near[0], members[near[0]])
        return path, say(
            "{parameter}: there is no such parameter. Did you mean {near}? Schema: {line}",
            parameter=path,
            near=near[0],
            line=line,
        )
    names = ", ".join(list(members)[:_MOST_NAMES]) or "–"
    return path, say(
        "{parameter}: there is no such parameter. Parameters: {names}.", parameter=path, names=names
    )


def _describe_fault(fault: ValidationError, details: dict[str, Any]) -> Message:
    """Describe the fault of a value in a sentence."""
    value = literal(fault.instance)
    name = fault.kind.name
    if name == "type":
        kinds = "|".join(str(kind) for kind in details.get("types", ()))
        return say("{value} is not of type {kinds}.", value=value, kinds=kinds)
    if name == "enum":
        options = shortened(", ".join(literal(option) for option in details["options"]), _SCHEMA)
        return say("{value} is not one of {options}.", value=value, options=options)
    if name in _LIMITS and "limit" in details:
        return _LIMITS[name](value, details["limit"])
    if name == "pattern":
        pattern = shortened(str(details.get("pattern")), _SCHEMA)
        return say("{value} does not match the pattern {pattern}.", value=value, pattern=pattern)
    if name in ("anyOf", "oneOf"):
        return say("{value} matches none of the alternatives.", value=value)
    return say("{value} is not valid ({rule}).", value=value, rule=name)


_LIMITS: dict[str, Callable[[str, object], Message]] = {
    "maximum": lambda value, limit: say(
        "{value} is greater than the maximum of {limit}.", value=value, limit=limit
    ),
    "minimum": lambda value, limit: say(
        "{value} is less than the minimum of {limit}.", value=value, limit=limit
    ),
    "exclusiveMaximum": lambda value, limit: say("{value} is not below {limit}.", value=value, limit=limit),
    "exclusiveMinimum": lambda value, limit: say("{value} is not above {limit}.", value=value, limit=limit),
    "maxLength": lambda value, limit: say(
        "{value} is longer than {limit} {limit:character|characters}.", value=value, limit=limit
    ),
    "minLength": lambda value, limit: say(
        "{value} is shorter than {limit} {limit:character|characters}.", value=value, limit=limit
    ),
    "maxItems": lambda value, limit: say(
        "{value} has more than {limit} {limit:item|items}.", value=value, limit=limit
    ),
    "minItems": lambda value, limit: say(
        "{value} has fewer than {limit} {limit:item|items}.", value=value, limit=limit
    ),
}


def _schema_line(name: str, schema: Any) -> str:
    """Return a member as the schema contains it, cut at 240 characters."""
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return shortened(f"{json.dumps(name, ensure_ascii=False)}: {text}", _SCHEMA)


def _path(steps: Iterable[str | int]) -> str:
    """Format a path: ``edits[0].old_text``; ``arguments`` if the fault is about all of them."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.lstrip(".") or "arguments"


def _members(schema: Any) -> dict[str, Any]:
    members = schema.get("properties") if isinstance(schema, dict) else None
    return members if isinstance(members, dict) else {}


def _subschema(schema: Any, steps: Iterable[str | int]) -> Any:
    """Return the part of the schema at a path; an empty one if there is none."""
    for step in steps:
        try:
            schema = schema[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return schema


class ValidationRequest(msgspec.Struct, frozen=True, array_like=True):
    """A tool's definition, as the upstream gave it, and arguments for it, both as JSON."""

    definition: bytes
    arguments: bytes


class ValidationResult(msgspec.Struct, frozen=True, array_like=True):
    """The fault; no message if there is none, or if it cannot be judged."""

    message: Message | None = None
    parameter: str | None = None

    @property
    def error(self) -> BadArguments | None:
        return BadArguments(self.message, self.parameter) if self.message is not None else None


def result_of(error: BadArguments | None) -> ValidationResult:
    """Return a verdict: the error, or that the arguments are valid."""
    return ValidationResult(error.message, error.parameter) if error else ValidationResult()


_ENCODER = msgspec.msgpack.Encoder(enc_hook=frames.encode_message)
_CASES = msgspec.msgpack.Decoder(ValidationRequest)
_VERDICTS = msgspec.msgpack.Decoder(ValidationResult, dec_hook=frames.decode_message)


def packed(value: ValidationRequest | ValidationResult) -> bytes:
    """Return a request or a verdict as bytes, as it passes between hub and worker."""
    return _ENCODER.encode(value)


def decode_request(body: bytes) -> ValidationRequest:
    """Return a request. Raises msgspec.DecodeError."""
    return _CASES.decode(body)


def decode_result(body: bytes) -> ValidationResult:
    """Read a verdict. Raises msgspec.DecodeError."""
    return _VERDICTS.decode(body)
