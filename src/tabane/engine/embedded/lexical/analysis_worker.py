"""The process that analyzes texts of a bulk: ``python -m tabane.engine.embedded.lexical.analysis_worker``.

Analyzing texts takes more time than storing them. In the hub's own process it would also hold the
interpreter, for which all clients wait.
"""

from __future__ import annotations

from tabane.engine.embedded.lexical.analysis_requests import packed_answer, read_request
from tabane.engine.query_plans import RecordAnalyzer, japanese
from tabane.search.records import Shape, TextField
from tabane.workers.serving import serve


class AnalysisWorker:
    """Analyzes texts, and keeps the analyzer of each list of names."""

    def __init__(self) -> None:
        self._dictionary = japanese()
        self._analyzers: dict[tuple[str, ...], RecordAnalyzer] = {}

    def respond(self, body: bytes) -> bytes:
        """Analyze the texts of a request; answer None if its fingerprint is that of another analyzer."""
        request = read_request(body)
        analyzer = self._analyzers.get(request.names)
        if analyzer is None:
            shape = Shape("texts", tuple(map(TextField, request.names)))
            analyzer = self._analyzers[request.names] = RecordAnalyzer(shape, self._dictionary)
        if analyzer.fingerprint != request.fingerprint:
            return packed_answer(None)
        return packed_answer([analyzer.joined(texts) for texts in request.texts])


if __name__ == "__main__":
    serve(AnalysisWorker().respond, nice=5)
