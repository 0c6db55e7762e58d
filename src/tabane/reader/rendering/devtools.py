"""The DevTools protocol over a socket (JSON messages, each ended by a NUL), and the DOM snapshot.

https://chromedevtools.github.io/devtools-protocol/ has its methods and events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec

_PROGRAM = r"""
(function (mostCharacters, mostNodes) {
  const VOID = new Set("area base br col embed hr img input link meta source track wbr".split(" "));
  const RAW = new Set(["style", "xmp", "plaintext"]);
  const LEFT = new Set(["noscript", "iframe", "object", "frame", "frameset"]);
  const text = data => data.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const value = data => data.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");
  const written = ["<!DOCTYPE html>"];
  let characters = 0, nodes = 0;
  const write = piece => {
    characters += piece.length;
    if (characters > mostCharacters) throw new RangeError("large");
    written.push(piece);
  };
  const children = element => {
    if (element.shadowRoot) return element.shadowRoot.childNodes;
    if (element.localName === "slot" && element.getRootNode() instanceof ShadowRoot) {
      const assigned = element.assignedNodes();
      if (assigned.length) return assigned;
    }
    return element.childNodes;
  };
  const open = element => {
    const name = element.localName;
    let tag = "<" + name;
    for (const {name: key, value: said} of element.attributes) tag += ` ${key}="${value(said)}"`;
    write(tag + ">");
    if (VOID.has(name)) return false;
    if (RAW.has(name)) { write(element.textContent); return true; }
    return true;
  };
  const skipped = element => {
    const name = element.localName;
    if (name === "template" || LEFT.has(name)) return true;
    const type = (element.getAttribute("type") || "").trim().toLowerCase();
    return name === "script" && type !== "application/ld+json";
  };
  const rest = [document.documentElement];
  while (rest.length) {
    const node = rest.pop();
    if (typeof node === "string") { write(node); continue; }
    if (++nodes > mostNodes) throw new RangeError("large");
    if (node.nodeType === 3) { write(text(node.data)); continue; }
    if (node.nodeType !== 1 || skipped(node)) continue;
    if (node.localName === "script") {
      const said = node.textContent;
      if (!/<\/script/i.test(said)) write(`<script type="application/ld+json">${said}</script>`);
      continue;
    }
    if (!open(node)) continue;
    rest.push(`</${node.localName}>`);
    if (RAW.has(node.localName)) continue;
    const inner = children(node);
    if (nodes + inner.length > mostNodes) throw new RangeError("large");
    for (let at = inner.length - 1; at >= 0; at--) rest.push(inner[at]);
  }
  return {url: document.location.href, html: written.join("").toWellFormed()};
})"""


def program(characters: int, nodes: int) -> str:
    """Return the expression that makes the HTML and tells the address; a RangeError where it is too large."""
    return f"{_PROGRAM}({json.dumps(characters)}, {json.dumps(nodes)})"


DevToolsListener = Callable[[str, dict[str, Any], str], None]
"""What is done with an event: its name, what it says, and the session that it is of ("" for the browser)."""


class BrowserGone(Exception):
    """The browser does not talk any more, or not in a way that is understood."""


class DevToolsError(Exception):
    """The browser answered a question with an error."""


class DevToolsConnection:
    """Questions to a browser and their answers; events go to ``heard`` as they come, and must not wait."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._ended = False
        self.heard: DevToolsListener = lambda method, said, session: None
        self._listening = asyncio.create_task(self._listen())

    async def ask(self, method: str, session: str = "", **said: Any) -> dict[str, Any]:
        """Return the answer. Raises Gone and Refused."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        number = self._send(method, session, said)
        self._asked[number] = answer
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def tell(self, method: str, session: str = "", **said: Any) -> None:
        """A question whose answer nobody waits for."""
        with contextlib.suppress(BrowserGone):
            self._send(method, session, said)

    def drop(self) -> None:
        """Nothing more is asked, and nobody waits for an answer any longer."""
        self._ended = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(BrowserGone())

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()

    def _send(self, method: str, session: str, said: dict[str, Any]) -> int:
        if self._ended:
            raise BrowserGone
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
                answer.set_exception(DevToolsError(str(message["error"].get("message", ""))))
            else:
                answer.set_result(message.get("result", {}))
        return None
