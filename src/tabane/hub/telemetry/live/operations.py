"""Operations on calls as they happen: the list, one call, and figures by the second."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw

from tabane.audit.redaction import ArgumentRedactor
from tabane.errors import UnknownName
from tabane.hub.telemetry.live.live_call import HEAD, LiveCall, WatchedText
from tabane.hub.telemetry.live.parameters import GetActivity, ListLiveCalls, ShowLiveCall
from tabane.hub.telemetry.live.recording import LiveRecording
from tabane.messages import say
from tabane.operations import Caller

Hidden = tuple[Iterable[str], Callable[[str], str]]
"""Values that are secret, and what replaces them in a text."""


class LiveOperations:
    """Handlers over a recording. ``hidden`` returns the secrets of this moment."""

    def __init__(
        self, recording: LiveRecording, secret_names: tuple[str, ...], hidden: Callable[[], Hidden]
    ) -> None:
        self._recording, self._hidden = recording, hidden
        self._redactor = ArgumentRedactor(HEAD, secret_names)

    async def calls(self, caller: Caller, params: ListLiveCalls) -> dict[str, Any]:
        """Return rows, the number of the latest call, and how many run."""
        calls = self._recording.calls
        found = (call for call in calls.newest_first() if _matches(call, params))
        rows = [call.row() for call in itertools.islice(found, params.limit)]
        return {
            "results": rows,
            "last": calls.last,
            "running": calls.running,
            "since": self._recording.seconds.since,
            "event": self._recording.feed.last,
        }

    async def show(self, caller: Caller, params: ShowLiveCall) -> dict[str, Any]:
        """Return one call. Raises UnknownName if it is no longer kept."""
        call = self._recording.calls.find(params.number)
        if call is None:
            raise UnknownName(
                say(
                    "Call {number} is no longer kept. Older calls are in the audit log: tabane audit",
                    number=params.number,
                )
            )
        texts = call.arguments, call.result
        arguments, result = await asyncio.to_thread(self._without_secrets, *texts)
        return call.row() | {
            "request": call.request,
            "script": call.script,
            "steps": call.steps(),
            "arguments": arguments,
            "arguments_size": texts[0].size if texts[0] else 0,
            "result": result,
            "result_size": texts[1].size if texts[1] else 0,
        }

    async def activity(self, caller: Caller, params: GetActivity) -> dict[str, Any]:
        """Return the figures of each second."""
        return self._recording.seconds.report(params.seconds) | {"running": self._recording.calls.running}

    def _without_secrets(self, *texts: WatchedText | None) -> list[Raw | None]:
        """Return the beginnings of the texts without secrets: as JSON, or as a string if more follows."""
        self._redactor.hide(*self._hidden())
        return [
            Raw(self._redactor.redact(text.head, text.size)[0]) if text is not None and text.size else None
            for text in texts
        ]


def _matches(call: LiveCall, params: ListLiveCalls) -> bool:
    """Return whether a call fits all filters."""
    client = (params.client or "").casefold()
    who = (call.client, call.holder, call.label)
    return (
        call.number > params.after
        and params.server in (None, call.server)
        and (params.tool or "").casefold() in call.tool.casefold()
        and any(client in name.casefold() for name in who)
        and params.outcome in (None, call.outcome or "running")
    )
