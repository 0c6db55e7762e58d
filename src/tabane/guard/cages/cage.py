"""The cage of one server: which files, which network and which limits, and by what they are enforced.

:func:`find_mechanisms` finds what this system offers. :func:`caged` builds the command: of bubblewrap, which
gives a process its own view of the files and hides other processes (later mounts cover earlier ones, so
parents come first), of sandbox-exec on macOS (the last rule that matches decides; untested, because no
machine with macOS was at hand), or with Landlock alone. Credentials, keys and profiles of browsers are in no
cage unless the user lists them. Everything else is pure, apart from looking at which paths exist, and blocks
for that.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Literal

from tabane.errors import UpstreamUnavailable
from tabane.guard.cages import landlock, seccomp
from tabane.guard.cages.entering import FILTER
from tabane.guard.cages.limits import Limit
from tabane.guard.cages.seccomp import MACHINES
from tabane.messages import Message, say
from tabane.servers.server_keys import SandboxProfile

_KEYS = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".config/age", ".config/sops"),
    *(".pki", "Library/Keychains"),
)
_CLOUDS = (
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".config/containers", ".terraform.d"),
    *(".config/doctl", ".config/hcloud", ".config/rclone", ".fly", ".vault-token"),
)
_TOKENS = (
    *(".netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli"),
    *(".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".npmrc", ".yarnrc.yml", ".pgpass"),
    *(".my.cnf", ".config/op", ".config/Bitwarden CLI"),
)
_BROWSERS = (
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".thunderbird"),
    *("snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome"),
    *("Library/Application Support/Google/Chrome", "Library/Application Support/Firefox"),
    *("Library/Application Support/BraveSoftware", "Library/Safari", "Library/Cookies"),
)
_ASSISTANTS = (
    *(".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
    *(".config/github-copilot", ".cursor/mcp.json", ".codeium"),
)
_HISTORIES = (
    *(".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history"),
    *(".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history"),
)

PROTECTED = (*_KEYS, *_CLOUDS, *_TOKENS, *_BROWSERS, *_ASSISTANTS, *_HISTORIES)


def protected_paths(home: str) -> list[str]:
    """Return the absolute paths that are protected for the user whose home folder that is."""
    return [os.path.join(home, name) for name in PROTECTED]


SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix/store", "/gnu/store"),
    *("/sys", "/run/systemd/resolve", "/run/current-system", "/snap", "/home/linuxbrew", "/var/lib/flatpak"),
)
"""Folders of the system that every program may read, also if its reads are limited."""

DEVICES = (*("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),)
"""Devices that hold nothing of anybody. Terminals do: other programs of the user have them open."""

KERNEL = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/mtrr",
)
"""Settings of the kernel in /proc, which root owns."""


def command_sockets(user: int) -> list[str]:
    """Return sockets whose programs run any command for everybody who connects."""
    system = ("docker.sock", "containerd", "podman", "crio", "dbus", "systemd/private", "snapd.socket", "lxd")
    own = ("bus", "systemd", "docker.sock", "podman", "containerd-rootless", "i3", "sway-ipc.sock")
    return [
        *(os.path.join("/run", name) for name in system),
        *(os.path.join(f"/run/user/{user}", name) for name in own),
        *("/run/libvirt", "/run/incus", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket"),
        "/tmp/.X11-unix",
    ]


def tool_folders(home: str) -> list[str]:
    """Return the folders in a user's home that hold runtimes and tools, which limited reads include."""
    names = (
        *(".nvm", ".fnm", ".local/share/fnm", ".volta", ".nodenv", ".bun", ".deno", ".pyenv", ".rbenv"),
        *(".asdf", ".local/share/mise", ".local/share/uv/python", ".local/share/uv/tools", ".local/bin"),
        *(
            ".local/lib",
            ".local/pipx/venvs",
            ".local/share/pipx",
            ".cargo/bin",
            ".rustup",
            "go/bin",
            "miniconda3",
        ),
        *(
            ".sdkman/candidates",
            ".dotnet",
            ".npm-global",
            ".local/share/pnpm",
            ".local/state/fnm_multishells",
        ),
    )
    return [os.path.join(home, name) for name in names]


