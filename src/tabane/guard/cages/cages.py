"""The cages of a hub: built for each start of a server that has one, and described for people.

A server may put a link where one of its paths is: in a folder that it, or another server, can change. So a
hub records where each path leads when it first reads it from the servers file, and a server whose path leads
elsewhere later is not started. The record of a server is a JSON object of paths as written and real ones.

A server in a container is run by docker or podman, with the same limits.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

from msgspec import structs

from tabane.guard.cages.cage import (
    PROXY_PORT,
    CageMechanisms,
    CagePaths,
    CageUnavailable,
    cage_files,
    caged,
    command_sockets,
    find_mechanisms,
    protected_paths,
    require,
    tool_folders,
    uncovered,
)
from tabane.guard.cages.limits import ControlGroups, GroupFiles, process_limits, running_processes
from tabane.messages import Message, say
from tabane.servers.server import Server
from tabane.servers.server_keys import SandboxProfile
from tabane.settings.files import write_private

log = logging.getLogger(__name__)

MOST = 2_000
"""Paths of one server. A server that runs in the folders of its clients has some for each folder."""


class PinnedPaths:
    """The records of a hub's servers, a file each. Everything here blocks, and may be used by threads."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[str, str]] = {}
        self._lock = threading.Lock()

    def pin(self, file: Path, paths: Iterable[str]) -> None:
        """Record where new paths of a server lead. The oldest are forgotten if there are too many."""
        with self._lock:
            before = self._read(file)
            after = before | {path: os.path.realpath(path) for path in paths if path not in before}
            after = dict(list(after.items())[-MOST:])
            self._known[file] = after
            if after == before:
                return
            try:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(file, json.dumps(after).encode())
            except OSError as error:
                log.warning("%s: where the paths of a sandbox lead cannot be recorded: %s", file, error)

    def problem(self, name: str, file: Path, paths: Iterable[str]) -> Message | None:
        """Return the sentence about a path that leads elsewhere than recorded; None if there is none."""
        with self._lock:
            pinned = self._read(file)
        for path in paths:
            before, now = pinned.get(path), os.path.realpath(path)
            if before is not None and before != now:
                return say(
                    "In the sandbox of {name!n}, {path} led to {before} when you wrote it, and now leads to "
                    "{now}: a link was put there. The server is not started. If you did that, run: "
                    "tabane servers sandbox {name!c} --accept-links",
                    name=name,
                    path=path,
                    before=before,
                    now=now,
                )
        return None

    def require(self, name: str, file: Path, paths: Iterable[str]) -> None:
        """Record new paths. Raises CageUnavailable if a path leads elsewhere than recorded."""
        paths = list(paths)
        self.pin(file, paths)
        if (problem := self.problem(name, file, paths)) is not None:
            raise CageUnavailable(problem)

    def _read(self, file: Path) -> dict[str, str]:
        """Return the record: the file's, because a person may have removed it to accept links."""
        try:
            found = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            return self._known.get(file, {})
        return {str(path): str(real) for path, real in found.items()} if isinstance(found, dict) else {}


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


_LONGEST_NAME = 100

_CACHES = {
    "XDG_CACHE_HOME": "cache",
    "UV_CACHE_DIR": "cache/uv",
    "npm_config_cache": "cache/npm",
    "BUN_INSTALL_CACHE_DIR": "cache/bun",
    "DENO_DIR": "cache/deno",
    "PIPX_HOME": "cache/pipx",
    "UV_TOOL_DIR": "cache/uv-tools",
    "TMPDIR": "tmp",
    "TMP": "tmp",
    "TEMP": "tmp",
}
"""Variables that lead a caged server, and the download of its package, to a folder of its own.

A cache that is shared with other servers would be a way out: what is changed there is run by them.
"""


