"""The process that scans long definitions: ``python -m tabane.guard.scanner.scan_worker``.

A text can be made so that a rule takes very long. Then the hub kills the process.
"""

from __future__ import annotations

from tabane.guard.scanner.scan_requests import packed, read_names, read_request
from tabane.guard.scanner.scanner import DefinitionScanner
from tabane.workers.serving import serve

_LARGE = 200_000_000


class ScanWorker:
    """Scans definitions. It keeps the names of the last request, because those of a list are the same."""

    def __init__(self) -> None:
        self._scanner = DefinitionScanner()
        self._packed, self._others = b"", tuple[str, ...]()
        self._packed_siblings, self._siblings = b"", tuple[str, ...]()

    def respond(self, body: bytes) -> bytes:
        """Return the findings in the definition of a request, both packed."""
        request = read_request(body)
        if request.others != self._packed:
            self._packed, self._others = request.others, read_names(request.others)
        if request.siblings != self._packed_siblings:
            self._packed_siblings, self._siblings = request.siblings, read_names(request.siblings)
        return packed(
            self._scanner.scan(
                request.server,
                request.kind,
                request.name,
                request.definition,
                self._others,
                self._siblings,
            )
        )


if __name__ == "__main__":
    serve(ScanWorker().respond, large=_LARGE, nice=5)
