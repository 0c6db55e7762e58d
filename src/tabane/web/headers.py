"""Headers of the page's answers, and the frame around an app (MCP Apps, the sandbox proxy of SEP-1865).

The headers say what a browser may load, keep and tell others. The frame is a document with an opaque
origin: the directive ``sandbox`` of its policy gives it one, however it is opened. So it is of another
origin than the page, without a second port, also behind a proxy. It puts the app into a second frame with a
third origin, which inherits its policy, and passes messages between app and page. Neither frame can read
the page, its storage or its cookies, and the policy lets no request of theirs reach the hub. Unlike the
specification, the frame itself has no ``allow-same-origin``: apps have no storage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src data: blob:",
        "connect-src 'self'",
        "frame-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content-Security-Policy: nothing inline, nothing from elsewhere, and no frame around it.

The only frame in it is the sandbox of apps (:mod:`tabane.web.headers`).
"""

SECURE: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Headers of every answer of the page."""

NOT_KEPT: Mapping[str, str] = {**SECURE, "cache-control": "no-store", "vary": "tabane-page, cookie"}
"""Headers of answers with data."""

KEPT: Mapping[str, str] = {**SECURE, "cache-control": "public, max-age=31536000, immutable"}
"""Headers of static files, whose URLs change with them."""

DOMAINS = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
"""The lists of origins in an app's ``csp``, which are also the parameters of the frame's URL."""

MOST_DOMAINS = 30
"""Origins of an app, of all lists together."""

_DOMAIN = re.compile(
    r"(?:https|wss)://(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,98}[A-Za-z0-9])?(?::\d{1,5})?/?", re.ASCII
)


def is_domain(text: str) -> bool:
    """Return whether an app may name that origin: it is encrypted, and nothing but an origin."""
    return _DOMAIN.fullmatch(text) is not None


def allowed_domains(csp: object) -> dict[str, list[str]]:
    """Return the origins of an app's ``csp`` that it gets, by list: at most :data:`MOST_DOMAINS` of them."""
    found: dict[str, list[str]] = {name: [] for name in DOMAINS}
    left = MOST_DOMAINS
    for name in DOMAINS:
        given = csp.get(name) if isinstance(csp, dict) else None
        texts = given if isinstance(given, list) else []
        found[name] = [text for text in texts if isinstance(text, str) and is_domain(text)][:left]
        left -= len(found[name])
    return found


def domains_of(parameters: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the origins of each list. Raises ValueError for anything else in the parameters."""
    found: dict[str, list[str]] = {name: [] for name in DOMAINS}
    for count, (name, value) in enumerate(parameters, 1):
        if name not in found or not is_domain(value) or count > MOST_DOMAINS:
            raise ValueError(f"{name[:40]}: an origin such as https://example.com is required")
        found[name].append(value)
    return found


def policy(domains: Mapping[str, list[str]]) -> str:
    """Return the Content-Security-Policy of an app that names these origins."""
    connects, loads, frames, bases = (" ".join(domains[name]) for name in DOMAINS)
    none = "'none'"
    return "; ".join(
        (
            "sandbox allow-scripts allow-forms",
            "default-src 'none'",
            f"script-src 'unsafe-inline' {loads}".rstrip(),
            f"style-src 'unsafe-inline' {loads}".rstrip(),
            f"img-src data: blob: {loads}".rstrip(),
            f"font-src data: {loads}".rstrip(),
            f"media-src data: blob: {loads}".rstrip(),
            f"connect-src {connects or none}",
            f"frame-src {frames or none}",
            f"base-uri {bases or none}",
            "object-src 'none'",
            "form-action 'none'",
            "frame-ancestors 'self'",
        )
    )


def headers(domains: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the headers of the frame. Only a page of the same hub may show it."""
    kept = {name: value for name, value in SECURE.items() if name != "x-frame-options"}
    return {
        **kept,
        "content-security-policy": policy(domains),
        "x-dns-prefetch-control": "off",
        "cache-control": "no-store",
    }


DOCUMENT = """<!doctype html>
<meta charset="utf-8"> <meta name="color-scheme" content="light dark"> <title>App</title> <style>html, body,
iframe { margin: 0; width: 100%; height: 100%; border: 0; display: block; background: none }</style> <script>
"use strict"; const page = window.parent; const origin = new URL(document.URL).origin; const reserved =
"ui/notifications/sandbox-"; const isReserved = (message) => typeof message?.method === "string" &&
message.method.startsWith(reserved); let view = null;

function show({ html }) {
  view = document.createElement("iframe");
  view.title = "App";
  view.setAttribute("sandbox", "allow-scripts allow-forms");
  view.srcdoc = html;
  document.body.replaceChildren(view);
}

addEventListener("message", ({ source, origin: from, data }) => {
  if (source === page && from === origin) {
    if (data?.method === `${reserved}resource-ready`) show(data.params);
    else if (!isReserved(data)) view?.contentWindow?.postMessage(data, "*");
  } else if (view && source === view.contentWindow && !isReserved(data)) {
    page.postMessage(data, origin);
  }
});

addEventListener("DOMContentLoaded", () => {
  const ready = { jsonrpc: "2.0", method: `${reserved}proxy-ready`, params: {} };
  if (page !== window) page.postMessage(ready, origin);
});
</script>
<body></body>
"""
