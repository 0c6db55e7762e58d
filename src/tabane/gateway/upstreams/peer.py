"""Who is at the other end of a conversation: settled when it opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from tabane import __version__
from tabane.errors import UpstreamError
from tabane.messages import Message
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members

CLIENT = json.encode({"name": "tabane", "title": "Tabane", "version": __version__})
"""How the hub introduces itself to upstreams."""

CAPABILITIES = b'{"elicitation":{"form":{},"url":{}},"sampling":{}}'
"""What a legacy upstream that all clients share is told its client can do: questions reach the one
client whose call is in flight, where it can answer them; else they are refused with a word."""

KINDS = ("tools", "prompts", "resources")
"""What is offered in lists, each with a capability of its own."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An upstream as it introduced itself."""

    era: Era
    version: str
    name: str
    capabilities: Members
    instructions: str = ""

    def has(self, capability: str) -> bool:
        return capability in self.capabilities

    def can(self, capability: str, feature: str) -> bool:
        """Whether a capability has a feature, such as ``tools`` and ``listChanged``."""
        value = json.member(self.capabilities, capability)
        return isinstance(value, dict) and value.get(feature) is True


class Refused(UpstreamError):
    """The upstream answered with a JSON-RPC error."""

    def __init__(self, code: int, message: Message) -> None:
        super().__init__(message)
        self.code_answered = code

    @property
    def code(self) -> int:  # type: ignore[override]
        return self.code_answered


def peer_of(era: Era, version: str, result: Members, info: Any) -> Peer:
    """The peer that a result of ``server/discover`` or ``initialize`` describes."""
    name = info.get("name") if isinstance(info, dict) else None
    try:
        capabilities = json.fields(result.get("capabilities", Raw(b"{}")))
    except InvalidJson:
        capabilities = {}
    return Peer(
        era,
        version,
        name if isinstance(name, str) else "",
        capabilities,
        json.text(result.get("instructions")) or "",
    )