Kind = Literal["read", "write", "empty folder", "empty file", "devices", "processes"]


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount at a path: the same files to read or to write, nothing, or new files of its own.

    ``source`` is the argument for a descriptor of the files; empty if the path names them.
    """

    path: str
    kind: Kind
    source: str = ""


_OPTIONS = {
    "read": ("--ro-bind", 2),
    "write": ("--bind", 2),
    "empty folder": ("--tmpfs", 1),
    "devices": ("--dev", 1),
    "processes": ("--proc", 1),
}
"""Options by kind, and how often the path follows."""


def bubblewrap_command(
    program: str, mounts: Iterable[Mount], argv: Sequence[str], *, network: bool, filtered: bool
) -> list[str]:
    """Return the command that runs ``argv`` among these mounts.

    Without ``network`` it has an empty one. ``filtered``: it loads a filter of system calls.
    """
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    if not network:
        options.append("--unshare-net")
    for mount in in_order(mounts):
        options += _bubblewrap_option(mount)
    if filtered:
        options += ["--seccomp", FILTER.decode()]
    return [program, *options, "--", *argv]


def in_order(mounts: Iterable[Mount]) -> list[Mount]:
    """Return mounts so that what is inside another one comes after it.

    At the same path, the last one given counts.
    """
    by_path = {mount.path: mount for mount in mounts}
    return sorted(by_path.values(), key=lambda mount: mount.path.rstrip("/").split("/"))


def _bubblewrap_option(mount: Mount) -> list[str]:
    if mount.kind == "empty file":
        return ["--ro-bind", "/dev/null", mount.path]
    name, paths = _OPTIONS[mount.kind]
    if mount.source:
        return [f"{name}-fd", mount.source, mount.path]
    return [name, *[mount.path] * paths]


_WRITABLE = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")


def sandbox_exec_command(program: str, profile: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` under a profile."""
    return [program, "-p", profile, *argv]


def sandbox_exec_profile(
    writes: Iterable[str], reads: Iterable[str] | None, hidden: Iterable[str], *, network: bool
) -> str:
    """Return the profile; if ``reads`` is None, everything but ``hidden`` may be read."""
    writes, hidden = list(writes), list(hidden)
    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules += _rules("allow", "file-write*", writes)
    rules += [f'(allow file-write* (literal "{path}"))' for path in _WRITABLE]
    if reads is not None:
        rules += ["(deny file-read-data)", *_rules("allow", "file-read-data", [*reads, *writes])]
        rules.append('(allow file-read-data (literal "/") (subpath "/System") (subpath "/Library"))')
    rules += _rules("deny", "file-read* file-write*", hidden)
    inside = [path for path in writes if any(path.startswith(f"{each}/") for each in hidden)]
    rules += _rules("allow", "file-read* file-write*", inside)
    rules += [
        "(deny process-info* (target others))",
        "(deny signal (target others))",
        "(allow signal (target self) (target children))",
    ]
    if not network:
        rules.append("(deny network*)")
    return "\n".join(rules)


def _rules(verdict: str, what: str, paths: Iterable[str]) -> list[str]:
    return [f"({verdict} {what} (subpath {_quote_path(path)}))" for path in paths]


