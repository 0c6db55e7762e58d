"""Requests to the process that scans definitions, and its answers. The hub imports them with the first."""

from __future__ import annotations

import msgspec

from tabane.guard.scanner.findings import Finding, Kind
from tabane.workers import frames


class ScanRequest(msgspec.Struct, frozen=True, array_like=True):
    """A definition of a server.

    ``others`` are the packed names of the tools of other servers, ``siblings`` those of the same one, which
    hubs of earlier builds do not send.
    """

    server: str
    kind: Kind
    name: str
    definition: bytes
    others: bytes
    siblings: bytes = b""


_encode = msgspec.msgpack.Encoder(enc_hook=frames.encode_message).encode
read_request = msgspec.msgpack.Decoder(ScanRequest).decode
read_findings = msgspec.msgpack.Decoder(tuple[Finding, ...], dec_hook=frames.decode_message).decode
read_names = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def packed(value: ScanRequest | tuple[Finding, ...] | tuple[str, ...]) -> bytes:
    """Return a request, the findings of an answer, or names of tools in MessagePack."""
    return _encode(value)