@dataclass(frozen=True)
class CagedStart:
    """A start in a cage: the command, its environment, the orders for the keeper, and its control groups.

    ``cwd`` is the working directory of a download.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    orders: dict[str, Any] = field(repr=False)
    groups: tuple[GroupFiles, ...] = ()
    cwd: str | None = None


class Cages:
    """Builds the cages of servers.

    ``home`` is TABANE_HOME, ``own_files`` are files of Tabane's outside of it, such as the servers file.
    ``environment`` is the hub's. ``proxy`` is the command of the proxy to allowed hosts, which is given
    their names as further arguments. ``mechanisms`` are found when they are first needed, unless given.
    """

    def __init__(
        self,
        home: Path,
        own_files: Sequence[Path],
        environment: Mapping[str, str],
        proxy: Sequence[str],
        mechanisms: CageMechanisms | None = None,
        groups: ControlGroups | None = None,
    ) -> None:
        self._home, self._own_files, self._environment = home, own_files, environment
        self._proxy, self._given = proxy, mechanisms
        self._groups = groups or ControlGroups()
        self._numbers = count(1)
        self._pinned = PinnedPaths()

    @property
    def _home_of_user(self) -> str:
        return self._environment.get("HOME") or os.path.expanduser("~")

    @cached_property
    def mechanisms(self) -> CageMechanisms:
        """Return what this system offers. Blocks at first."""
        return self._given or find_mechanisms(self._environment)

    def dressed(self, server: Server) -> Server:
        """Return the server as its package is downloaded and it is started: with caches of its own.

        A server with an image becomes the command that runs its container. Blocks for that one. Raises
        CageUnavailable.
        """
        if server.image:
            return self._in_container(server)
        if server.transport != "stdio":
            return server
        private = self.private_folder(server.name)
        caches = {name: str(private / path) for name, path in _CACHES.items()}
        if not os.path.isdir(os.path.join(self._home_of_user, ".local/share/uv/python")):
            caches["UV_PYTHON_INSTALL_DIR"] = str(private / "cache/uv-python")
        return structs.replace(server, env={**caches, **server.env})

    def private_folder(self, name: str) -> Path:
        """Return the folder for the caches and temporary files of a caged server."""
        text = quote(name, safe=" ")
        if len(text) > _LONGEST_NAME or text in (".", ".."):
            text = sha256(name.encode()).hexdigest()[:32]
        return self._home / "cages" / text

    def _make_folders(self, private: Path) -> None:
        # The server can change this folder: a link or a file may stand in the place of a folder.
        os.makedirs(private, mode=0o700, exist_ok=True)
        for name in dict.fromkeys(_CACHES.values()):
            above = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                for part in name.split("/"):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=above)
                    try:
                        inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
                    except OSError:
                        os.unlink(part, dir_fd=above)
                        os.mkdir(part, 0o700, dir_fd=above)
                        inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
                    os.close(above)
                    above = inner
            finally:
                os.close(above)

    def pin(self, server: Server) -> None:
        """Record where the paths of a server's sandbox lead, unless that was done before. Blocks."""
        self._pinned.pin(self._record(server.name), self._written(server, server.sandbox))

    def accept_links(self, name: str) -> None:
        """Forget the recorded targets of a sandbox's paths: the present ones count from now on. Blocks."""
        self._record(name).unlink(missing_ok=True)

    def _record(self, name: str) -> Path:
        private = self.private_folder(name)
        return private.with_name(f"@{private.name}.json")  # no folder of a server has an @

    def _written(self, server: Server, profile: SandboxProfile | None) -> list[str]:
        """Return the paths that a person wrote for a sandbox, its working directory among them."""
        if profile is None:
            return []
        cwd = [server.cwd] if server.cwd_given and server.cwd and not server.image else []
        paths = [*self._wide(server, profile).writes, *(profile.reads or ()), *cwd]
        if profile.reads is not None and not server.image:  # the paths of its command line are readable too
            private = f"{self.private_folder(server.name)}{os.sep}"
            program = which(server.command, path=self._environment.get("PATH")) or ""
            paths += [word for word in (program, *server.args) if not word.startswith(private)]
        return [path for path in dict.fromkeys(paths) if os.path.isabs(path) and "\0" not in path]

    def build(self, server: Server, profile: SandboxProfile, env: Mapping[str, str]) -> CagedStart:
        """Return how to start a dressed server in its cage. Blocks. Raises CageUnavailable.

        The groups have to be removed with :meth:`remove` when nothing of the server is left.
        """
        self._pinned.require(server.name, self._record(server.name), self._written(server, profile))
        return self._build_start(server, profile, env)

    def _build_start(
        self, server: Server, profile: SandboxProfile, env: Mapping[str, str], *, installs: bool = False
    ) -> CagedStart:
        require(profile, self.mechanisms)
        if os.path.basename(server.command) in PROGRAMS:
            raise CageUnavailable(
                say(
                    "A server that {command} runs cannot have a sandbox like this: only {command} itself "
                    "would be in it. With image in place of command, the sandbox applies to the container.",
                    command=server.command,
                )
            )
        paths = self._paths(server.name, limited=profile.reads is not None)
        self._make_folders(Path(paths.private))
        programs = _program_paths(server, env) if profile.reads is not None else ()
        files = cage_files(self._wide(server, profile), paths, programs)
        groups = self._create_groups(profile)
        argv = [server.command, *server.args]
        if self.mechanisms.bubblewrap:
            argv[0] = which(argv[0], path=env.get("PATH")) or argv[0] if "/" not in argv[0] else argv[0]
        limits = process_limits(
            profile,
            grouped=groups is not None,
            running=(
                running_processes() if profile.processes and groups is None and os.path.isdir("/proc") else 0
            ),
        )
        members = [group.members for group in groups or ()]
        proxy = [*self._proxy, *profile.hosts]
        command, orders = caged(
            profile, self.mechanisms, files, argv, limits, members, proxy, installs=installs
        )
        if profile.network == "hosts":
            kept = {name: value for name, value in env.items() if name.lower() not in _PROXIES}
            names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
            env = {
                **kept,
                **dict.fromkeys(names, f"http://127.0.0.1:{PROXY_PORT}"),
                "NODE_USE_ENV_PROXY": "1",
            }
        return CagedStart(tuple(command), dict(env), orders, tuple(groups or ()))

    def build_download(self, server: Server, command: Sequence[str], env: Mapping[str, str]) -> CagedStart:
        """Return how to run a command that downloads what a server runs: with every network.

        It changes the caches of the server alone. It reads its own programs, what registries need, and the
        working directory if the package is in there. Blocks. Raises CageUnavailable.
        """
        home = env.get("HOME") or os.path.expanduser("~")
        paths = [os.path.join(home, name) for name in _REGISTRY_FILES]
        paths += [value for name, value in env.items() if name.upper() in _REGISTRY_VARIABLES]
        paths += [folder for folder in env.get("PATH", "").split(os.pathsep) if folder != "/"]
        reads = [path for path in dict.fromkeys(paths) if os.path.isabs(path) and os.path.exists(path)]
        cwd = str(self.private_folder(server.name))
        if server.cwd and any(word.startswith((".", "file:")) for word in command):
            reads, cwd = [*reads, server.cwd], server.cwd
        profile = SandboxProfile(preset="network", network="on", reads=tuple(reads))
        step = structs.replace(server, command=command[0], args=tuple(command[1:]), cwd_given=False)
        return replace(self._build_start(step, profile, env, installs=True), cwd=cwd)

    def remove(self, groups: Sequence[GroupFiles]) -> None:
        """Remove the control groups of a server that has ended. Blocks."""
        self._groups.remove(list(groups))

    def describe(self, server: Server) -> dict[str, Any] | None:
        """Return the cage of a server for programs: what it allows, what enforces it, what it leaves open.

        None if it has none. The lists ``uncovered`` and ``problem`` hold messages. Blocks at first.
        """
        if server.transport != "stdio" or (server.sandbox is None and not server.image):
            return None
        profile = server.sandbox or SandboxProfile(network="on")
        description = {
            "preset": profile.preset,
            "write": list(profile.writes),
            "read": None if profile.reads is None else list(profile.reads),
            "network": {"on": True, "off": False, "hosts": list(profile.hosts)}[profile.network],
            "memory": profile.memory or None,
            "cpu": profile.cpu or None,
            "processes": profile.processes or None,
            "unix_sockets": profile.sockets,
            "image": server.image or None,
        }
        if server.image:
            problem = self.container_problem() or self._link_problem(server, profile)
            return description | {"mechanism": ["container"], "uncovered": [], "problem": problem}
        return description | {
            "mechanism": _mechanism_names(self.mechanisms, profile),
            "uncovered": uncovered(profile, self.mechanisms),
            "problem": self._cage_problem(server, profile),
        }

    def _cage_problem(self, server: Server, profile: SandboxProfile) -> Message | None:
        try:
            require(profile, self.mechanisms)
            if not server.needs_folder:
                limited = profile.reads is not None
                cage_files(self._wide(server, profile), self._paths(server.name, limited=limited), ())
        except CageUnavailable as error:
            return error.message
        return self._link_problem(server, profile)

    def _link_problem(self, server: Server, profile: SandboxProfile) -> Message | None:
        return self._pinned.problem(server.name, self._record(server.name), self._written(server, profile))

    def container_problem(self) -> Message | None:
        """Return why containers cannot be run here; None if they can."""
        try:
            find_engine(self._environment)
        except CageUnavailable as error:
            return error.message
        return None

    def _in_container(self, server: Server) -> Server:
        engine = find_engine(self._environment)
        command = [*([server.command] if server.command else ()), *server.args]
        cwd = server.cwd if server.cwd_given else None
        profile = None if server.sandbox is None else self._wide(server, server.sandbox)
        if profile is not None:
            self._pinned.require(server.name, self._record(server.name), self._written(server, profile))
            there = tuple(path for path in profile.writes if os.path.exists(path))
            read = tuple(path for path in profile.reads or () if os.path.exists(path))
            real = structs.replace(profile, writes=there, reads=read)
            cage_files(real, self._paths(server.name, limited=False), ())  # may refuse a path
        args = container_arguments(server.image, command, sorted(server.env), cwd, profile)
        return structs.replace(server, command=engine, args=tuple(args), cwd=None, image="", sandbox=None)

    def _wide(self, server: Server, profile: SandboxProfile) -> SandboxProfile:
        """Return the profile with the working directory among its writes, if the preset includes that."""
        if profile.preset != "files" or not server.cwd_given or server.cwd is None:
            return profile
        return structs.replace(profile, writes=tuple(dict.fromkeys((server.cwd, *profile.writes))))

    def _paths(self, name: str, *, limited: bool) -> CagePaths:
        """Return the paths for a server whose reads are ``limited``, or not."""
        home = self._home_of_user
        own = [self._home, *self._own_files, *(Path(f"{path}.bak") for path in self._own_files)]
        return CagePaths(
            own=tuple(dict.fromkeys(os.path.realpath(path) for path in own)),
            protected=_real([*protected_paths(home), *command_sockets(os.getuid())]),
            protected_names=tuple(protected_paths(home)),
            tools=_real(tool_folders(home)) if limited else (),
            private=os.path.realpath(self.private_folder(name)),
        )

    def _create_groups(self, profile: SandboxProfile) -> list[GroupFiles] | None:
        # Joining a group takes the kernel up to 20 ms, so only a server with such limits gets one.
        if self.mechanisms.sandbox_exec or not (profile.memory or profile.processes):
            return None
        groups = self._groups.create(f"tabane-{os.getpid()}-{next(self._numbers)}", profile)
        if groups is None and profile.processes and self.mechanisms.root:
            raise CageUnavailable(
                say(
                    "The number of processes cannot be limited here: the hub runs as root, whom the kernel "
                    "does not limit, and no control group can be created. Run it as another user, or remove "
                    '"processes" from the sandbox.'
                )
            )
        return groups


