"""The DevTools protocol over a socket: messages of JSON, each ended by a NUL.

https://chromedevtools.github.io/devtools-protocol/ has its methods and events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

Heard = Callable[[str, dict[str, Any], str], None]
"""What is done with an event: its name, what it says, and the session that it is of ("" for the browser)."""


class Gone(Exception):
    """The browser does not talk any more, or not in a way that is understood."""


class Refused(Exception):
    """The browser answered a question with an error."""


class Talk:
    """Questions to a browser and their answers; events go to ``heard`` as they come, and must not wait."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._ended = False
        self.heard: Heard = lambda method, said, session: None
        self._listening = asyncio.create_task(self._listen())

    async def ask(self, method: str, session: str = "", **said: Any) -> dict[str, Any]:
        """The answer. Raises Gone and Refused."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        number = self._send(method, session, said)
        self._asked[number] = answer
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def tell(self, method: str, session: str = "", **said: Any) -> None:
        """A question whose answer nobody waits for."""
        with contextlib.suppress(Gone):
            self._send(method, session, said)

    def drop(self) -> None:
        """Nothing more is asked, and nobody waits for an answer any longer."""
        self._ended = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(Gone())

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()

    def _send(self, method: str, session: str, said: dict[str, Any]) -> int:
        if self._ended:
            raise Gone
        self._number += 1
        message = {"id": self._number, "method": method, "params": said}
        if session:
            message["sessionId"] = session
        self._writer.write(msgspec.json.encode(message) + b"\0")
        return self._number

    async def _listen(self) -> None:
        try:
            while True:
                self._take(msgspec.json.decode((await self._reader.readuntil(b"\0"))[:-1]))
                # A page that makes events without an end waits for what is said to them.
                await self._writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError, msgspec.DecodeError, UnicodeDecodeError):
            pass
        finally:
            self.drop()

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            return self.heard(message["method"], message.get("params", {}), message.get("sessionId", ""))
        answer = self._asked.get(message.get("id", 0))
        if answer is not None and not answer.done():
            if "error" in message:
                answer.set_exception(Refused(str(message["error"].get("message", ""))))
            else:
                answer.set_result(message.get("result", {}))
        return None
