"""The request of a client that runs a script: progress of its calls, and questions about them."""

from __future__ import annotations

from msgspec import Raw

from tabane.hub.clients.session import Session
from tabane.wire import json
from tabane.wire.json import Members


class ScriptRequest:
    """A request of run_script, whose client is told of each call, and asked about some."""

    __slots__ = ("_key", "_session", "_token")

    def __init__(self, session: Session, key: bytes, meta: Members) -> None:
        self._session, self._key = session, key
        self._token = meta.get("progressToken")

    def progressed(self, ended: int, tool: str) -> None:
        """Tell the client that a call has ended, if it asked for progress."""
        if self._token is None:
            return
        note = json.encode({"progress": ended, "message": tool})
        params = Raw(json.join({**json.fields(note), "progressToken": self._token}))
        self._session.tell(json.notification_line("notifications/progress", params), self._key)

    async def ask(self, approval: str) -> bool:
        """Ask the client's user, and return when somebody has decided; False if that is not possible."""
        return await self._session.approvals.ask_within(self._key, approval)
