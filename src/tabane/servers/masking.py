"""Definitions of servers as they may be shown: secrets masked, and put back when an edited one returns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.servers.redaction import Redactor, is_secret_name

MASK = "***"
"""Text that is shown instead of a secret."""

_NAMED = ("env", "headers")
_VALUES = ("fixed", "default")
_REFERENCE = re.compile(r"(\$\{[^{}]*\})")
_SCHEME = re.compile(r"(?i)\s*(?:(?:bearer|basic|token)\s+)?")
_USER = re.compile(r"(://[^/?#@:]*:)[^/?#@]*@")
_QUERY = re.compile(r"([?&])([^=&#]+)=([^&#]+)")


def masked(definition: Mapping[str, Any], secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Return the definition with all values of ``env`` and ``headers`` hidden, except names of variables.

    ``secrets`` are values that are hidden everywhere, as are passwords and secret query values in URLs.
    Values that are not text stay unchanged.
    """
    redactor = Redactor(secrets)
    return {key: _mask_member(key, value, redactor) for key, value in definition.items()}


def masked_text(text: str, redactor: Redactor) -> str:
    """Mask a text that is not a value of an environment, such as an argument or a URL."""
    text = _USER.sub(rf"\1{MASK}@", redactor.text(text))
    return _QUERY.sub(_without_secret, text)


def masked_value(text: str) -> str:
    """Mask a value of an environment or header: ``Bearer ${TOKEN}`` stays, ``abc`` does not."""
    parts = _REFERENCE.split(text)
    return "".join(
        _without_default(part) if index % 2 else part if _SCHEME.fullmatch(part) else MASK
        for index, part in enumerate(parts)
    )


def _mask_member(key: str, value: Any, redactor: Redactor) -> Any:
    if key in _NAMED and isinstance(value, dict):
        return {name: masked_value(text) if isinstance(text, str) else MASK for name, text in value.items()}
    if key in _NAMED:
        return MASK
    if isinstance(value, dict):
        return {name: _mask_part(name, part, redactor) for name, part in value.items()}
    return _mask_part(key, value, redactor)


def _mask_part(name: str, value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return masked_value(value) if is_secret_name(name) else masked_text(value, redactor)
    if isinstance(value, list):
        return [_mask_part(name, part, redactor) for part in value]
    if not isinstance(value, dict):
        return value
    # Of a parameter with a value, its own name says whether that is a secret.
    values = _VALUES if is_secret_name(name) else ()
    return {key: _mask_part(name if key in values else key, part, redactor) for key, part in value.items()}


def _without_default(reference: str) -> str:
    name, found, default = reference.partition(":-")
    return f"{name}{found}{MASK}}}" if found and default != "}" else reference


def _without_secret(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    shown = masked_value(value) if is_secret_name(name) else value
    return f"{mark}{name}={shown}"


# -- an edited definition ------------------------------------------------------------------------------

_HIDES = re.compile(r"(?:^|[=: ])\*\*\*(?:$|[@&])")
"""A masked value, alone or as the end of an argument. Three asterisks inside a pattern are none."""


def unmasked(
    definition: Mapping[str, Any], written: Mapping[str, Any], secrets: Iterable[str] = ()
) -> dict[str, Any]:
    """Return an edited definition with the secrets of the one that it replaces, and the order of its keys.

    ``definition`` was made of what :func:`masked` showed of ``written`` with these ``secrets``. A text that
    is still as it was shown becomes what was written. Arguments are matched by their text, also if others
    were added before them.

    Raises BadArguments if a changed text contains a mask, because the value that it hides is unknown.
    """
    found = _restore_part(definition, dict(written), masked(written, secrets), "")
    assert isinstance(found, dict)
    return found


def _restore_part(given: Any, written: Any, shown: Any, place: str) -> Any:
    if given == shown:
        return written
    if isinstance(given, Mapping):
        before = written if isinstance(written, dict) and isinstance(shown, dict) else {}
        names = [*(name for name in before if name in given), *(name for name in given if name not in before)]
        return {
            name: _restore_part(
                given[name],
                before.get(name, _NEW),
                shown[name] if name in before else _NEW,
                f"{place}.{name}" if place else name,
            )
            for name in names
        }
    if isinstance(given, list):
        return list(_restore_items(given, written, shown, place))
    if isinstance(given, str) and _HIDES.search(given):
        raise BadArguments(
            say('"{key}" contains ***, which stands for a hidden value. Enter the whole value.', key=place),
            place.partition(".")[0].partition("[")[0],
        )
    return given


def _restore_items(given: Sequence[Any], written: Any, shown: Any, place: str) -> Iterator[Any]:
    """Yield the items. Those that stayed are aligned, so that ``***`` is the value behind the same flag."""
    known = list(zip(shown, written, strict=True)) if isinstance(written, list) else []
    stayed = _align_items([text for text, _ in known], given)
    for index, item in enumerate(given):
        at = stayed.get(index)
        # A mask alone says nothing: only the flag before it says which value it hides.
        if at is not None and (item != MASK or stayed.get(index - 1, -1) == at - 1):
            yield known[at][1]
        else:
            yield _restore_part(item, _NEW, _NEW, f"{place}[{index}]")


def _align_items(shown: Sequence[Any], given: Sequence[Any]) -> dict[int, int]:
    """Return the positions in ``given`` that are positions in ``shown``: the same items in the same order."""
    if max(len(shown), len(given)) > MOST_ALIGNED:
        return {at: at for at, pair in enumerate(zip(given, shown, strict=False)) if pair[0] == pair[1]}
    from difflib import SequenceMatcher

    before, after = ([repr(item) for item in items] for items in (shown, given))
    blocks = SequenceMatcher(None, before, after, False)
    return {
        block.b + step: block.a + step for block in blocks.get_matching_blocks() for step in range(block.size)
    }


MOST_ALIGNED = 500
"""Items up to which lists are compared whole. In a longer list, an item stays only at its position."""

_NEW: Any = object()
"""Stands for what did not exist before."""
