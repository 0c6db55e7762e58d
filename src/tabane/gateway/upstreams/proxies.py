"""Which proxy a server at a URL is reached through, as the environment has it; pure.

    HTTP_PROXY, HTTPS_PROXY   the proxy for URLs of that scheme; ALL_PROXY where the scheme's is not set
    NO_PROXY                  hosts reached directly: names with all below them, host:port, addresses and
                              networks (10.0.0.0/8), * for all

Each name may be in lower case, which counts first. This computer is always reached directly.
"""

from __future__ import annotations

from collections.abc import Mapping

from tabane.gateway.servers.urls import is_loopback


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """The URL of the proxy, None where the server is reached directly."""
    if is_loopback(host) or _excepted(host.lower(), port, _variable("no_proxy", environ)):
        return None
    proxy = _variable(f"{scheme}_proxy", environ) or _variable("all_proxy", environ)
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _excepted(host: str, port: int, exceptions: str) -> bool:
    return any(_matches(host, port, word.strip().lower()) for word in exceptions.split(","))


def _matches(host: str, port: int, word: str) -> bool:
    if word == "*":
        return True
    if "/" in word:
        return _within(host, word)
    name, colon, digits = word.rpartition(":")
    if colon and digits.isdigit() and "]" not in digits and name.count(":") == 0:
        if int(digits) != port:
            return False
        word = name
    word = word.strip("[]").lstrip("*").lstrip(".")
    return bool(word) and (host == word or host.endswith("." + word))


def _within(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host.strip("[]")) in ip_network(network, strict=False)
    except ValueError:
        return False
