"""The process that analyzes texts of a bulk, and its messages.

It is started as ``python -m tabane.engine.embedded.lexical.analysis_worker``.

Analyzing texts takes more time than storing them. In the hub's own process it would also hold the
interpreter, for which all clients wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tabane.engine.query_plans import JoinedAnalysis, RecordAnalyzer, japanese
from tabane.search.records import Shape, TextField
from tabane.workers.serving import serve


class AnalysisRequest(msgspec.Struct, frozen=True, array_like=True):
    """The texts of some records. ``names`` are the texts of their shape.

    ``fingerprint`` is that of the analyzer that the index was built with.
    """

    names: tuple[str, ...]
    fingerprint: str
    texts: Sequence[Mapping[str, str]]


_REQUEST = msgspec.msgpack.Decoder(AnalysisRequest)
_ANSWER: msgspec.msgpack.Decoder[list[dict[str, str]] | None] = msgspec.msgpack.Decoder(
    list[dict[str, str]] | None
)
_ENCODER = msgspec.msgpack.Encoder()


def packed_request(request: AnalysisRequest) -> bytes:
    """Encode a request in MessagePack."""
    return _ENCODER.encode(request)


def read_request(body: bytes) -> AnalysisRequest:
    """Decode a request. Raises msgspec.DecodeError."""
    return _REQUEST.decode(body)


def packed_answer(analyses: Sequence[JoinedAnalysis] | None) -> bytes:
    """Encode the analyses of a request, None if the process would analyze it differently."""
    return _ENCODER.encode(analyses)


def read_answer(body: bytes) -> list[dict[str, str]] | None:
    """Return the analyses. Raises msgspec.DecodeError."""
    return _ANSWER.decode(body)


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
