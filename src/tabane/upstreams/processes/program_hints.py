"""Ways to install the programs that servers are usually started with."""

from __future__ import annotations

from tabane.messages import Message, say

_NODE, _UV, _DOCKER = "Node.js", "uv", "Docker"
_PACKAGES = {
    "node": _NODE,
    "npm": _NODE,
    "npx": _NODE,
    "uv": _UV,
    "uvx": _UV,
    "docker": _DOCKER,
    "bun": "Bun",
    "bunx": "Bun",
    "deno": "Deno",
    "podman": "Podman",
    "git": "Git",
    "python": "Python",
    "python3": "Python",
    "pipx": "pipx",
}


def is_known_program(program: str) -> bool:
    """Return whether :func:`how_to_install` says more of the program than that it is missing."""
    return program in _PACKAGES


def how_to_install(program: str) -> Message | None:
    """Return how a program is installed, as a sentence; None if nothing is known of it."""
    package = _PACKAGES.get(program)
    if package is None:
        return None
    if package == _NODE:
        return say(
            "{program} comes with Node.js. Install version 22 or newer (nodejs.org, or your package "
            "manager), then run: tabane restart",
            program=program,
        )
    if package == _UV:
        return say(
            "{program} comes with uv. Install it (docs.astral.sh/uv, or: pipx install uv), "
            "then run: tabane restart",
            program=program,
        )
    if package == _DOCKER:
        return say("Install Docker (docs.docker.com), start it, then run: tabane restart")
    return say("Install {package}, then run: tabane restart", package=package)
