"""Commands that download a package and run it, recognized from their arguments.

The options of launchers are from their own help texts and sources. For each launcher, there is a command that
downloads a package without running it, and one that runs what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct, field

Unknown = Literal["refused", "switch", "npx"]
"""The kind of an option that no table has.

``refused``: the command is not understood. ``switch``: it takes no value. ``npx``: its value is the next
argument if that does not begin with a hyphen, as npx decides.
"""


class OptionTable(Struct, frozen=True):
    """Options of a program, without their hyphens: ``values`` take a value, ``switches`` take none.

    Names of one letter are short options. ``clusters`` says whether short options may be joined
    (``-it``), and a short option with its value (``-eNAME=value``).
    """

    values: frozenset[str]
    switches: frozenset[str]
    unknown: Unknown = "refused"
    clusters: bool = field(default=True)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


NPM = OptionTable(
    values=_names("""
        package p call c shell script-shell cache userconfig globalconfig prefix C workspace w registry reg
        scope tag loglevel L location otp proxy https-proxy noproxy cafile ca cert key before
        fetch-retries fetch-timeout fetch-retry-mintimeout fetch-retry-maxtimeout fetch-retry-factor
        maxsockets node-options user-agent include omit node-arg allow-scripts min-release-age
    """),
    switches=_names("""
        yes y no n quiet q silent s d dd ddd verbose version v help h ignore-existing always-spawn
        shell-auto-fallback offline prefer-offline prefer-online ignore-scripts audit fund progress
        update-notifier strict-ssl workspaces ws include-workspace-root iwr force f global g color
        legacy-peer-deps engine-strict foreground-scripts install-links json long l parseable timing
        unicode usage save S all a bin-links dry-run optional package-lock production dev local
    """),
    unknown="npx",
    clusters=False,
)

UV = OptionTable(
    values=_names("""
        from with w with-editable with-requirements constraints constraint c build-constraints
        build-constraint b overrides override env-file python-platform torch-backend index default-index
        index-url i extra-index-url find-links f index-strategy keyring-provider upgrade-package P
        upgrade-group resolution prerelease prerelease-package fork-strategy exclude-newer
        exclude-newer-package no-sources-package reinstall-package link-mode config-setting
        config-settings C config-settings-package no-build-isolation-package no-build-package
        no-binary-package cache-dir refresh-package python p color allow-insecure-host directory project
        config-file excludes exclude python-preference
    """),
    switches=_names("""
        compile-bytecode no-compile-bytecode isolated lfs managed-python no-managed-python no-binary
        no-build no-build-isolation no-config no-env-file no-index no-progress no-python-downloads
        no-require-build-hashes require-build-hashes no-sources offline no-offline refresh no-refresh
        reinstall no-reinstall system-certs no-system-certs native-tls no-native-tls upgrade no-upgrade U
        pre help h no-cache no-cache-dir n quiet q verbose v preview no-preview show-resolution
        generate-shell-completion
    """),
)

PIPX = OptionTable(
    values=_names("spec python fetch-python index-url i pip-args backend with"),
    switches=_names("""
        no-cache path pypackages fetch-missing-python system-site-packages editable e quiet q verbose v
        global help h skip-maintenance
    """),
)

BUN = OptionTable(
    values=_names("package p cwd config c registry cache-dir"),
    switches=_names("bun b no-install verbose silent yes y prefer-offline prefer-latest smol"),
    unknown="switch",
    clusters=False,
)

DENO = OptionTable(
    values=_names("""
        config c import-map location seed cert ext preload require log-level L conditions
        minimum-dependency-age
    """),
    switches=frozenset("ARWNESIrq"),
    unknown="switch",
)
"""An option of deno's with an optional value takes it after ``=`` only; the others are above."""

CONTAINER = OptionTable(
    values=_names("""
        add-host annotation attach a blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns
        cidfile cpu-count cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares c cpus
        cpuset-cpus cpuset-mems detach-keys device device-cgroup-rule device-read-bps device-read-iops
        device-write-bps device-write-iops dns dns-opt dns-option dns-search domainname entrypoint env e
        env-file expose gpus group-add health-cmd health-interval health-retries health-start-interval
        health-start-period health-timeout hostname h io-maxbandwidth io-maxiops ip ip6 ipc isolation
        kernel-memory label l label-file link link-local-ip log-driver log-opt mac-address memory m
        memory-reservation memory-swap memory-swappiness mount name net network net-alias network-alias
        oom-score-adj pid pids-limit platform publish p pull restart runtime security-opt shm-size
        stop-signal stop-timeout storage-opt sysctl tmpfs ulimit user u userns uts volume v volume-driver
        volumes-from workdir w
    """),
    switches=_names("""
        detach d disable-content-trust help init interactive i no-healthcheck oom-kill-disable privileged
        publish-all P quiet q read-only rm sig-proxy tty t use-api-socket
    """),
)
"""Options of ``docker run``. With others, such as those of podman alone, a command starts like any other."""

