"""Messages between the index and the process that analyzes texts for it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tabane.engine.query_plans import JoinedAnalysis


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
