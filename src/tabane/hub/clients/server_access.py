"""Access of a client that is connected to one server alone."""

from __future__ import annotations

from tabane.operations import Access, CallTarget


class ServerAccess:
    """An access to one server: what the identity may do there, and nothing of others or of the hub."""

    def __init__(self, inner: Access, server: str) -> None:
        self._inner, self.server = inner, server

    @property
    def holder(self) -> str:
        return self._inner.holder

    @property
    def label(self) -> str:
        return self._inner.label

    @property
    def tier(self) -> str:
        return self._inner.tier

    @property
    def everything(self) -> bool:
        return False

    @property
    def revision(self) -> int:
        return self._inner.revision

    def allows(self, target: CallTarget) -> bool:
        # A list contains nothing but what is allowed; the presence of an identity is asked of its operations.
        inside = target.server == self.server or target.kind == "list" or target.source == "hub"
        return inside and self._inner.allows(target)

    def sees_server(self, server: str) -> bool:
        return server == self.server and self._inner.sees_server(server)