Runner = Literal["npx", "uvx", "pipx", "bunx", "docker", "podman", "deno"]
"""Kind of a launcher. pnpm dlx and yarn dlx are not recognized: they start like any other command."""

REMOTE_MODULES = ("npm:", "jsr:", "https://", "http://")
"""Beginnings of what deno downloads. Any other argument is a file or a task."""


class PackageRun(Struct, frozen=True):
    """A command that downloads a package before it runs it.

    ``runner`` is its kind, ``program`` the command as configured, ``subcommand`` the words that make it a
    launcher (``exec`` of ``npm exec``, with options between them), ``options`` the launcher's own options
    before the program of the package, ``package`` the package as the launcher is given it (with a version
    if one is written), ``others`` further packages, ``executable`` the program of the package as it is
    named to the launcher, and ``arguments`` what that program is given. ``executable`` is the package
    itself unless an option named that, and empty if a shell command runs instead (``npx -c``).
    """

    runner: Runner
    program: str
    options: tuple[str, ...]
    package: str
    arguments: tuple[str, ...]
    subcommand: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    executable: str = ""

    def option(self, *names: str) -> str | None:
        """Return the value of an option, the last one given; ``""`` for a switch, None if it is absent."""
        given = _parsed(self.options, _TABLES[self.runner])
        values = [value for name, value in given.named if name in names] if given else []
        return values[-1] if values else None


class _Options(Struct, frozen=True):
    """Options at the begin of arguments: ``named`` with their values, and how many arguments they are."""

    named: tuple[tuple[str, str], ...]
    length: int

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.named if name in names and value]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.named)


def package_run(command: str, args: Sequence[str]) -> PackageRun | None:
    """Return what a command downloads and runs; None for other commands, and if it is not understood."""
    name = re.split(r"[/\\]", command)[-1].lower()
    recognize = _PROGRAMS.get(re.sub(r"\.(cmd|exe|bat|ps1)$", "", name))
    return recognize(command, tuple(args)) if recognize else None


def _parsed(args: Sequence[str], table: OptionTable) -> _Options | None:
    """Parse options up to the first argument that is none, or behind ``--``; None if not understood."""
    named: list[tuple[str, str]] = []
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        if args[at] == "--":
            return _Options(tuple(named), at + 1)
        taken = _one_option(args, at, table)
        if taken is None:
            return None
        options, at = taken
        named += options
    return _Options(tuple(named), at)


def _one_option(args: Sequence[str], at: int, table: OptionTable) -> tuple[list[tuple[str, str]], int] | None:
    """Parse the option at that index. Return it with its value, and the index behind both."""
    word = args[at]
    if table.clusters and not word.startswith("--") and len(word) > 2:
        return _cluster(args, at, table)
    name, equals, value = word.lstrip("-").partition("=")
    if equals:
        return [(name, value)], at + 1
    following = args[at + 1] if at + 1 < len(args) else None
    if name in table.values:
        return None if following is None else ([(name, following)], at + 2)
    if name in table.switches or table.unknown == "switch":
        return [(name, "")], at + 1
    if table.unknown == "npx":
        with_value = following is not None and not following.startswith("-") and not name.startswith("no-")
        return [(name, following or "" if with_value else "")], at + 1 + with_value
    return None


def _cluster(args: Sequence[str], at: int, table: OptionTable) -> tuple[list[tuple[str, str]], int] | None:
    """Parse short options joined to one argument: ``-it``, ``-eNAME=value``, ``-ite NAME=value``."""
    letters, options = args[at][1:], list[tuple[str, str]]()
    for place, letter in enumerate(letters):
        rest = letters[place + 1 :]
        if letter in table.values:
            if rest:
                return [*options, (letter, rest.removeprefix("="))], at + 1
            return ([*options, (letter, args[at + 1])], at + 2) if at + 1 < len(args) else None
        if letter not in table.switches and table.unknown != "switch":
            return None
        options.append((letter, ""))
        if rest.startswith("="):
            break
    return options, at + 1