_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real paths of those that exist."""
    return tuple(os.path.realpath(path) for path in paths if os.path.lexists(path))


def _program_paths(server: Server, env: Mapping[str, str]) -> list[str]:
    """Return what the command itself needs to be read: its program, and the files that its arguments name."""
    found: list[str] = []
    program = which(server.command, path=env.get("PATH"))
    for path in (program, program and os.path.realpath(program)):
        if path:
            folder = os.path.dirname(path)
            parent = os.path.dirname(folder)
            whole = os.path.basename(folder) == "bin" and parent not in ("/", env.get("HOME"))
            found.append(parent if whole else path)
    found += [arg for arg in server.args if arg.startswith("/") and os.path.exists(arg) and arg != "/"]
    return [os.path.realpath(path) for path in found] + found


_REGISTRY_FILES = (
    *(".npmrc", ".yarnrc.yml", ".netrc", ".config/uv", ".config/pip", ".pip", ".config/npm", ".bunfig.toml"),
    *(".config/deno", ".gitconfig", ".config/git", ".git-credentials"),
)
"""Settings of package managers, in the user's home folder."""

_REGISTRY_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NPM_CONFIG_USERCONFIG", "NPM_CONFIG_CAFILE", "UV_CONFIG_FILE", "PIP_CONFIG_FILE", "NETRC"),
)


def _mechanism_names(mechanisms: CageMechanisms, profile: SandboxProfile) -> list[str]:
    """Return the names of the mechanisms that enforce a cage."""
    if mechanisms.sandbox_exec:
        return ["sandbox-exec"]
    if not mechanisms.suffice:
        return []
    found = ["bubblewrap"] if mechanisms.bubblewrap else []
    found += [f"landlock {mechanisms.landlock}"] if mechanisms.landlock else []
    return [*found, "seccomp", *(["proxy"] if profile.network == "hosts" else [])]
