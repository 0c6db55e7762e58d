"""A server's definition as it may be shown: what the file says without its secrets; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tabane.gateway.servers.redaction import Redactor, is_secret_name

MASK = "***"

_NAMED = ("env", "headers")
_REFERENCE = re.compile(r"(\$\{[^{}]*\})")
_SCHEME = re.compile(r"(?i)\s*(?:(?:bearer|basic|token)\s+)?")
_USER = re.compile(r"(://[^/?#@:]*:)[^/?#@]*@")
_QUERY = re.compile(r"([?&])([^=&#]+)=([^&#]+)")


def masked(definition: Mapping[str, Any], secrets: Iterable[str] = ()) -> dict[str, Any]:
    """The definition with every value of ``env`` and ``headers`` hidden, but for the variables it names.

    ``secrets`` are values that are hidden wherever they stand. Passwords in URLs and values of secret
    names in their queries are hidden as well. What is no text stays as it is.
    """
    redactor = Redactor(secrets)
    return {key: _masked(key, value, redactor) for key, value in definition.items()}


def masked_text(text: str, redactor: Redactor) -> str:
    """A text of a definition that is no value of an environment: an argument, a URL."""
    text = _USER.sub(rf"\1{MASK}@", redactor.text(text))
    return _QUERY.sub(_without_secret, text)


def masked_value(text: str) -> str:
    """A value of an environment or a header: ``Bearer ${TOKEN}`` stays, ``abc`` and ``${X:-abc}`` do not."""
    parts = _REFERENCE.split(text)
    shown = [_without_default(part) if index % 2 else _without_text(part) for index, part in enumerate(parts)]
    return "".join(shown)


def _masked(key: str, value: Any, redactor: Redactor) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: masked_value(text) if isinstance(text, str) else MASK for name, text in value.items()}
    if key in _NAMED:
        return MASK
    if isinstance(value, dict):
        return {name: _inside(name, part, redactor) for name, part in value.items()}
    return _inside(key, value, redactor)


def _inside(name: str, value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return masked_value(value) if is_secret_name(name) else masked_text(value, redactor)
    if isinstance(value, list):
        return [_inside(name, part, redactor) for part in value]
    return (
        {key: _inside(key, part, redactor) for key, part in value.items()}
        if isinstance(value, dict)
        else value
    )


def _without_text(text: str) -> str:
    return text if _SCHEME.fullmatch(text) else MASK


def _without_default(reference: str) -> str:
    name, found, default = reference.partition(":-")
    return f"{name}{found}{MASK}}}" if found and default != "}" else reference


def _without_secret(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    shown = masked_value(value) if is_secret_name(name) else value
    return f"{mark}{name}={shown}"