def _quote_path(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


PATIENCE = 10.0
"""Seconds for a trial of bubblewrap, which takes some milliseconds."""

SANDBOX_EXEC = "/usr/bin/sandbox-exec"


@dataclass(frozen=True, slots=True)
class CageMechanisms:
    """Mechanisms of a system. ``landlock`` is its version, 0 for none.

    ``bubblewrap`` is the path of a bubblewrap that works, and ``no_bubblewrap`` why there is none.
    ``descriptors``: it mounts what a descriptor is open for (0.8 with fixes, 0.10 and later).
    ``machine`` is the processor's name for which system calls can be filtered; empty if there is no filter.
    ``sandbox_exec`` is the path of that program of macOS. ``root``: the hub runs as root.
    """

    landlock: int = 0
    bubblewrap: str = ""
    descriptors: bool = False
    no_bubblewrap: Message | None = None
    machine: str = ""
    sandbox_exec: str = ""
    root: bool = False

    @property
    def suffice(self) -> bool:
        """Whether a cage can be built with them at all."""
        if self.sandbox_exec:
            return True
        return bool(self.machine) and (bool(self.bubblewrap) or self.landlock >= landlock.LEAST_ABI)


def find_mechanisms(environment: Mapping[str, str]) -> CageMechanisms:
    """Try what the system offers. ``environment`` is the hub's, whose PATH is searched. Blocks."""
    if sys.platform == "darwin":
        return CageMechanisms(sandbox_exec=SANDBOX_EXEC if os.access(SANDBOX_EXEC, os.X_OK) else "")
    if sys.platform != "linux":
        return CageMechanisms()
    import ctypes  # a hub without cages does not need it

    program, why = find_bubblewrap(environment)
    machine = platform.machine()
    return CageMechanisms(
        landlock=landlock.abi(ctypes.CDLL(None, use_errno=True).syscall),
        bubblewrap=program,
        descriptors=bool(program) and _takes_descriptors(program),
        no_bubblewrap=why,
        machine=machine if machine in MACHINES else "",
        root=os.geteuid() == 0,
    )


def _takes_descriptors(program: str) -> bool:
    try:
        done = subprocess.run([program, "--help"], capture_output=True, timeout=PATIENCE, env={}, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--ro-bind-fd" in done.stdout + done.stderr


def find_bubblewrap(environment: Mapping[str, str]) -> tuple[str, Message | None]:
    """Return the path of a bubblewrap that works, or why there is none. Blocks."""
    program = which("bwrap", path=environment.get("PATH"))
    if program is None:
        return "", say("bubblewrap (bwrap) is not installed")
    mounts = [Mount("/", "read"), Mount("/dev", "devices"), Mount("/proc", "processes")]
    trial = bubblewrap_command(program, mounts, [which("true") or "/bin/true"], network=False, filtered=False)
    try:
        done = subprocess.run(trial, capture_output=True, timeout=PATIENCE, env={}, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", say("bubblewrap cannot be started ({detail})", detail=error)
    if done.returncode == 0:
        return program, None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return "", say("bubblewrap does not work here ({detail})", detail=said[-1][:200] if said else "–")


PROXY_PORT = 3128
"""Where a server finds the proxy to its hosts. Its network is empty, so the port is free."""


class CageUnavailable(UpstreamUnavailable):
    """A cage that was asked for and cannot be had. The server is not started without it."""


@dataclass(frozen=True, slots=True)
class CagePaths:
    """Paths that the cages of a hub share: real ones.

    ``own`` are Tabane's own files, which no cage shows. ``protected`` are those of the user that a cage shows
    only if the profile lists them, under one of ``protected_names``: not over a link. ``tools`` are folders
    of runtimes. ``private`` is the folder of this server's caches and temporary files, inside of ``own`` as
    an exception.
    """

    own: tuple[str, ...]
    protected: tuple[str, ...]
    tools: tuple[str, ...]
    private: str
    protected_names: tuple[str, ...] = ()

    def names(self, path: str) -> bool:
        """Return whether the user has named a protected path itself."""
        written = os.path.normpath(path)
        return any(_is_within(written, each) for each in (*self.protected, *self.protected_names))


@dataclass(frozen=True, slots=True)
class CageFiles:
    """Real paths that the server may read (None: all) and change, and those that are hidden from it.

    ``listed`` are those among ``reads`` that the profile lists.
    """

    reads: tuple[str, ...] | None
    writes: tuple[str, ...]
    hidden: tuple[str, ...]
    listed: tuple[str, ...] = ()


def cage_files(profile: SandboxProfile, paths: CagePaths, programs: Iterable[str]) -> CageFiles:
    """Return the files of a cage. ``programs`` are folders that the command itself needs.

    Those of them that are hidden are left out: a server may have put a link into its own command line's path.

    Raises CageUnavailable if a path is missing, is one of Tabane's own, or leads to a protected one over a
    link.
    """
    writes = [_existing("write", path, paths) for path in profile.writes]
    listed = [_existing("read", path, paths) for path in profile.reads or ()]
    for path in (*writes, *listed):
        for own in paths.own:
            if _is_within(path, own):
                raise CageUnavailable(
                    say(
                        "The sandbox may not list {path}: it is in Tabane's own files, which hold the "
                        "secrets of all servers. Remove it from the servers file.",
                        path=path,
                    )
                )
    open_ = {*writes, *listed}
    hides = [os.path.realpath(path) for path in profile.hides]
    hidden = [*paths.own, *(path for path in paths.protected if path not in open_), *hides]
    reads: tuple[str, ...] | None = None
    if profile.reads is not None and "/" not in listed:
        needed = [
            path
            for path in programs
            if not any(_is_within(each, own) for each in (path, os.path.realpath(path)) for own in hidden)
        ]
        usual = [path for path in (*SYSTEM, *paths.tools, *needed) if os.path.exists(path)]
        reads = tuple(dict.fromkeys((*usual, *listed)))
    return CageFiles(
        reads,
        (*_outermost_paths(writes), paths.private),
        tuple(dict.fromkeys(p for p in hidden if os.path.lexists(p))),
        tuple(path for path in dict.fromkeys(listed) if path != "/"),
    )


def _outermost_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths that are not in another one of them: what is in a writable folder needs no rule.

    The server can put a link where such an inner path is.
    """
    found = dict.fromkeys(paths)
    return [path for path in found if not any(_is_within(path, each) for each in found if each != path)]


def _existing(kind: str, path: str, paths: CagePaths) -> str:
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        raise CageUnavailable(
            say(
                'The path {path} in "{kind}" of the sandbox does not exist. Create it, or fix the servers '
                "file.",
                path=path,
                kind=kind,
            )
        )
    if any(_is_within(real, each) for each in paths.protected) and not paths.names(path):
        raise CageUnavailable(
            say(
                'The path {path} in "{kind}" of the sandbox is a link to {real}, which holds credentials. '
                "The server is not started. If it may use them, list {real} itself.",
                path=path,
                kind=kind,
                real=real,
            )
        )
    return real


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def require(profile: SandboxProfile, mechanisms: CageMechanisms) -> None:
    """Raise CageUnavailable, with the reason, if this system cannot enforce the profile."""
    if not mechanisms.suffice:
        raise CageUnavailable(
            say(
                "This server is to run in a sandbox, and this system offers none: {why}. It is not started "
                "without one. To start it so, remove the key sandbox from the servers file.",
                why=_lacking_mechanism(mechanisms),
            )
        )
    if profile.network == "hosts" and mechanisms.sandbox_exec:
        raise CageUnavailable(
            say("A sandbox whose network is limited to hosts needs Linux. Set network to true or false.")
        )
    if profile.sockets and not mechanisms.bubblewrap and not mechanisms.sandbox_exec:
        raise CageUnavailable(
            say(
                "The sandbox allows Unix sockets, and without bubblewrap the hub's own could be reached: "
                'bubblewrap is needed. Install it, or remove "unixSockets". ({why})',
                why=mechanisms.no_bubblewrap or "–",
            )
        )


def _lacking_mechanism(mechanisms: CageMechanisms) -> Message:
    if not mechanisms.machine:
        return say("its kind or its processor is not supported")
    return say(
        "Landlock is missing or too old (version {version}, {least} is needed), and {why}",
        version=mechanisms.landlock,
        least=landlock.LEAST_ABI,
        why=mechanisms.no_bubblewrap or "–",
    )


def caged(
    profile: SandboxProfile,
    mechanisms: CageMechanisms,
    files: CageFiles,
    argv: Sequence[str],
    limits: Sequence[Limit],
    groups: Sequence[str],
    proxy: Sequence[str],
    *,
    installs: bool = False,
) -> tuple[list[str], dict[str, Any]]:
    """Return the command in its cage, and the orders for the keeper. ``proxy`` is the proxy's command.

    ``installs``: it writes programs, so that it has to change permissions.
    """
    orders: dict[str, Any] = {
        "limits": [tuple(limit) for limit in limits],
        "groups": list(groups),
        "privileges": not mechanisms.sandbox_exec,
        "landlock": 0,
        "seccomp": b"",
        "handed": False,
        "pinned": [],
    }
    if mechanisms.sandbox_exec:
        rules = sandbox_exec_profile(files.writes, files.reads, files.hidden, network=profile.network == "on")
        return sandbox_exec_command(mechanisms.sandbox_exec, rules, argv), orders
    if profile.network == "hosts":
        orders |= {"proxy": [os.fsencode(part) for part in proxy], "port": PROXY_PORT}
    wrapped = bool(mechanisms.bubblewrap)
    # In an empty network of its own, a server may use sockets among its own processes.
    network = wrapped or profile.network != "off"
    allowed = seccomp.families(network, profile.sockets)
    machine = seccomp.MACHINES[mechanisms.machine]
    orders["seccomp"] = seccomp.program(
        machine, allowed, alone=not wrapped, changes="allowed" if installs else "ignored"
    )
    orders["landlock"] = mechanisms.landlock
    orders |= _landlock_orders(files, restricts=not wrapped)
    if not wrapped:
        return list(argv), orders
    orders["handed"] = True
    shared = profile.network != "off"  # for hosts, the empty network is there already
    pinned = [path for path in (*files.writes, *files.listed) if os.path.lexists(path)]
    orders["pinned"] = [os.fsencode(path) for path in pinned]
    places = {path: f"{{path {index}}}" for index, path in enumerate(pinned)}
    found = mounts(files, places if mechanisms.descriptors else {}, root=mechanisms.root)
    command = bubblewrap_command(mechanisms.bubblewrap, found, argv, network=shared, filtered=True)
    return command, orders


def _landlock_orders(files: CageFiles, *, restricts: bool) -> dict[str, Any]:
    return {
        "files": restricts,
        "hidden": [os.fsencode(path) for path in files.hidden] + [b"/dev"],
        "reads": [
            os.fsencode(path)
            for path in dict.fromkeys(os.path.realpath(path) for path in files.reads or ("/",))
        ]
        + [b"/proc"],
        "writes": [os.fsencode(path) for path in files.writes],
        "devices": [os.fsencode(path) for path in DEVICES],
        "listing": files.reads is None,
    }


def mounts(files: CageFiles, places: Mapping[str, str], *, root: bool) -> list[Mount]:
    """Return what bubblewrap mounts for these files. ``places`` are arguments for descriptors, by path.

    ``root``: the server runs as root, who owns the settings of the kernel. A folder between a writable one
    and a hidden path in it is mounted too, because a mounted folder cannot be moved away with what it hides.
    """
    found = [Mount(path, "read") for path in (files.reads if files.reads is not None else ("/",))]
    visible = files.reads if files.reads is not None else ("/",)
    found += [
        Mount(path, "empty folder" if Path(path).is_dir() else "empty file")
        for path in files.hidden
        if any(_is_within(path, root) for root in (*visible, *files.writes))
    ]
    found += [
        Mount(parent, "write")
        for path in files.hidden
        for writable in files.writes
        if _is_within(path, writable)
        for parent in _folders_between(writable, path)
    ]
    found += [Mount(path, "write") for path in files.writes]
    found = [
        Mount(each.path, each.kind, places.get(each.path, "") if each.kind in ("read", "write") else "")
        for each in found
    ]
    kernel = [Mount(path, "read") for path in KERNEL if root and os.path.exists(path)]
    return [*found, Mount("/dev", "devices"), Mount("/proc", "processes"), *kernel]


def _folders_between(folder: str, path: str) -> list[str]:
    """Return the folders between a folder and a path in it, outermost first."""
    parents = [str(parent) for parent in Path(path).parents]
    return [parent for parent in reversed(parents) if parent != folder and _is_within(parent, folder)]


def uncovered(profile: SandboxProfile, mechanisms: CageMechanisms) -> list[Message]:
    """Return what a cage of this profile leaves open on this system."""
    if mechanisms.sandbox_exec:
        return [say("The sandbox of macOS was not tested.")]
    found: list[Message] = []
    if not mechanisms.bubblewrap:
        why = mechanisms.no_bubblewrap or "–"
        found.append(
            say(
                "Without bubblewrap ({why}), it sees the command lines of other processes and the names of "
                "protected files. It can use no terminal and no shared memory of System V, and when it "
                "changes permissions or times of files, that has no effect.",
                why=why,
            )
        )
        if mechanisms.landlock < 6:
            found.append(
                say(
                    "The kernel's Landlock (version {version}, 6 is needed) lets it send signals to the "
                    "user's other processes.",
                    version=mechanisms.landlock,
                )
            )
    if profile.network == "on":
        found.append(
            say(
                "It may connect to every address, also in your own network and on this computer. A list of "
                "hosts prevents that."
            )
        )
    if profile.memory == 0:
        found.append(say("Memory is not limited."))
    return found
