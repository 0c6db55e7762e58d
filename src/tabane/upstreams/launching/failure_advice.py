"""Advice for each kind of failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tabane.messages import Message, say
from tabane.upstreams.launching.package_run import PackageRun
from tabane.upstreams.processes.program_hints import how_to_install

VARIABLE = r"[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,8}"
"""Names that are taken for variables: with an underscore, so that words in capitals are not."""

_NAMES = re.compile(rf"(?<![A-Za-z0-9_]){VARIABLE}(?![A-Za-z0-9_])")
_NODE_ERROR = re.compile(
    r"UNABLE_TO|SELF_SIGNED|DEPTH_ZERO|npm |unable to verify|self[- ]signed certificate in"
)


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A failed start, as advice depends on it. ``usage`` is how the program says it is called, if it does."""

    server: str
    command: str
    run: PackageRun | None
    line: str
    usage: str = ""


class Matched(Protocol):
    """The match of a rule: its text, and its named groups that are not empty."""

    @property
    def string(self) -> str: ...

    def groupdict(self) -> dict[str, str]: ...

    def __getitem__(self, name: str) -> str: ...


Advice = Callable[[Matched, FailedRun], Message]


def certificate(found: Matched, failed: FailedRun) -> Message:
    if failed.run is not None and failed.run.runner in ("docker", "podman"):
        return say(
            "The certificate is signed by an authority that {program} does not know, often that of a "
            "company's proxy. Add it to the certificates of {program}.",
            program=failed.run.runner,
        )
    return say(
        "The certificate is signed by an authority that is not known here, often that of a company's "
        "proxy. Set {variable} to the file with its certificates (PEM) and run: tabane restart",
        variable=_certificate_variable(failed),
    )


def _certificate_variable(failed: FailedRun) -> str:
    runner = failed.run.runner if failed.run else ""
    if runner == "deno":
        return "DENO_CERT"
    if "requests.exceptions" in failed.line or "HTTPSConnectionPool" in failed.line:
        return "REQUESTS_CA_BUNDLE"
    node = runner in ("npx", "bunx") or failed.command in ("node", "npx", "npm", "bunx", "bun")
    if _NODE_ERROR.search(failed.line) or node:
        return "NODE_EXTRA_CA_CERTS"
    return "CURL_CA_BUNDLE" if failed.line.startswith("curl") else "SSL_CERT_FILE"


def invalid_certificate(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The certificate has expired or belongs to another host. Check the clock of this computer and the "
        "address; a proxy may also answer in its place."
    )


def no_package(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The package {package} does not exist, or needs a sign-in. Check its name in the args of the server.",
        package=_named(found, failed),
    )


def no_version(found: Matched, failed: FailedRun) -> Message:
    return say(
        "This version does not exist. Write {package} without a version, or with one that exists.",
        package=_named(found, failed).split("==")[0],
    )


def _named(found: Matched, failed: FailedRun) -> str:
    groups = found.groupdict()
    return str(groups.get("package") or (failed.run.package if failed.run else "?"))


def no_program_in_package(found: Matched, failed: FailedRun) -> Message:
    package = _named(found, failed)
    if failed.run is not None and failed.run.runner in ("uvx", "pipx"):
        return say(
            "The package has no program of this name. Name both: uvx --from {package} PROGRAM",
            package=package,
        )
    return say(
        "The package has no program of its own name. Name both: npx -y -p {package} PROGRAM", package=package
    )


def unreachable(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The package registry cannot be reached. Check the network. Behind a proxy, set HTTPS_PROXY and "
        "run: tabane restart"
    )


def registry_trouble(found: Matched, failed: FailedRun) -> Message:
    return say("The package registry has a problem now. Start the server again later.")


def proxy_sign_in(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The proxy requires a user name and a password. Write them into its address "
        "(HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT) and run: tabane restart"
    )


def sign_in(found: Matched, failed: FailedRun) -> Message:
    where = {"npx": "~/.npmrc", "bunx": "~/.npmrc", "uvx": "UV_DEFAULT_INDEX", "docker": "docker login"}
    return say(
        "The package registry refuses the request. Check your sign-in there ({where}), and whether you may "
        "use this package.",
        where=where.get(failed.run.runner if failed.run else "", "~/.netrc"),
    )


def unreachable_service(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The server cannot reach what it works with. Check that it runs, its address in the definition of "
        "the server, and the network."
    )


def program(found: Matched, failed: FailedRun) -> Message:
    name = found["program"].rsplit("/", 1)[-1]
    return how_to_install(name) or say(
        "The program {program} was not found. Install it, and check that its folder is on PATH.", program=name
    )


def docker(found: Matched, failed: FailedRun) -> Message:
    return say("Docker is not running. Start Docker Desktop, or run: sudo systemctl start docker")


def docker_permission(found: Matched, failed: FailedRun) -> Message:
    return say("You may not use Docker. Run this command, then log in again: sudo usermod -aG docker $USER")


