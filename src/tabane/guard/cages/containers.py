"""Servers in containers: the command of docker or podman that runs the image of a server.

Everything here is pure, apart from the search of the program along PATH, and where paths lead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from shutil import which

from tabane.guard.cages.cage import CageUnavailable
from tabane.messages import say
from tabane.servers.sandbox_keys import SandboxProfile

PROGRAMS = ("docker", "podman")
"""In the order in which they are looked for."""

_ALWAYS = ("--rm", "--interactive", "--init", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
_UNBOUNDED = 1_024


def find_engine(environment: Mapping[str, str]) -> str:
    """Return the program that runs containers. Raises CageUnavailable if there is none on PATH."""
    for name in PROGRAMS:
        if which(name, path=environment.get("PATH")):
            return name
    raise CageUnavailable(
        say(
            'This server has an "image", and neither docker nor podman was found on PATH. '
            "Install one of them."
        )
    )


def container_arguments(
    image: str, command: Iterable[str], names: Iterable[str], cwd: str | None, profile: SandboxProfile | None
) -> list[str]:
    """Return the arguments with which docker or podman runs an image, with ``command`` in place of its own.

    ``names`` are the variables that it gets; their values are not among the arguments. ``cwd`` is its working
    directory, inside the container. Raises CageUnavailable if a container cannot enforce the profile.
    """
    options = [*_ALWAYS]
    for name in names:
        options += ["--env", name]
    if cwd is not None:
        options += ["--workdir", cwd]
    if profile is not None:
        options += _limits(profile)
    return ["run", *options, image, *command]


def _limits(profile: SandboxProfile) -> list[str]:
    if profile.network == "hosts":
        raise CageUnavailable(
            say("In a container, the network cannot be limited to hosts. Set network to true or false.")
        )
    if profile.hides:
        raise CageUnavailable(say('In a container, "hide" has no meaning: it sees only what is listed.'))
    options = ["--read-only", "--tmpfs", "/tmp", "--pids-limit", str(profile.processes or _UNBOUNDED)]
    if profile.network == "off":
        options += ["--network", "none"]
    if profile.memory:
        options += ["--memory", str(profile.memory)]
    if profile.cpu:
        options += ["--ulimit", f"cpu={profile.cpu}"]
    for path in profile.reads or ():
        options += ["--volume", f"{os.path.realpath(path)}:{path}:ro"]
    for path in profile.writes:
        options += ["--volume", f"{os.path.realpath(path)}:{path}"]
    return options
