"""Headers of the page's answers: what a browser may load, keep and tell others."""

from __future__ import annotations

from collections.abc import Mapping

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

The only frame in it is the sandbox of apps (:mod:`tabane.web.app_sandbox`).
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
