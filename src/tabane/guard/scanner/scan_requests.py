"""Requests to the process that scans definitions, and its answers. The hub imports them with the first."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from tabane.guard.scanner.findings import Finding, Kind
from tabane.workers import frames


class ScanRequest(msgspec.Struct, frozen=True, array_like=True):
    """A definition of a server. ``others`` are the packed names of the tools of other servers."""

    server: str
    kind: Kind
    name: str
    definition: bytes
    others: bytes


_ENCODER = msgspec.msgpack.Encoder(enc_hook=frames.encode_message)
_REQUESTS = msgspec.msgpack.Decoder(ScanRequest)
_FINDINGS = msgspec.msgpack.Decoder(tuple[Finding, ...], dec_hook=frames.decode_message)
_NAMES = msgspec.msgpack.Decoder(tuple[str, ...])


def packed_request(request: ScanRequest) -> bytes:
    return _ENCODER.encode(request)


def packed_findings(findings: tuple[Finding, ...]) -> bytes:
    return _ENCODER.encode(findings)


def packed_names(names: Collection[str]) -> bytes:
    return _ENCODER.encode(tuple(names))


def read_request(body: bytes) -> ScanRequest:
    return _REQUESTS.decode(body)


def read_findings(body: bytes) -> tuple[Finding, ...]:
    """Return the findings of an answer. Raises msgspec.DecodeError."""
    return _FINDINGS.decode(body)


def read_names(names: bytes) -> tuple[str, ...]:
    return _NAMES.decode(names)
