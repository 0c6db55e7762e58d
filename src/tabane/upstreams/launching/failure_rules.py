"""The table of what programs write when they fail, and what it means.

A rule matches one line; ``before`` lines before it are joined to it. Of several lines, the last one that
matches counts, and for one line the first rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tabane.upstreams.launching import failure_advice as advice
from tabane.upstreams.launching.failure_advice import VARIABLE, Advice

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
          advice.invalid_certificate),
    _rule("tls", r"UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT"
          r"|UNABLE_TO_GET_ISSUER_CERT|CERTIFICATE_VERIFY_FAILED|invalid peer certificate|\bUnknownIssuer\b"
          r"|unable to verify the first certificate|self[- ]signed certificate in certificate chain"
          r"|Error: self[- ]signed certificate|unable to get (?:local )?issuer certificate"
          r"|x509: (?:certificate signed by unknown|certificate is not trusted|failed to verify)"
          r"|curl: \((?:60|77)\)|SSL certificate problem|server certificate verification failed",
          advice.certificate),
    # the registry
    _rule("registry", r"\bE407\b|407 Proxy Authentication|proxy authorization required"
          r"|Proxy Authentication Required|Tunnel connection failed: 407", advice.proxy_sign_in),
    _rule("prompt", r"Need to install the following packages|Ok to proceed\?|missing packages and no YES option",
          advice.prompt),
    _rule("sign-in", r"npm (?:error|ERR!) (?:E401|E403|ENEEDAUTH)\b|could not be queried due to a lack of valid auth"
          r"|returned a 40[13] |\(40[13] (?:Unauthorized|Forbidden)\)|toomanyrequests", advice.sign_in),
    _rule("package", r"npm (?:error|ERR!) E404: .*?'(?P<package>[^'@]{0,1}[^'@]{1,120})(?:@[^']*)?'", advice.no_package),
    _rule("package", r"404 +The requested resource '(?P<package>@?[^'@]{1,120})(?:@[^']*)?'|npm (?:error|ERR!) E404\b"
          r"|404 +'(?P<package2>@?[^'@]{1,120})(?:@[^']*)?' is not in ", advice.no_package),
    _rule("package", r"Because (?P<package>\S{1,120}) was not found in the (?:package registry|provided package)"
          r"|No matching distribution found for (?P<package2>\S+)|Could not find a version that satisfies"
          r"|pull access denied for (?P<package3>[^\s,]+)|repository does not exist|manifest unknown"
          r"|manifest for (?P<package4>\S+) not found|error: package \"?(?P<package5>[^\s\"]+)\"? not found"
          r"|GET \S+ - 404|npm package '(?P<package6>[^']+)' does not exist|EINVALID(?:TAG|PACKAGE)NAME"
          r"|Failed to parse: `|invalid reference format|failed to resolve$", advice.no_package),
    _rule("package", r"No matching version found for (?P<package>@?[^\s@]+)@|\bETARGET\b|there is no version of "
          r"(?P<package2>[^\s=<>]+)|No version matching", advice.no_version),
    _rule("package", r"could not determine executable to run|Package `(?P<package>[^`]+)` does not provide any exec"
          r"|is not provided by package `(?P<package2>[^`]+)`|No executables? (?:is|are) provided",
          advice.no_program_in_package),
    _rule("space", r"file watchers", advice.watchers, beside="ENOSPC"),
    _rule("space", r"\bENOSPC\b|No space left on device|os error 28\b|Disk quota exceeded", advice.space),
    _rule("registry", rf"npm (?:error|ERR!) (?:{_REFUSED}|ENOTCACHED|EIDLETIMEOUT)\b", advice.unreachable),
    _rule("registry", r"npm (?:error|ERR!) E5\d\d\b|HTTP status server error \(5\d\d", advice.registry_trouble),
    _rule("registry", r"Failed to fetch: `?http|error sending request for url|dns error|tcp connect error"
          r"|tunnel error|failed to lookup address|network was disabled|operation timed out"
          r"|client error \(Connect\)|(?:os error 111|os error 110)\)|NewConnectionError",
          advice.unreachable, "uvx", "pipx", "deno", "bunx"),
    _rule("registry", r"dial tcp|TLS handshake timeout|i/o timeout|request canceled while waiting",
          advice.unreachable, "docker", "podman"),
    # installed, but not completely
    _rule("node", rf"Cannot find (?:package|module) '(?:node:)?(?:{_BUILT_IN})(?:/\w+)?'", advice.node),
    _rule("cache", r"(?:Cannot find (?:module|package)|Invalid package config|ERR_MODULE_NOT_FOUND).{0,200}_npx[\\/]",
          advice.cache),
    _rule("cache", r"Cannot find (?:module|package)|Unexpected end of (?:JSON )?input|ERR_INVALID_PACKAGE_CONFIG"
          r"|does not provide an export named", advice.cache, "npx", beside="_npx"),
    _rule("cache", r"npm (?:error|ERR!) (?:ENOTEMPTY|EEXIST|EINTEGRITY|ECOMPROMISED|TAR_\w+)\b", advice.cache),
    _rule("cache", r"^(?:/\S*/)?(?:ba|da)?sh: (?:line )?\d+: (?:exec: )?(?!node\b|npx\b|uvx?\b|python)"
          r"\S{1,120}: (?:command )?not found$|^sh: (?!node\b)\S+: command not found$", advice.cache, "npx"),
    # programs and their versions
    _rule("docker", r"permission denied while trying to connect to the Docker|dial unix \S+: connect: permission denied",
          advice.docker_permission),
    _rule("docker", r"Cannot connect to the Docker daemon|Is the docker daemon running|Cannot connect to Podman"
          r"|error during connect: |docker daemon is not running|failed to connect to the docker API",
          advice.docker),
    _rule("python", r"pyenv: python(?P<version>3[\d.]*): command not found|No interpreter found for Python "
          r"(?P<version2>[\d.]+)|Failed to inspect Python|requires a different Python|Requires-Python", advice.python),
    _rule("python", r"does not satisfy Python\s*[>=~]+\s*(?P<version>[\d.]+\d)", advice.python),
    _rule("python", r"requires Python (?P<version>3\.\d+)|Python (?P<version2>3\.\d+)(?:\+| or (?:later|newer|higher))"
          r" is required", advice.python),
    _rule("program", r"env: [‘'\"`]?(?P<program>[\w.+-]{1,60})[’'\"`]?: No such file", advice.program),
    _rule("program", r"(?:^|: )(?:exec: )?(?P<program>[\w./+-]{1,120}): (?:command )?not found$", advice.program),
    _rule("program", r"exec: \"(?P<program>[^\"]{1,60})\": executable file not found|spawn (?P<program2>[\w.+-]+) ENOENT"
          r"|No such file or directory: '(?P<program3>(?:git|npx|npm|node|uvx|uv|docker|ffmpeg|chromium|java|go))'"
          r"|(?P<program4>Git) executable not found", advice.program),
    _rule("node", r"EBADENGINE|ERR_UNKNOWN_BUILTIN_MODULE|No such built-in module|ERR_REQUIRE_ESM"
          r"|npm does not support Node|requires Node(?:\.js)?\b|Node(?:\.js)? (?:version )?(?:>=|v?\d+).{0,20}required"
          r"|Unsupported engine|ReferenceError: (?:fetch|File|Headers|ReadableStream|CustomEvent|crypto|WebSocket)"
          r" is not defined|(?:hasOwn|structuredClone|findLast|replaceAll|toSorted|withResolvers)(?: is)? not (?:a function|defined)"
          r"|bad option: --", advice.node),
    _rule("node", r"SyntaxError: (?:Unexpected (?:token|identifier|reserved word|strict mode)|Invalid regular"
          r"|Cannot use import statement)", advice.node, beside="node_modules"),
    _rule("machine", r"Exec format error|cannot execute binary file|bad CPU type|does not match the detected host"
          r"|no matching manifest for|Unsupported platform|EBADPLATFORM|wrong ELF class", advice.machine),
    _rule("library", r"error while loading shared libraries|cannot open shared object file|Library not loaded"
          r"|GLIBC\w*_[\d.]+' not found|DLL load failed|version `GLIBC", advice.library),
    _rule("memory", r"heap out of memory|^MemoryError\b|Cannot allocate memory|Out of memory: |std::bad_alloc"
          r"|^Killed$|oom-kill", advice.memory),
    # modules of Python and Node
    _rule("module", r"'Server' object has no attribute|cannot import name '\w+' from '(?:mcp|fastmcp)[\w.]*'"
          r"|No module named '(?:mcp|fastmcp)\.[\w.]+'|unexpected keyword argument '\w+'.{0,20}FastMCP",
          advice.old_library),
    _rule("module", r"No module named '?(?P<module>[\w.-]+)'?", advice.python_module),
    _rule("module", r"cannot import name '\w+' from '(?P<module>[\w.]+)'", advice.python_module),
    _rule("module", r"Cannot find (?:module|package) '", advice.node_module),
    # files and ports
    _rule("port", r"\bEADDRINUSE\b|address already in use|port \d+ is already (?:in use|allocated)"
          r"|Only one usage of each socket|bind: address already", advice.port),
    _rule("permission", r"\bEACCES\b|\bEPERM\b|os error 13\b|Errno 13\b|Errno 1\]|: permission denied"
          r"|\bEROFS\b|read-only file system|root-owned files", advice.permission),
    _rule("permission", r"Failed to initialize cache|npm (?:error|ERR!) (?:ENOTDIR|EISDIR)", advice.cache_folder),
    # what is missing in the definition
    _rule("variable", r"^KeyError: '(?P<name>[A-Z][A-Z0-9_]{2,60})'$", advice.variable, beside="environ"),
    _rule("variable", r"^(?P<field>[a-zA-Z_][\w.]{1,60})\n+\s*(?:Field required|Input should be a valid string)",
          advice.setting, before=1),
    _rule("argument", r"the following (?:required )?arguments (?:are|were)|Missing (?:option|argument|command|parameter)\b"
          r"|missing required (?:argument|option|flag)|required (?:option|argument|flag)|unrecognized argument"
          r"|unknown (?:option|argument|flag|command)|No such option|unexpected argument|too few arguments"
          r"|not enough (?:non-option )?arguments|flag provided but not defined|as a(?:n? \S+)? argument"
          r"|(?:is|be) (?:required|provided|given)[^.]{0,40}(?:as (?:an )?argument|for stdio mode)"
          r"|invalid choice:|expected (?:one|at least one) argument", advice.argument),
    _rule("variable", rf"{VARIABLE}", advice.variable, before=0, beside=""),
    _rule("variable", rf"{_KEY}[\w ,'\"]{{0,30}}(?:is |are )?(?:required|missing|not (?:set|provided|found|configured)|must be)"
          rf"|(?:no|missing|provide|requires?|invalid|without)(?: an?| the| your| valid| any)?(?: \w+)? {_KEY}",
          advice.key),
    _rule("service", rf"connect (?:{_REFUSED})|getaddrinfo|(?:{_REFUSED})\b|Connection refused|Name or service not known"
          r"|Could not connect|Cannot connect to host|Failed to connect to|ConnectError|connection to server at",
          advice.unreachable_service),
    _rule("file", r"\bENOENT\b|No such file or directory|does not exist$|is not a directory|not a valid directory",
          advice.folder),
    _rule("argument", r"^(?:\[\d+\] )?usage: ", advice.argument, weak=True),
    _rule("protocol", r"(?:listening|running|serving|started|available|server)\b.{0,60}\b(?:https?://\S+|port:? ?\d{2,5})",
          advice.address, weak=True),
)  # fmt: skip

MISSING = re.compile(_MISSING, re.I)
"""Words that a line must contain besides a name in capitals, to be about a variable that is missing."""

NOT_FATAL = re.compile(
    r"\boptional\b|using (?:a )?(?:default|dummy)|falling back|will be disabled|ignor(?:ed|ing)|skipp", re.I
)
"""Lines that do not explain a failure."""
