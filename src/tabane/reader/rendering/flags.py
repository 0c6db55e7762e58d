"""The command line of a browser that keeps nothing, asks nobody and goes out by one gate alone. Pure."""

from __future__ import annotations

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
    """The arguments. ``gate`` is a name that nobody else knows: of all names it alone leads anywhere, to
    ``port`` of this computer, so that what does not ask a proxy gets nowhere either, not even to loopback.
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
