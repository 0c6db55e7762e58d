"""Causes of failed starts, read from the output of a program: the line that says why, and what to do.

Top-down: the advice for each kind of failure, the table of what programs write when they fail, the output
reduced to the lines that may say why, and the cause among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tabane.messages import Message, say
from tabane.upstreams.launching.package_run import PackageRun, package_run
from tabane.upstreams.processes.launch_errors import how_to_install

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


class Matched:
    """The match of a rule: its text, and its named groups that are not empty.

    The groups ``package2``, ``package3`` … count as ``package`` if that one is empty.
    """

    def __init__(self, found: re.Match[str]) -> None:
        self.string = found.string
        self._groups: dict[str, str] = {}
        for name, value in found.groupdict().items():
            if value:
                self._groups.setdefault(name.rstrip("0123456789"), value)

    def groupdict(self) -> dict[str, str]:
        """Return the named groups of the match."""
        return self._groups

    def __getitem__(self, name: str) -> str:
        return self._groups.get(name, "?")


Advice = Message | Callable[[Matched, FailedRun], Message]
"""Advice after a failed start: a fixed text, or one made from the program's output and its command."""


def certificate(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for a certificate that is not trusted."""
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


INVALID_CERTIFICATE = say(
    "The certificate has expired or belongs to another host. Check the clock of this computer and the "
    "address; a proxy may also answer in its place."
)


def no_package(found: Matched, failed: FailedRun) -> Message:
    return say(
        "The package {package} does not exist, or needs a sign-in. Check its name in the args of the server.",
        package=_package_name(found, failed),
    )


def no_version(found: Matched, failed: FailedRun) -> Message:
    return say(
        "This version does not exist. Write {package} without a version, or with one that exists.",
        package=_package_name(found, failed).split("==")[0],
    )


def _package_name(found: Matched, failed: FailedRun) -> str:
    groups = found.groupdict()
    return str(groups.get("package") or (failed.run.package if failed.run else "?"))


def no_program_in_package(found: Matched, failed: FailedRun) -> Message:
    package = _package_name(found, failed)
    if failed.run is not None and failed.run.runner in ("uvx", "pipx"):
        return say(
            "The package has no program of this name. Name both: uvx --from {package} PROGRAM",
            package=package,
        )
    return say(
        "The package has no program of its own name. Name both: npx -y -p {package} PROGRAM", package=package
    )


UNREACHABLE = say(
    "The package registry cannot be reached. Check the network. Behind a proxy, set HTTPS_PROXY and "
    "run: tabane restart"
)

REGISTRY_TROUBLE = say("The package registry has a problem now. Start the server again later.")

PROXY_SIGN_IN = say(
    "The proxy requires a user name and a password. Write them into its address "
    "(HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT) and run: tabane restart"
)


def sign_in(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for a registry or service that demands a sign-in."""
    where = {"npx": "~/.npmrc", "bunx": "~/.npmrc", "uvx": "UV_DEFAULT_INDEX", "docker": "docker login"}
    return say(
        "The package registry refuses the request. Check your sign-in there ({where}), and whether you may "
        "use this package.",
        where=where.get(failed.run.runner if failed.run else "", "~/.netrc"),
    )


UNREACHABLE_SERVICE = say(
    "The server cannot reach what it works with. Check that it runs, its address in the definition of "
    "the server, and the network."
)


def program(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for a program that is missing."""
    name = found["program"].rsplit("/", 1)[-1]
    return how_to_install(name) or say(
        "The program {program} was not found. Install it, and check that its folder is on PATH.", program=name
    )


DOCKER = say("Docker is not running. Start Docker Desktop, or run: sudo systemctl start docker")

DOCKER_PERMISSION = say(
    "You may not use Docker. Run this command, then log in again: sudo usermod -aG docker $USER"
)

NODE = say(
    "This server needs a newer Node.js. Compare with: node --version. Install version 22 or newer, "
    "then run: tabane restart"
)


def python(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for a version of Python that is missing."""
    version = found.groupdict().get("version") or "3.13"
    return say(
        "This server needs Python {version}. If uvx starts it, write --python and {version} first into its "
        "args. To install that version, run: uv python install {version}",
        version=version,
    )


def variable(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for a variable that is not set."""
    names = needed_variables(found.string)
    if not names:
        return KEY
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
    """Return the fix for a setting without a value."""
    return say(
        "It needs a value for {field}. Usually that is the variable {name}: keep it with "
        "tabane secrets set {name}, and pass it on with env in the servers file.",
        field=found["field"],
        name=found["field"].upper(),
    )


KEY = say(
    "It needs a key or a token. Its documentation names the variable. Keep the value with "
    "tabane secrets set NAME, and pass it on with env in the servers file."
)


def argument(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for arguments that the program does not accept."""
    if failed.usage:
        return say(
            "It needs other arguments. Its own help says: {usage}. Write them at the end of its args.",
            usage=failed.usage.rstrip("."),
        )
    return say("It needs other arguments. Write them at the end of its args, as its documentation says.")


PORT = say(
    "Another program uses this port, perhaps another copy of this server. End that program, or give "
    "the server another port."
)

CACHE = say("The package is not installed completely. To repair it, run: tabane doctor --fix")


def space(found: Matched, failed: FailedRun) -> Message:
    """Return the fix for a full disk."""
    return say(
        "The disk is full. Free some space, then run: tabane servers restart {server!c}", server=failed.server
    )


WATCHERS = say(
    "The system allows no more watched files. Raise the limit: sudo sysctl fs.inotify.max_user_watches=524288"
)

PERMISSION = say(
    "You may not write or read this file. Check who owns it (a cache may belong to root): chown or chmod it."
)

FOLDER = say(
    "This file or folder does not exist. Create it, or fix its path in the args or env of the server."
)

CACHE_FOLDER = say("The folder of the cache cannot be used. Check the path in the setting that names it.")

OLD_LIBRARY = say(
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


NODE_MODULE = say(
    "A module of the server is missing. Install its packages in its folder (npm install), and build it "
    "if its documentation says so."
)

LIBRARY = say("A library of the system is missing. Install it with your package manager.")

MACHINE = say(
    "The program is made for another kind of machine. Install the one for this system and processor."
)

MEMORY = say("There is not enough memory. End other programs, or give the server more memory.")

PROMPT = say("npx asks before it installs a package. Write -y first into the args of the server.")

ADDRESS = say(
    "It serves HTTP instead of standard input and output. Give it the option for stdio (often --stdio), "
    "or start it yourself and add its URL: tabane servers add NAME URL"
)


FailureKind = Literal[
    "tls", "package", "registry", "sign-in", "program", "docker", "node", "python", "variable", "argument",
    "port", "cache", "space", "permission", "file", "module", "library", "machine", "memory", "prompt",
    "protocol", "service", "error", "unknown",
]  # fmt: skip
"""Kind of a failure. ``error`` is a line that reports an error which no rule knows, ``unknown`` any other line."""


@dataclass(frozen=True, slots=True)
class FailureRule:
    """``runners`` limits a rule to launchers, ``beside`` to outputs that contain it; ``weak`` rules come last."""

    kind: FailureKind
    pattern: re.Pattern[str]
    advice: Advice
    runners: tuple[str, ...] = ()
    beside: str = ""
    before: int = 0
    weak: bool = False


def _rule(
    kind: FailureKind,
    pattern: str,
    words: Advice,
    *runners: str,
    beside: str = "",
    before: int = 0,
    weak: bool = False,
) -> FailureRule:
    return FailureRule(kind, re.compile(pattern, re.I), words, runners, beside, before, weak)


_BUILT_IN = r"assert|buffer|crypto|events|fs|http|https|net|os|path|stream|timers|tls|url|util|zlib"
_REFUSED = "ECONNREFUSED|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT"
_MISSING = (
    r"(?:is |are |was |be |been )?(?:not |n['o]t )(?:be |been )?(?:set|provided|found|defined|configured|specified)"
    r"|\brequired?\b|\bmissing\b|must (?:be|set|provide)|\bundefined\b|\bunset\b|cannot be empty|is empty"
    r"|(?:please|must) (?:set|provide|specify|configure)|\bneeds?\b|\bwithout\b|^set\b|\. set\b|\bno [\w ]{0,20}(?:key|token)"
)
_KEY = r"(?:api[ _-]?key|access[ _-]?token|(?:api|auth|bot|personal access)[ _-]?token|credentials|authentication)"

RULES: tuple[FailureRule, ...] = (
    # certificates
    _rule("tls", r"CERT_HAS_EXPIRED|certificate has expired|certificate expired|certificate is not valid"
          r"|Hostname mismatch|ERR_TLS_CERT_ALTNAME|NotValidForName|x509: certificate (?:has expired|is valid for)",
          INVALID_CERTIFICATE),
    _rule("tls", r"UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT"
          r"|UNABLE_TO_GET_ISSUER_CERT|CERTIFICATE_VERIFY_FAILED|invalid peer certificate|\bUnknownIssuer\b"
          r"|unable to verify the first certificate|self[- ]signed certificate in certificate chain"
          r"|Error: self[- ]signed certificate|unable to get (?:local )?issuer certificate"
          r"|x509: (?:certificate signed by unknown|certificate is not trusted|failed to verify)"
          r"|curl: \((?:60|77)\)|SSL certificate problem|server certificate verification failed",
          certificate),
    # the registry
    _rule("registry", r"\bE407\b|407 Proxy Authentication|proxy authorization required"
          r"|Proxy Authentication Required|Tunnel connection failed: 407", PROXY_SIGN_IN),
    _rule("prompt", r"Need to install the following packages|Ok to proceed\?|missing packages and no YES option",
          PROMPT),
    _rule("sign-in", r"npm (?:error|ERR!) (?:E401|E403|ENEEDAUTH)\b|could not be queried due to a lack of valid auth"
          r"|returned a 40[13] |\(40[13] (?:Unauthorized|Forbidden)\)|toomanyrequests", sign_in),
    _rule("package", r"npm (?:error|ERR!) E404: .*?'(?P<package>[^'@]{0,1}[^'@]{1,120})(?:@[^']*)?'", no_package),
    _rule("package", r"404 +The requested resource '(?P<package>@?[^'@]{1,120})(?:@[^']*)?'|npm (?:error|ERR!) E404\b"
          r"|404 +'(?P<package2>@?[^'@]{1,120})(?:@[^']*)?' is not in ", no_package),
    _rule("package", r"Because (?P<package>\S{1,120}) was not found in the (?:package registry|provided package)"
          r"|No matching distribution found for (?P<package2>\S+)|Could not find a version that satisfies"
          r"|pull access denied for (?P<package3>[^\s,]+)|repository does not exist|manifest unknown"
          r"|manifest for (?P<package4>\S+) not found|error: package \"?(?P<package5>[^\s\"]+)\"? not found"
          r"|GET \S+ - 404|npm package '(?P<package6>[^']+)' does not exist|EINVALID(?:TAG|PACKAGE)NAME"
          r"|Failed to parse: `|invalid reference format|failed to resolve$", no_package),
    _rule("package", r"No matching version found for (?P<package>@?[^\s@]+)@|\bETARGET\b|there is no version of "
          r"(?P<package2>[^\s=<>]+)|No version matching", no_version),
    _rule("package", r"could not determine executable to run|Package `(?P<package>[^`]+)` does not provide any exec"
          r"|is not provided by package `(?P<package2>[^`]+)`|No executables? (?:is|are) provided",
          no_program_in_package),
    _rule("space", r"file watchers", WATCHERS, beside="ENOSPC"),
    _rule("space", r"\bENOSPC\b|No space left on device|os error 28\b|Disk quota exceeded", space),
    _rule("registry", rf"npm (?:error|ERR!) (?:{_REFUSED}|ENOTCACHED|EIDLETIMEOUT)\b", UNREACHABLE),
    _rule("registry", r"npm (?:error|ERR!) E5\d\d\b|HTTP status server error \(5\d\d", REGISTRY_TROUBLE),
    _rule("registry", r"Failed to fetch: `?http|error sending request for url|dns error|tcp connect error"
          r"|tunnel error|failed to lookup address|network was disabled|operation timed out"
          r"|client error \(Connect\)|(?:os error 111|os error 110)\)|NewConnectionError",
          UNREACHABLE, "uvx", "pipx", "deno", "bunx"),
    _rule("registry", r"dial tcp|TLS handshake timeout|i/o timeout|request canceled while waiting",
          UNREACHABLE, "docker", "podman"),
    # installed, but not completely
    _rule("node", rf"Cannot find (?:package|module) '(?:node:)?(?:{_BUILT_IN})(?:/\w+)?'", NODE),
    _rule("cache", r"(?:Cannot find (?:module|package)|Invalid package config|ERR_MODULE_NOT_FOUND).{0,200}_npx[\\/]",
          CACHE),
    _rule("cache", r"Cannot find (?:module|package)|Unexpected end of (?:JSON )?input|ERR_INVALID_PACKAGE_CONFIG"
          r"|does not provide an export named", CACHE, "npx", beside="_npx"),
    _rule("cache", r"npm (?:error|ERR!) (?:ENOTEMPTY|EEXIST|EINTEGRITY|ECOMPROMISED|TAR_\w+)\b", CACHE),
    _rule("cache", r"^(?:/\S*/)?(?:ba|da)?sh: (?:line )?\d+: (?:exec: )?(?!node\b|npx\b|uvx?\b|python)"
          r"\S{1,120}: (?:command )?not found$|^sh: (?!node\b)\S+: command not found$", CACHE, "npx"),
    # programs and their versions
    _rule("docker", r"permission denied while trying to connect to the Docker|dial unix \S+: connect: permission denied",
          DOCKER_PERMISSION),
    _rule("docker", r"Cannot connect to the Docker daemon|Is the docker daemon running|Cannot connect to Podman"
          r"|error during connect: |docker daemon is not running|failed to connect to the docker API",
          DOCKER),
    _rule("python", r"pyenv: python(?P<version>3[\d.]*): command not found|No interpreter found for Python "
          r"(?P<version2>[\d.]+)|Failed to inspect Python|requires a different Python|Requires-Python", python),
    _rule("python", r"does not satisfy Python\s*[>=~]+\s*(?P<version>[\d.]+\d)", python),
    _rule("python", r"requires Python (?P<version>3\.\d+)|Python (?P<version2>3\.\d+)(?:\+| or (?:later|newer|higher))"
          r" is required", python),
    _rule("program", r"env: [‘'\"`]?(?P<program>[\w.+-]{1,60})[’'\"`]?: No such file", program),
    _rule("program", r"(?:^|: )(?:exec: )?(?P<program>[\w./+-]{1,120}): (?:command )?not found$", program),
    _rule("program", r"exec: \"(?P<program>[^\"]{1,60})\": executable file not found|spawn (?P<program2>[\w.+-]+) ENOENT"
          r"|No such file or directory: '(?P<program3>(?:git|npx|npm|node|uvx|uv|docker|ffmpeg|chromium|java|go))'"
          r"|(?P<program4>Git) executable not found", program),
    _rule("node", r"EBADENGINE|ERR_UNKNOWN_BUILTIN_MODULE|No such built-in module|ERR_REQUIRE_ESM"
          r"|npm does not support Node|requires Node(?:\.js)?\b|Node(?:\.js)? (?:version )?(?:>=|v?\d+).{0,20}required"
          r"|Unsupported engine|ReferenceError: (?:fetch|File|Headers|ReadableStream|CustomEvent|crypto|WebSocket)"
          r" is not defined|(?:hasOwn|structuredClone|findLast|replaceAll|toSorted|withResolvers)(?: is)? not (?:a function|defined)"
          r"|bad option: --", NODE),
    _rule("node", r"SyntaxError: (?:Unexpected (?:token|identifier|reserved word|strict mode)|Invalid regular"
          r"|Cannot use import statement)", NODE, beside="node_modules"),
    _rule("machine", r"Exec format error|cannot execute binary file|bad CPU type|does not match the detected host"
          r"|no matching manifest for|Unsupported platform|EBADPLATFORM|wrong ELF class", MACHINE),
    _rule("library", r"error while loading shared libraries|cannot open shared object file|Library not loaded"
          r"|GLIBC\w*_[\d.]+' not found|DLL load failed|version `GLIBC", LIBRARY),
    _rule("memory", r"heap out of memory|^MemoryError\b|Cannot allocate memory|Out of memory: |std::bad_alloc"
          r"|^Killed$|oom-kill", MEMORY),
    # modules of Python and Node
    _rule("module", r"'Server' object has no attribute|cannot import name '\w+' from '(?:mcp|fastmcp)[\w.]*'"
          r"|No module named '(?:mcp|fastmcp)\.[\w.]+'|unexpected keyword argument '\w+'.{0,20}FastMCP",
          OLD_LIBRARY),
    _rule("module", r"No module named '?(?P<module>[\w.-]+)'?", python_module),
    _rule("module", r"cannot import name '\w+' from '(?P<module>[\w.]+)'", python_module),
    _rule("module", r"Cannot find (?:module|package) '", NODE_MODULE),
    # files and ports
    _rule("port", r"\bEADDRINUSE\b|address already in use|port \d+ is already (?:in use|allocated)"
          r"|Only one usage of each socket|bind: address already", PORT),
    _rule("permission", r"\bEACCES\b|\bEPERM\b|os error 13\b|Errno 13\b|Errno 1\]|: permission denied"
          r"|\bEROFS\b|read-only file system|root-owned files", PERMISSION),
    _rule("permission", r"Failed to initialize cache|npm (?:error|ERR!) (?:ENOTDIR|EISDIR)", CACHE_FOLDER),
    # what is missing in the definition
    _rule("variable", r"^KeyError: '(?P<name>[A-Z][A-Z0-9_]{2,60})'$", variable, beside="environ"),
    _rule("variable", r"^(?P<field>[a-zA-Z_][\w.]{1,60})\n+\s*(?:Field required|Input should be a valid string)",
          setting, before=1),
    _rule("argument", r"the following (?:required )?arguments (?:are|were)|Missing (?:option|argument|command|parameter)\b"
          r"|missing required (?:argument|option|flag)|required (?:option|argument|flag)|unrecognized argument"
          r"|unknown (?:option|argument|flag|command)|No such option|unexpected argument|too few arguments"
          r"|not enough (?:non-option )?arguments|flag provided but not defined|as a(?:n? \S+)? argument"
          r"|(?:is|be) (?:required|provided|given)[^.]{0,40}(?:as (?:an )?argument|for stdio mode)"
          r"|invalid choice:|expected (?:one|at least one) argument", argument),
    _rule("variable", rf"{VARIABLE}", variable, before=0, beside=""),
    _rule("variable", rf"{_KEY}[\w ,'\"]{{0,30}}(?:is |are )?(?:required|missing|not (?:set|provided|found|configured)|must be)"
          rf"|(?:no|missing|provide|requires?|invalid|without)(?: an?| the| your| valid| any)?(?: \w+)? {_KEY}",
          KEY),
    _rule("service", rf"connect (?:{_REFUSED})|getaddrinfo|(?:{_REFUSED})\b|Connection refused|Name or service not known"
          r"|Could not connect|Cannot connect to host|Failed to connect to|ConnectError|connection to server at",
          UNREACHABLE_SERVICE),
    _rule("file", r"\bENOENT\b|No such file or directory|does not exist$|is not a directory|not a valid directory",
          FOLDER),
    _rule("argument", r"^(?:\[\d+\] )?usage: ", argument, weak=True),
    # a line that reports an error or asks ("is PostgreSQL running on port 5433?") is about another program
    _rule("protocol", r"^(?!.*(?:\bfatal\b|\berror\b|\brefused\b|\?\)?$)).*"
          r"(?:listening|running|serving|started|available|server)\b.{0,60}\b(?:https?://\S+|port:? ?\d{2,5})",
          ADDRESS, weak=True),
)  # fmt: skip

MISSING = re.compile(_MISSING, re.I)
"""Words that a line must contain besides a name in capitals, to be about a variable that is missing."""

NOT_FATAL = re.compile(
    r"\boptional\b|using (?:a )?(?:default|dummy)|falling back|will be disabled|ignor(?:ed|ing)|skipp", re.I
)
"""Lines that do not explain a failure."""

MOST_LINES = 100
"""Lines from the end that are read."""

MOST_CHARACTERS = 300
"""Characters of a line that are read and shown."""

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_COLORS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_BARS = re.compile(r"^ {0,6}[|+] ?(?:[|+] ?){0,4}")
"""Bars before the lines of a group of exceptions in Python."""
_BOX = re.compile(r"^\s*[│╭╰╮╯─━┃┌└┐┘├┤]+ ?|\s*[│╭╰╮╯─━┃┌└┐┘├┤]+\s*$")
_PASSWORD = re.compile(r"(?<=://)[^\s/@:]{0,80}:[^\s/@]{1,200}@")

_QUIET = re.compile(
    r"""
    \s*at\ .{0,300}:\d+:\d+\)?\s*\{?$ | \s*at\ (?:async\ )?\S+\ \( | \s*at\ <anonymous> |
    \s*[\^~]+\s*$ | \s*[\[\]{}(),;]*\s*$ | \s*\}?\s*Node\.js\ v\d | \s+throw\ | \s*\(Use\ `node |
    \s*(?:node:)?internal/\S+:\d+$ | node:\S+:\d+$ | (?:file://)?/\S+:\d+$ | Emitted\ 'error'\ event |
    \s+(?:code|errno|syscall|address|port|type|url|path|hostname|status|signal|output|pid|stdout|stderr|
      requireStack):\ | Require\ stack:$ | -\ /\S+$ | \s*Error\.captureStackTrace |
    npm\ (?:notice|warn|WARN|timing|http|info)\b | npm\ (?:error|ERR!)\s*$ |
    npm\ (?:error|ERR!)\ +(?:at\ |[a-z]+:\ ['\d]|\}|A\ complete\ log|Log\ files\ were\ not|You\ can\ rerun
      |(?:syscall|errno|path|dest|file|type|engine)\ |If\ you\ are\ behind|Note\ that\ you\ can) |
    \ *(?:Downloading|Downloaded|Building|Built|Installed|Resolved|Prepared|Updating|Updated|Audited
      |Uninstalled|Using\ Python)\ |
    (?:Run|See)\ '(?:docker|podman)\  | Unable\ to\ find\ image\  | \S+:\ Pulling\ from\ |
    [0-9a-f]{12}:\  | Digest:\ | Traceback\ \(most\ recent | The\ above\ exception\ was |
    During\ handling\ of\ the | \s*For\ further\ information\ visit\  | \s*File\ "[^"]{1,300}",\ line\ \d+ |
    [-+=_*#\s]+$
    """,
    re.X,
)
_LEVELED = re.compile(
    r"^[^A-Za-z]{0,40}(?:\S+ )?\W?(?:INFO|DEBUG|TRACE|info|debug|trace|Info|Debug"
    r"|WARN(?:ING)?|warn(?:ing)?|Warning)\b"
)
_NPM = re.compile(r"npm (?:error|ERR!) code (E[A-Z0-9_]+|[A-Z][A-Z_]+)\s*$")
_NPM_DETAIL = re.compile(
    r"npm (?:error|ERR!) +(?!(?:code|syscall|errno|path|dest|file|type|engine|notsup Actual)\b)"
    r"(?:network |notarget |nospc |notsup |\d{3} +)?(?=\S)"
)
_CAUSE = re.compile(r"^(?:\[?cause\]?: |Caused by: |[×├╰]─?▶? ?)")
_JSON_TEXT = re.compile(r'"(?:message|msg|error)"\s*:\s*"((?:[^"\\]|\\.){1,300})')


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of output. A quiet one is never shown as the reason of a failure."""

    text: str
    quiet: bool


def clean_line(line: str) -> str:
    """Return a line without control characters, frames of boxes and passwords, and not too long."""
    line = _COLORS.sub("", line[: 4 * MOST_CHARACTERS])
    line = _INVISIBLE.sub("", line)
    line = _PASSWORD.sub("***@", line)
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"


def read_output(lines: Iterable[str]) -> list[OutputLine]:
    """Return the last lines with content, in their order. A failure of npm becomes one line with its code."""
    kept = [line for line in map(clean_line, list(lines)[-MOST_LINES:]) if line.strip()]
    found: list[OutputLine] = []
    tracing = False
    for line in _npm_joined(kept):
        text = _BARS.sub("", line)
        boxed = _BOX.sub("", text)
        if not boxed.strip():
            continue
        if text.strip().startswith("Traceback (most recent call"):
            tracing = True
        elif tracing and not text[:1].isspace():
            tracing = False
        quiet = tracing or bool(_QUIET.match(text) or _LEVELED.match(text))
        found.append(OutputLine(_text_of_json_log(boxed.strip()), quiet))
    return found


def _text_of_json_log(text: str) -> str:
    """Return what an entry of a JSON log says, and a nested cause without its mark; other text as it is."""
    text = _CAUSE.sub("", text)
    if not text.startswith(("{", '"message"', '"msg"')):
        return text
    found = _JSON_TEXT.search(text)
    return found[1].replace('\\"', '"').replace("\\n", " ") if found else text


def _npm_joined(lines: Sequence[str]) -> list[str]:
    """Return lines in which the code of a failure of npm stands before what it says of it."""
    joined = list(lines)
    for at, line in enumerate(lines):
        code = _NPM.match(line)
        if code is None:
            continue
        details = ((n, _NPM_DETAIL.match(other)) for n, other in enumerate(lines[at + 1 : at + 12], at + 1))
        for number, detail in details:
            if detail is not None and not _QUIET.match(lines[number]):
                joined[at] = ""
                joined[number] = f"npm error {code[1]}: {lines[number][detail.end() :].strip()}"
                break
    return [line for line in joined if line]


TAIL = 10
"""Lines of a program's output that stay with its failure, for a person who wants more than one."""

_ERROR = re.compile(
    r"\b(?:error|fatal|failed|failure|exception|panic|cannot|could not|couldn't|unable|invalid|denied|refused"
    r"|must|please)\b|^[\w.]{0,80}(?:Error|Exception|Exit|Interrupt)\b|❌|🚨|エラー|失敗",
    re.I,
)
_EXCEPTION = re.compile(r"^(?:Uncaught )?[\w.]{0,80}(?:Error|Exception)(?: \[\w+\])?: \S")
_PROGRESS = re.compile(
    r"npm (?:notice|warn|WARN)|(?:Installed|Downloaded|Downloading|Resolved|Built|Building) "
)
_USAGE = re.compile(r"^(?:\[\d+\] )?usage:\s*(\S.*)", re.I)


@dataclass(frozen=True, slots=True)
class FailureCause:
    """``line`` is what the program wrote about the cause, ``fix`` what a person can do; None if unknown."""

    kind: FailureKind
    line: str
    fix: Message | None


class FailedStart(Message):
    """The end of a program, with the cause and the fix. ``tail`` are the last lines of its output."""

    __slots__ = ("cause", "how", "tail")

    def __init__(self, how: Message, cause: FailureCause, tail: str) -> None:
        said = cause.line.rstrip(" .:。")
        if cause.fix is None:
            super().__init__("{said} ({how})", said=said, how=how)
        else:
            super().__init__("{said} ({how}). {fix}", said=said, how=how, fix=cause.fix)
        self.how, self.cause, self.tail = how, cause, tail

    def without_log(self) -> FailedStart:
        """Return the same without the advice to look into a log, for a server that has none."""
        if self.cause.kind not in ("error", "unknown"):
            return self
        return FailedStart(self.how, FailureCause(self.cause.kind, self.cause.line, None), self.tail)


_TEMPLATES = (say("{said} ({how})"), say("{said} ({how}). {fix}"))  # for the catalog


def failure_cause(
    server: str, command: str, args: Sequence[str], stderr: Iterable[str], stdout: Iterable[str] = ()
) -> FailureCause | None:
    """Return the cause that the output shows; None if there is no output that means anything.

    ``stdout`` are lines that are not MCP. Both are untrusted, without secrets of the server, and only their
    ends are read.
    """
    lines = [*read_output(stdout), *read_output(stderr)]
    if not any(line.text for line in lines):
        return None
    run = package_run(command, args)
    program = command.rsplit("/", 1)[-1]
    usage = next((found[1] for line in reversed(lines) if (found := _USAGE.match(line.text))), "")
    for rules in (_STRONG, _WEAK):
        hit = _last_match(lines, rules, run.runner if run else "")
        if hit is None:
            continue
        at, rule, found = hit
        text = _line_to_show(lines, at)
        fix = rule.advice
        if not isinstance(fix, Message):
            fix = fix(Matched(found), FailedRun(server, program, run, text, usage))
        return FailureCause(rule.kind, text, fix)
    return _unknown(server, lines)


def failed_start(
    how: Message, server: str, command: str, args: Sequence[str], stderr: Sequence[str], stdout: Sequence[str]
) -> Message:
    """Return how a program ended together with the cause and the fix, as far as its output shows them."""
    cause = failure_cause(server, command, args, stderr, stdout)
    if cause is None:
        return how
    tail = [clean_line(line) for line in [*stdout, *stderr] if line.strip()]
    return FailedStart(how, cause, "\n".join(tail[-TAIL:]))


def cause_in(message: Message) -> FailedStart | None:
    """Return the failed start that a message tells of, itself or in one of its fields."""
    if isinstance(message, FailedStart):
        return message
    fields = (cause_in(field) for field in message.fields.values() if isinstance(field, Message))
    return next(filter(None, fields), None)


_STRONG = tuple(rule for rule in RULES if not rule.weak)
_WEAK = tuple(rule for rule in RULES if rule.weak)


def _last_match(
    lines: Sequence[OutputLine], rules: Sequence[FailureRule], runner: str
) -> tuple[int, FailureRule, re.Match[str]] | None:
    """Return the match of the last line that any rule knows; a quiet line counts only for weak rules."""
    whole = "\n".join(line.text for line in lines)
    fitting = [
        rule
        for rule in rules
        if (not rule.runners or runner in rule.runners) and (not rule.beside or rule.beside in whole)
    ]
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        if NOT_FATAL.search(line.text) or (line.quiet and not rules[0].weak):
            continue
        for rule in fitting:
            text = "\n".join(each.text for each in lines[max(0, at - rule.before) : at + 1])
            found = rule.pattern.search(text)
            if found is not None and _rule_holds(rule, text):
                return at, rule, found
    return None


def _rule_holds(rule: FailureRule, text: str) -> bool:
    """Return whether a rule's own condition holds: a name in capitals alone says nothing of a variable."""
    if rule.advice is not variable or rule.beside:
        return True
    return bool(needed_variables(text)) and MISSING.search(text) is not None


def _line_to_show(lines: Sequence[OutputLine], at: int) -> str:
    """Return the line to show: the one that matched; for a field of pydantic, the field before it as well."""
    text = lines[at].text
    if at and re.match(r"Field required|Input should be a valid", text):
        return f"{lines[at - 1].text}: {text}"
    return text


def _unknown(server: str, lines: Sequence[OutputLine]) -> FailureCause | None:
    """Return the last line that reports an error, else the last line that is not progress."""
    loud = [line.text for line in lines if not line.quiet and line.text]
    for pattern in (_EXCEPTION, _ERROR):
        for text in reversed(loud):
            if pattern.search(text):
                return FailureCause("error", text, _more(server))
    said = loud or [line.text for line in lines if not _PROGRESS.match(line.text)]
    return FailureCause("unknown", said[-1], _more(server)) if said else None


def _more(server: str) -> Message:
    return say("Everything it wrote is in its log: tabane servers logs {server!c}", server=server)
