"""Hides secrets by their value in whatever is shown or logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

SHORTEST = 4
"""Characters below which a value is not hidden: it would be found everywhere."""

_SHORTEST_LINE = 8
_HIDDEN = "***"


class Redactor:
    """Replaces the given values by ``***``: as they stand, and as JSON, URLs and base64 write them.

    The longest is replaced first, so that a secret that holds another leaves nothing of itself. The
    values of several lines are also hidden line by line, since logs are written so. A redactor
    without values gives back what it is given.
    """

    __slots__ = ("_bytes", "_texts")

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        self._texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._bytes = tuple(form.encode("utf-8", "surrogatepass") for form in self._texts)

    def text(self, text: str) -> str:
        for form in self._texts:
            if form in text:
                text = text.replace(form, _HIDDEN)
        return text

    def raw(self, data: bytes) -> bytes:
        """The same for bytes; hand in whole lines, since half a secret is not recognised."""
        for form in self._bytes:
            if form in data:
                data = data.replace(form, _HIDDEN.encode())
        return data


def _forms(value: str) -> Iterator[str]:
    yield from _written(value)
    yield from _base64(value.encode("utf-8", "surrogatepass"))
    lines = value.splitlines()
    if len(lines) > 1:
        for line in lines:
            if len(line.strip()) >= _SHORTEST_LINE:
                yield from _written(line.strip())


def _written(value: str) -> Iterator[str]:
    import json  # these three are imported where there is a secret to hide
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


def _base64(data: bytes) -> Iterator[str]:
    """What stands in base64 wherever the value begins in what is encoded, as in ``user:secret``."""
    import base64

    if len(data) < _SHORTEST_LINE:
        return
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode("ascii")
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        for alphabet in (whole, whole.replace("+", "-").replace("/", "_")):
            yield alphabet[first:last]