def node(found: Matched, failed: FailedRun) -> Message:
    return say(
        "This server needs a newer Node.js. Compare with: node --version. Install version 22 or newer, "
        "then run: tabane restart"
    )


def python(found: Matched, failed: FailedRun) -> Message:
    version = found.groupdict().get("version") or "3.13"
    return say(
        "This server needs Python {version}. If uvx starts it, write --python and {version} first into its "
        "args. To install that version, run: uv python install {version}",
        version=version,
    )


def variable(found: Matched, failed: FailedRun) -> Message:
    names = needed_variables(found.string)
    if not names:
        return key(found, failed)
    name = names[0]
    entry = f'"env": {{"{name}": "${{{name}}}"}}'
    if len(names) > 1:
        return say(
            "It needs one or more of the variables {names}. Keep each with tabane secrets set, such as: "
            "tabane secrets set {name}. Then pass it on: {entry} in the servers file, or --env {name} "
            "with tabane servers add.",
            names=", ".join(names),
            name=name,
            entry=entry,
        )
    return say(
        "It needs the variable {name}. Run: tabane secrets set {name}. Then pass it on: {entry} in the "
        "servers file, or --env {name} with tabane servers add.",
        name=name,
        entry=entry,
    )


def needed_variables(text: str) -> list[str]:
    """Return the names of variables in a text, at most four; without those that name a file instead."""
    names = list(dict.fromkeys(_NAMES.findall(text)))
    return [name for name in names if not any(name == f"{other}_FILE" for other in names)][:4]


def setting(found: Matched, failed: FailedRun) -> Message:
    return say(
        "It needs a value for {field}. Usually that is the variable {name}: keep it with "
        "tabane secrets set {name}, and pass it on with env in the servers file.",
        field=found["field"],
        name=found["field"].upper(),
    )


def key(found: Matched, failed: FailedRun) -> Message:
    return say(
        "It needs a key or a token. Its documentation names the variable. Keep the value with "
        "tabane secrets set NAME, and pass it on with env in the servers file."
    )


def argument(found: Matched, failed: FailedRun) -> Message:
    if failed.usage:
        return say(
            "It needs other arguments. Its own help says: {usage}. Write them at the end of its args.",
            usage=failed.usage.rstrip("."),
        )
    return say("It needs other arguments. Write them at the end of its args, as its documentation says.")


def port(found: Matched, failed: FailedRun) -> Message:
    return say(
        "Another program uses this port, perhaps another copy of this server. End that program, or give "
        "the server another port."
    )


def cache(found: Matched, failed: FailedRun) -> Message:
    return say("The package is not installed completely. To repair it, run: tabane doctor --fix")


def space(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The disk is full. Free some space, then run: tabane servers restart {server!c}", server=failed.server
    )


def watchers(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The system allows no more watched files. Raise the limit: "
        "sudo sysctl fs.inotify.max_user_watches=524288"
    )


def permission(found: Matched, failed: FailedRun) -> Message:
    return say(
        "You may not write or read this file. Check who owns it (a cache may belong to root): chown or "
        "chmod it."
    )


def folder(found: Matched, failed: FailedRun) -> Message:
    return say(
        "This file or folder does not exist. Create it, or fix its path in the args or env of the server."
    )


def cache_folder(found: Matched, failed: FailedRun) -> Message:
    return say("The folder of the cache cannot be used. Check the path in the setting that names it.")


def old_library(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The server was written for an earlier version of a library. If uvx starts it, write --with and "
        '"mcp<2" first into its args.'
    )


def python_module(found: Matched, failed: FailedRun) -> Message:
    name = found["module"].split(".")[0]
    if failed.run is not None and failed.run.runner == "uvx":
        return say(
            'The package does not bring the module {module}. Write --with and "mcp<2" first into its args '
            "(it may be older than that library), or --with and {module}.",
            module=name,
        )
    return say(
        "The Python that runs the server has no module {module}. Install it there, or name the Python of the "
        "right environment as the command.",
        module=name,
    )


def node_module(found: Matched, failed: FailedRun) -> Message:
    return say(
        "A module of the server is missing. Install its packages in its folder (npm install), and build it "
        "if its documentation says so."
    )


def library(found: Matched, failed: FailedRun) -> Message:
    return say("A library of the system is missing. Install it with your package manager.")


def machine(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The program is made for another kind of machine. Install the one for this system and processor."
    )


def memory(found: Matched, failed: FailedRun) -> Message:
    return say("There is not enough memory. End other programs, or give the server more memory.")


def prompt(found: Matched, failed: FailedRun) -> Message:
    return say("npx asks before it installs a package. Write -y first into the args of the server.")


def address(found: Matched, failed: FailedRun) -> Message:
    return say(
        "It serves HTTP instead of standard input and output. Give it the option for stdio (often --stdio), "
        "or start it yourself and add its URL: tabane servers add NAME URL"
    )