def _behind(words: Sequence[Sequence[str]], args: tuple[str, ...], table: OptionTable) -> int | None:
    """Return the index behind a subcommand, which may have options before each word; None if another."""
    at = 0
    for expected in words:
        options = _parsed(args[at:], table)
        if options is None:
            return None
        at += options.length
        if at >= len(args) or args[at] not in expected:
            return None
        at += 1
    return at


Recognize = Callable[[str, tuple[str, ...]], PackageRun | None]
"""Returns the run of a command with those arguments; None if it is none, or not understood."""


def _npm(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("exec", "x")], args, NPM)
    return None if at is None else _npx(command, args[at:], args[:at])


def _npx(command: str, args: tuple[str, ...], subcommand: tuple[str, ...] = ()) -> PackageRun | None:
    options = _parsed(args, NPM)
    if options is None or options.has("version", "v", "help", "h"):
        return None
    packages, rest = options.values("package", "p"), list(args[options.length :])
    # npm exec reads options behind the package too; what follows "--" is the program's.
    if subcommand and len(rest) > 1 and rest[1] == "--":
        del rest[1]
    return _from_option_or_first("npx", command, subcommand, args, options, packages, rest, "call", "c")


def _uv(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("tool",), ("run",)], args, UV)
    return None if at is None else _uvx(command, args[at:], args[:at])


def _uvx(command: str, args: tuple[str, ...], subcommand: tuple[str, ...] = ()) -> PackageRun | None:
    options = _parsed(args, UV)
    if options is None or options.has("help", "h", "version", "V"):
        return None
    return _from_option_or_first(
        "uvx", command, subcommand, args, options, options.values("from")[-1:], list(args[options.length :])
    )


def _pipx(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("run",)], args, PIPX)
    options = None if at is None else _parsed(args[at:], PIPX)
    # With --path the program is a file that is there already.
    if at is None or options is None or options.has("path", "pypackages", "help", "h"):
        return None
    rest = list(args[at + options.length :])
    return _from_option_or_first(
        "pipx", command, args[:at], args[at:], options, options.values("spec")[-1:], rest
    )


def _bun(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("x",)], args, BUN)
    return None if at is None else _bunx(command, args[at:], args[:at])


def _bunx(command: str, args: tuple[str, ...], subcommand: tuple[str, ...] = ()) -> PackageRun | None:
    options = _parsed(args, BUN)
    if options is None:
        return None
    packages, rest = options.values("package", "p")[-1:], list(args[options.length :])
    return _from_option_or_first("bunx", command, subcommand, args, options, packages, rest)


def _deno(command: str, args: tuple[str, ...]) -> PackageRun | None:
    at = _behind([("run",)], args, DENO)
    options = None if at is None else _parsed(args[at:], DENO)
    if at is None or options is None:
        return None
    rest = list(args[at + options.length :])
    if not rest or not rest[0].startswith(REMOTE_MODULES):
        return None
    return _from_option_or_first("deno", command, args[:at], args[at:], options, [], rest)


def _container(runner: Runner) -> Recognize:
    def recognize(command: str, args: tuple[str, ...]) -> PackageRun | None:
        before = args[: 2 if args[:1] == ("container",) else 1]
        options = _parsed(args[len(before) :], CONTAINER) if before[-1:] == ("run",) else None
        # With --rootfs podman runs a folder.
        if options is None or options.has("rootfs", "help"):
            return None
        own = args[len(before) :]
        return _from_option_or_first(runner, command, before, own, options, [], list(own[options.length :]))

    return recognize


def _from_option_or_first(
    runner: Runner,
    command: str,
    subcommand: tuple[str, ...],
    args: tuple[str, ...],
    options: _Options,
    packages: list[str],
    rest: list[str],
    *shell_commands: str,
) -> PackageRun | None:
    """Return the run whose package an option names, or else the first argument that is no option."""
    shell = options.has(*shell_commands)
    if (not packages and (shell or not rest)) or (packages and not rest and not shell):
        return None
    package = packages[0] if packages else rest[0]
    if not package.strip():
        return None
    return PackageRun(
        runner=runner,
        program=command,
        options=args[: options.length],
        package=package,
        arguments=() if shell else tuple(rest[1:]),
        subcommand=subcommand,
        others=tuple(packages[1:]),
        executable="" if shell else rest[0],
    )


