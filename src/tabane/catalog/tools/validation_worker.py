"""The process that validates arguments: ``python -m tabane.catalog.tools.validation_worker``.

Some validations would take forever. Then the hub kills the process.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from tabane.catalog.tools.argument_errors import (
    UNREADABLE,
    ValidationResult,
    compiled_from,
    decode_request,
    fault,
    fits,
    packed,
    read,
    result_of,
)
from tabane.wire.json import InvalidJson, fields, member
from tabane.workers.serving import serve

if TYPE_CHECKING:
    from jsonschema_rs import Validator as Compiled

MOST_COMPILED = 64
_LARGE = 200_000_000

_Known = tuple[dict[str, Any], "Compiled | None"]


class ValidationWorker:
    """Validates arguments, and keeps the schemas that were used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def respond(self, body: bytes) -> bytes:
        """Return the packed verdict on a packed request."""
        asked = decode_request(body)
        schema, compiled = self._get(asked.definition)
        value = read(asked.arguments)
        if compiled is None or value is UNREADABLE or fits(compiled, value):
            return packed(ValidationResult())
        return packed(result_of(fault(schema, compiled, value)))

    def _get(self, definition: bytes) -> _Known:
        known = self._known.get(definition)
        if known is None:
            schema = _schema(definition)
            known = self._known[definition] = (schema, compiled_from(schema))
            if len(self._known) > MOST_COMPILED:
                self._known.popitem(last=False)
        self._known.move_to_end(definition)
        return known


def _schema(definition: bytes) -> dict[str, Any]:
    try:
        schema = member(fields(definition), "inputSchema")
    except InvalidJson:
        return {}
    return schema if isinstance(schema, dict) else {}


if __name__ == "__main__":
    serve(ValidationWorker().respond, large=_LARGE, nice=5)
