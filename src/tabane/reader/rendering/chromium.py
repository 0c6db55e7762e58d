"""Chromium: where it is installed, its command line, and the limits of one page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

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
"""What a browser says to its makers, and does for a person who is not there."""

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
    # WebRTC may use what goes through a proxy: none of it does, since its packets are no TCP.
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
    """Times are seconds, sizes bytes.

    ``seconds`` is for everything, with the browser's start; ``settle`` for the page to load and become
    quiet, after which it is taken as it is. ``requests`` are those of the page that leave it; ``connections``
    and ``traffic`` are counted by the proxy, as they come from the network. ``memory`` is what the browser's
    processes may hold of their own together (Linux), ``html`` the characters of the result, ``nodes`` the
    elements and texts of it. ``waiting``: pages that may wait for their turn.
    """

    seconds: float = 30.0
    settle: float = 12.0
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
    """Return the program: the one that is ``named``, by path or name, and no other; else the first there
    is.
    """
    path = environ.get("PATH", os.defpath)
    if named:
        return shutil.which(os.path.expanduser(named), path=path)
    found = (shutil.which(name, path=path) for name in (*NAMES, *PLACES))
    return next((program for program in found if program), None)