_TABLES: dict[Runner, OptionTable] = {
    "npx": NPM,
    "uvx": UV,
    "pipx": PIPX,
    "bunx": BUN,
    "docker": CONTAINER,
    "podman": CONTAINER,
    "deno": DENO,
}

_PROGRAMS: dict[str, Recognize] = {
    "npx": _npx,
    "npm": _npm,
    "uvx": _uvx,
    "uv": _uv,
    "pipx": _pipx,
    "bunx": _bunx,
    "bun": _bun,
    "deno": _deno,
    "docker": _container("docker"),
    "podman": _container("podman"),
}

_EXACT = re.compile(r"(@[^/@]+/)?[^/@]+@\d+\.\d+\.\d+[\w.+-]*")
_OFFLINE = ("offline", "prefer-offline", "prefer-online", "n", "no-cache", "refresh", "U", "upgrade")


def download_command(run: PackageRun) -> list[str] | None:
    """Return the command that downloads the package and runs nothing of it; None if there is none."""
    match run.runner:
        case "npx":
            packages = [f"--package={package}" for package in (run.package, *run.others)]
            named = run.option("package", "p") is not None
            options = _without_call(run.options)
            shell = ["--yes", *([] if named else packages), "-c", "exit 0"]
            return [run.program, *run.subcommand, *options, *shell]
        case "uvx":
            named = run.option("from") is not None
            source = [] if named else ["--from", _uv_requirement(run.package)]
            python = ["python", "-c", ""]
            return [run.program, *run.subcommand, *_without_end(run.options), *source, *python]
        case "docker" | "podman":
            platform = run.option("platform")
            before = _without_run(run.subcommand)
            return [
                run.program,
                *before,
                "pull",
                *(["--platform", platform] if platform else []),
                run.package,
            ]
        case "deno":
            return [run.program, *run.subcommand[:-1], "cache", *_cached_by_deno(run.options), run.package]
        case _:
            return None


def present_command(run: PackageRun) -> list[str] | None:
    """Return the command that succeeds if the package is there already, for launchers that have one."""
    if run.runner in ("docker", "podman"):
        return [run.program, *_without_run(run.subcommand), "image", "inspect", run.package]
    return None


def offline_args(run: PackageRun) -> list[str]:
    """Return the arguments of a run that uses what is in the cache, if the launcher can be told so."""
    option = {"npx": "--prefer-offline", "uvx": "--offline"}.get(run.runner)
    own = list(run.options)
    inserted = [] if option is None or run.option(*_OFFLINE) is not None else [option]
    behind = [run.executable] if run.executable else []
    end = ["--"] if run.runner == "npx" and run.subcommand and behind and own[-1:] != ["--"] else []
    return [*run.subcommand, *inserted, *own, *end, *behind, *run.arguments]


def is_exact(run: PackageRun) -> bool:
    """Return whether the packages of an npx run are named with exact versions, which never change."""
    return all(_EXACT.fullmatch(package) for package in (run.package, *run.others))


def _uv_requirement(package: str) -> str:
    """Return what ``--from`` understands: ``uvx ruff@0.9`` means ``ruff==0.9``, ``@latest`` the newest."""
    name, at, version = package.partition("@")
    if not at or "/" in package or " " in package:
        return package
    return name if version == "latest" else f"{name}=={version}"


def _without_end(options: tuple[str, ...]) -> list[str]:
    return list(options[:-1] if options[-1:] == ("--",) else options)


def _without_call(options: tuple[str, ...]) -> list[str]:
    """Leave out ``-c COMMAND`` and ``--``: the step has its own command."""
    kept, skip = list[str](), False
    for word in _without_end(options):
        if skip or word.startswith("--call="):
            skip = False
        elif word in ("-c", "--call"):
            skip = True
        else:
            kept.append(word)
    return kept


def _without_run(subcommand: tuple[str, ...]) -> list[str]:
    kept = list(subcommand[:-1])
    return kept[:-1] if kept[-1:] == ["container"] else kept


def _cached_by_deno(options: tuple[str, ...]) -> list[str]:
    """Return the options of ``deno run`` that say what is downloaded; permissions do not."""
    names = ("--config", "-c", "--import-map", "--cert", "--lock", "--no-lock", "--node-modules-dir")
    kept, follows = list[str](), False
    for word in options:
        name, equals, _ = word.partition("=")
        if follows or name in names or word.startswith(("--reload", "--unstable", "--allow-import")):
            kept.append(word)
            follows = not follows and not equals and name in names[:4]
    return kept
