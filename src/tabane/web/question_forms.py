"""Forms of questions: the schema of an elicitation as fields, the answer that they say, and links; pure.

The schema is the restricted JSON Schema of MCP: members without nesting, which are texts, numbers, booleans
or choices. One that says more is shown as the form of a tool's arguments is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.web.form_values import FilledField, FormArguments, FormValues, arguments_of, filled, values_of
from tabane.web.schema_fields import SchemaField, read_schema

_ADDRESS = re.compile(r"(https?://)(\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#\\@:\[\]<>%]{1,253})(:\d{1,5})?([/?#].*)?")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\<>\"\u2028\u2029\ud800-\udfff]|\s")
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[::1\]|.*\.localhost", re.IGNORECASE)

LinkWarning = Literal["odd", "foreign", "unencrypted"]


def question_field(schema: object) -> SchemaField:
    """Return the fields of a question's schema."""
    return read_schema(_with_choices(schema))


def question_form(schema: object) -> FilledField:
    """Return the form of a question, filled with the defaults of its schema."""
    form = question_field(schema)
    return filled(form, values_of(form, _defaults(schema)))


def answer_of(schema: object, values: FormValues) -> tuple[FormArguments, FilledField]:
    """Return the content that a form says, and the form with what is wrong with it."""
    form = question_field(schema)
    read = arguments_of(form, values)
    wrong = {each.path: found for each in form.fields if (found := _misformed(each, read.arguments))}
    read = FormArguments(read.arguments, {**wrong, **read.errors})
    return read, filled(form, values, read.errors)


@dataclass(frozen=True, slots=True)
class ShownLink:
    """A link in parts: ``before`` and ``after`` its host. It may be opened if ``href`` is not empty.

    ``ascii`` is the host as a browser looks it up, if that is not how it is written.
    """

    before: str
    host: str
    after: str
    href: str = ""
    ascii: str = ""
    warnings: tuple[LinkWarning, ...] = ()


def shown_link(url: str) -> ShownLink:
    """Return a link so that a person sees where it leads.

    Python and browsers read odd URLs differently. One with user names, backslashes, spaces or control
    characters, or of another scheme, is shown as a text that cannot be opened.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None or _UNSAFE.search(url) or shown_controls(url) != url:
        return ShownLink(url, "", "", warnings=("odd",))
    scheme, host, port, rest = found.groups("")
    try:
        looked_up = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return ShownLink(url, "", "", warnings=("odd",))
    warnings: list[LinkWarning] = []
    if "xn--" in looked_up.lower():
        warnings.append("foreign")
    if scheme == "http://" and not _LOCAL.fullmatch(host):
        warnings.append("unencrypted")
    return ShownLink(scheme, host, port + rest, url, looked_up if looked_up != host else "", tuple(warnings))


def _with_choices(schema: object) -> object:
    """Return a schema whose lists of choices have each choice once, and whose choices have their titles."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return schema
    members = {key: _with_titles(part) for key, part in schema["properties"].items()}
    return {**schema, "properties": members}


def _with_titles(part: object) -> object:
    if not isinstance(part, dict):
        return part
    if part.get("type") == "array":
        return {**part, "uniqueItems": True}
    values, names = part.get("enum"), part.get("enumNames")
    if isinstance(values, list) and isinstance(names, list) and len(values) == len(names):
        # As in 2025-06-18. Later revisions have oneOf.
        titled = [{"const": value, "title": name} for value, name in zip(values, names, strict=True)]
        return {**{key: value for key, value in part.items() if key != "enum"}, "oneOf": titled}
    return part


def _defaults(schema: object) -> dict[str, Any]:
    named = schema.get("properties") if isinstance(schema, dict) else None
    parts = named if isinstance(named, dict) else {}
    return {
        key: part["default"] for key, part in parts.items() if isinstance(part, dict) and "default" in part
    }


def _misformed(field: SchemaField, content: Mapping[str, Any]) -> Message | None:
    """Return what is wrong with a text that has a format."""
    text = content.get(field.key)
    if field.kind != "text" or not isinstance(text, str):
        return None
    match field.format:
        case "email" if not _EMAIL.fullmatch(text):
            return say("Enter an email address.")
        case "uri" if not _URI.fullmatch(text):
            return say("Enter a complete URL, such as https://example.com/.")
        case "date" if not _parses(date, text):
            return say("Enter a date such as 2026-11-30.")
        case "date-time" if not _parses(datetime, text) or "T" not in text.upper():
            return say("Enter a date and a time, such as 2026-11-30T09:00:00Z.")
    return None


def _parses(kind: type[date], text: str) -> bool:
    try:
        kind.fromisoformat(text)
    except ValueError:
        return False
    return True
