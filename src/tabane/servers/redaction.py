"""Secrets in the configuration of a server: detected by name, masked in fingerprints, hidden in texts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SHORTEST = 4
"""Characters below which a value is not hidden: it would be found everywhere."""

_SHORTEST_LINE = 8
_HIDDEN = "***"


class Redactor:
    """Replaces given values by ``***``, also in the forms in which JSON, URLs and base64 write them.

    The longest is replaced first, so that nothing remains of a secret that contains another. Values of
    several lines are also hidden line by line, since logs are written so. A redactor without values returns
    its input.
    """

    __slots__ = ("_texts",)

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms_of(value)}
        self._texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def text(self, text: str) -> str:
        """Return a text in which each value is replaced, in all of its spellings."""
        for form in self._texts:
            if form in text:
                text = text.replace(form, _HIDDEN)
        return text


def _forms_of(value: str) -> Iterator[str]:
    yield from _written_forms(value)
    yield from _base64_forms(value.encode("utf-8", "surrogatepass"))
    lines = value.splitlines()
    if len(lines) > 1:
        for line in lines:
            if len(line.strip()) >= _SHORTEST_LINE:
                yield from _written_forms(line.strip())


def _written_forms(value: str) -> Iterator[str]:
    import json  # these three are imported only if there is a secret to hide
    from urllib.parse import quote, quote_plus

    yield value
    for ascii_only in (True, False):
        quoted = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield quoted
        yield quoted.replace("/", "\\/")
    for percent in (quote(value, safe="", errors="replace"), quote(value, errors="replace")):
        yield percent
        yield _lower_hex(percent)
    plus = quote_plus(value, errors="replace")
    yield plus
    yield _lower_hex(plus)


def _lower_hex(text: str) -> str:
    head, *tail = text.split("%")
    return head + "".join("%" + part[:2].lower() + part[2:] for part in tail)


def _base64_forms(data: bytes) -> Iterator[str]:
    """Yield the base64 of a value at each possible offset, as in ``user:secret``."""
    import base64

    if len(data) < _SHORTEST_LINE:
        return
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode("ascii")
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        for alphabet in (whole, whole.replace("+", "-").replace("/", "_")):
            yield alphabet[first:last]


# -- secrets by name ---------------------------------------------------------------------------------

_SECRET_NAME = re.compile(
    r"(?i)(?:^|[-_.])(?:keys?|tokens?|pass|pat|auth|authorization|cookies?|credentials?)$"
    r"|secret|password|passwd|api[-_]?key|access[-_]?key|token$"
)
_MASK = "***"

_URL_SECRETS = re.compile(
    r"(?P<head>(?P<user>://[^/?#@:]*:)|[?&](?P<name>[^=&#]+)=)(?P<value>(?(user)[^/?#@]*(?=@)|[^&#]+))"
)
"""A password in a URL, and each value of its query."""


def fingerprint(transport: str, values: Mapping[str, Any]) -> str:
    """Return a hash of everything in the file that decides which tools a server lists: 32 hex digits.

    Variables count by name, not by value. A value whose name indicates a secret does not count at all, so
    that the hash reveals nothing about a secret.
    """
    parts = [
        transport,
        values.get("command"),
        [flag + (_MASK if secret else value) for flag, value, secret in _arguments(values.get("args", ()))],
        _mask_secrets(values.get("env", {})),
        values.get("cwd"),
        _masked_url(values.get("url")),
        _mask_secrets(values.get("headers", {})),
        *(part for key in ("ca", "proxy", "cert") if (part := _masked_url(values.get(key)))),
        *([["inherit", *values["inherit"]]] if values.get("inherit") else ()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def written_secrets(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values in plain text under a name such as API_KEY, ``--token`` or Authorization."""
    named = (pair for key in ("env", "headers") for pair in values.get(key, {}).items())
    found = [value for name, value in named if is_secret_name(name)]
    found += [value for _, value, secret in _arguments(values.get("args", ())) if secret]
    for url in (values.get("url", ""), values.get("proxy", "")):
        found += [
            part["value"]
            for part in _URL_SECRETS.finditer(url)
            if part["user"] or is_secret_name(part["name"])
        ]
    # Of "Bearer abc" the token is a secret too; what a variable inserts is none.
    parts = (part for value in found for part in dict.fromkeys((value, value.rpartition(" ")[2])))
    return tuple(part for part in parts if "${" not in part and len(part) >= SHORTEST)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, header or flag of that name is likely to hold a secret."""
    return _SECRET_NAME.search(name) is not None


def _mask_secrets(named: Mapping[str, str]) -> list[list[str]]:
    return sorted([name, _MASK if is_secret_name(name) else value] for name, value in named.items())


def _masked_url(url: str | None) -> str | None:
    return None if url is None else _URL_SECRETS.sub(_without_secret, url)


def _without_secret(found: re.Match[str]) -> str:
    secret = found["user"] or is_secret_name(found["name"])
    return found["head"] + (_MASK if secret else found["value"])


def _arguments(args: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield each argument as (text before the value, the value, whether its name indicates a secret)."""
    before = ""
    for argument in args:
        flag, equals, value = argument.partition("=")
        if equals and argument.startswith("-"):
            yield flag + equals, value, is_secret_name(flag)
        else:
            secret = before.startswith("-") and is_secret_name(before) and not argument.startswith("-")
            yield "", argument, secret
        before = argument
