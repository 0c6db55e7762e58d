"""Chromium: where it is installed, its command line, the limits of one page, and the DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_SILENT = (
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-notifications",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--no-service-autorun",
)
"""Turns off requests to the browser's vendor and features for a user at the screen."""

_NARROW = (
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-print-preview",
    "--disable-prompt-on-repost",
    "--disable-quic",
    "--disable-software-rasterizer",
    "--disable-speech-api",
    "--dns-prefetch-disable",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    # WebRTC may only use connections through a proxy. It has none, because its packets are not TCP.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=768",
    "--disk-cache-size=1",
    "--disable-features=AsyncDns,AutofillServerCommunication,CertificateTransparencyComponentUpdater,"
    "DialMediaRouteProvider,DnsOverHttps,InterestFeedContentSuggestions,LensOverlay,MediaRouter,"
    "OptimizationHints,Prerender2,SegmentationPlatform,SpeculationRulesPrefetchFuture,Translate,"
    "WebOTP,WebTransport,WebUSB,WebBluetooth",
    "--disable-blink-features=WebTransport",
)

_SHOWN = ("--headless", "--hide-scrollbars", "--window-size=1280,2400", "--lang=en")


def flags(profile: str, gate: str, port: int, agent: str, *, sandbox: bool) -> list[str]:
    """Return the arguments.

    ``gate`` is a secret name of the egress proxy. It is the only name that resolves, to ``port`` of this
    computer, so that requests that bypass the proxy setting reach nothing, not even loopback.
    """
    return [
        *_SHOWN,
        "--remote-debugging-pipe",
        "--no-startup-window",
        f"--user-data-dir={profile}",
        f"--proxy-server=http://{gate}:{port}",
        "--proxy-bypass-list=<-loopback>",
        f"--host-resolver-rules=MAP {gate} 127.0.0.1 , MAP * ~NOTFOUND",
        f"--user-agent={agent}",
        *_SILENT,
        *_NARROW,
        *(() if sandbox else ("--no-sandbox",)),
    ]


MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderLimits:
    """Limits of one rendered page. Times are seconds, sizes bytes.

    ``seconds`` is for everything, including the browser's start; ``settle`` is the time for the page to load
    and show its content, after which it is read in any case; ``patience`` is the time that a page with little
    text gets to show more, and ``scrolling`` that for all scrolls together. ``requests`` are those of the
    page to the network; ``connections`` and ``traffic`` are counted by the proxy. ``memory`` is the private
    memory of all the browser's processes together (Linux), ``html`` the characters of the result, ``nodes``
    its elements and texts. ``waiting``: pages that may wait for their turn.
    """

    seconds: float = 30.0
    settle: float = 12.0
    patience: float = 3.0
    scrolling: float = 10.0
    requests: int = 300
    connections: int = 150
    traffic: int = 30 * MB
    memory: int = 1_500 * MB
    html: int = 10 * MB
    nodes: int = 300_000
    dialogs: int = 20
    waiting: int = 4


NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
    "chrome-headless-shell",
)

# A hub that the system started seldom has the PATH that a person has.
PLACES = (
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome-stable",
    "/opt/google/chrome/chrome",
    "/usr/lib/chromium/chromium",
    "/run/current-system/sw/bin/chromium",
    "/opt/homebrew/bin/chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)


def browser(named: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the path of the browser: only the ``named`` one (path or name) if given, else the first
    installed.
    """
    path = environ.get("PATH", os.defpath)
    if named:
        return shutil.which(os.path.expanduser(named), path=path)
    paths = (shutil.which(name, path=path) for name in (*NAMES, *PLACES))
    return next((program for program in paths if program), None)


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
    """Return the expression that gives the HTML and the address; it throws a RangeError if the HTML is too
    large.
    """
    return f"{_PROGRAM}({json.dumps(characters)}, {json.dumps(nodes)})"


SCROLL = """(() => {
  let at = document.scrollingElement || document.documentElement;
  if (at.scrollHeight <= innerHeight + 1) {
    const every = document.body.getElementsByTagName("*");
    for (let n = 0; n < every.length && n < 3000; n++) {
      const one = every[n];
      if (one.scrollHeight > one.clientHeight + 1 && one.clientHeight > innerHeight / 3 &&
          /auto|scroll/.test(getComputedStyle(one).overflowY)) { at = one; break; }
    }
  }
  at.scrollTop += innerHeight;
  return {end: at.scrollTop + at.clientHeight >= at.scrollHeight - 2};
})()"""
"""The expression that scrolls a page, or what scrolls within it, by a screen; ``end``: there is no more."""


DevToolsListener = Callable[[str, dict[str, Any], str], None]
"""Handles an event: its method, its parameters, and its session ("" for the browser)."""


class BrowserGone(Exception):
    """The connection to the browser ended, or the browser sent invalid data."""


class DevToolsError(Exception):
    """The browser answered a request with an error."""


class DevToolsConnection:
    """Requests to a browser and their responses. Events are passed to ``heard`` as they come; it must not
    block.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._ended = False
        self.heard: DevToolsListener = lambda method, said, session: None
        self._listening = asyncio.create_task(self._listen())

    async def ask(self, method: str, session: str = "", **said: Any) -> dict[str, Any]:
        """Send a request and return its response. Raises BrowserGone and DevToolsError."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        number = self._send_command(method, session, said)
        self._pending[number] = answer
        try:
            return await answer
        finally:
            self._pending.pop(number, None)

    def tell(self, method: str, session: str = "", **said: Any) -> None:
        """Send a request without waiting for its response."""
        with contextlib.suppress(BrowserGone):
            self._send_command(method, session, said)

    def drop(self) -> None:
        """Send nothing more, and fail all pending requests."""
        self._ended = True
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(BrowserGone())

    async def close(self) -> None:
        """Stop listening, and close the connection."""
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()

    def _send_command(self, method: str, session: str, parameters: dict[str, Any]) -> int:
        if self._ended:
            raise BrowserGone
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writer.write(msgspec.json.encode(message) + b"\0")
        return self._number

    async def _listen(self) -> None:
        try:
            while True:
                self._take_message(msgspec.json.decode((await self._reader.readuntil(b"\0"))[:-1]))
                # A page that floods the socket with events waits here.
                await self._writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError, msgspec.DecodeError, UnicodeDecodeError):
            pass
        finally:
            self.drop()

    def _take_message(self, message: dict[str, Any]) -> None:
        if "method" in message:
            return self.heard(message["method"], message.get("params", {}), message.get("sessionId", ""))
        answer = self._pending.get(message.get("id", 0))
        if answer is not None and not answer.done():
            if "error" in message:
                answer.set_exception(DevToolsError(str(message["error"].get("message", ""))))
            else:
                answer.set_result(message.get("result", {}))
        return None
